// Worlds of processes: each rank is one, which this one forks, meets the others by files, and says
// by how it ends whether all went well.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/store.h"

namespace holdfast::testing {

// Keys are files of a folder. Whole values appear at once: they are linked in.
class FileStore final : public Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  Status set(const std::string& key, const std::string& value) override {
    std::filesystem::rename(write(value), path(key));
    return Status::ok();
  }
  Result<std::string> get(const std::string& key, Duration timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(path(key))) {
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status{Code::kTimeout, "no key " + key};
      }
      ::usleep(1000);
    }
    return read(key);
  }
  bool tells_at_once() const override { return true; }
  Result<bool> has(const std::string& key) override { return std::filesystem::exists(path(key)); }
  Result<std::string> set_once(const std::string& key, const std::string& value) override {
    const std::string made = write(value);
    std::error_code taken;
    std::filesystem::create_hard_link(made, path(key), taken);
    std::filesystem::remove(made);
    return read(key);
  }

 private:
  std::string path(const std::string& key) const {
    std::ostringstream name;
    for (const char c : key) name << std::hex << static_cast<int>(static_cast<unsigned char>(c));
    return folder_ + "/" + name.str();
  }
  std::string write(const std::string& value) {
    const std::string name = folder_ + "/." + std::to_string(::getpid()) + "." +
                             std::to_string(number_.fetch_add(1, std::memory_order_relaxed));
    std::ofstream(name) << value;
    return name;
  }
  std::string read(const std::string& key) const {
    std::ostringstream text;
    text << std::ifstream(path(key)).rdbuf();
    return text.str();
  }

  std::string folder_;
  std::atomic<unsigned> number_{0};
};

struct Ending {
  int signal = 0;     // that ended it
  int code = -1;      // or its exit code
  std::string words;  // what it has said, on stderr too
};

// Runs `body` as every rank of a world of processes; it returns what went wrong, if anything did.
inline std::vector<Ending> run_processes(int size,
                                         const std::function<std::string(int, Store&)>& body) {
  char folder[] = "/tmp/holdfast-test-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const auto words_of = [&](int rank) {
    return std::string(folder) + "/words." + std::to_string(rank);
  };
  std::vector<pid_t> children;
  for (int r = 0; r < size; ++r) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (std::freopen(words_of(r).c_str(), "w", stderr) == nullptr) ::_exit(3);
      ::alarm(400);
      FileStore store(folder);
      const std::string wrong = body(r, store);
      if (!wrong.empty()) std::fprintf(stderr, "wrong: %s\n", wrong.c_str());
      std::fflush(stderr);
      ::_exit(wrong.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  std::vector<Ending> endings;
  for (int r = 0; r < size; ++r) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(r)], &status, 0);
    std::ostringstream words;
    words << std::ifstream(words_of(r)).rdbuf();
    endings.push_back({WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                       WIFEXITED(status) ? WEXITSTATUS(status) : -1, words.str()});
  }
  std::filesystem::remove_all(folder);
  return endings;
}

}  // namespace holdfast::testing

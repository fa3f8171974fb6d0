// Stores for C programs: a shared directory, and a store made of the caller's functions.
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "handles.h"

namespace holdfast::c {
namespace {

// Polling starts fast, for ranks that start together, and slows down for ranks that wait long.
constexpr auto kFirstPause = std::chrono::microseconds(500);
constexpr auto kLongestPause = std::chrono::milliseconds(20);
// Limit of a value; member cards are far smaller.
constexpr std::size_t kMaxValueBytes = 1 << 20;

std::string quoted(const std::string& key) {
  std::string name;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::strchr("_.-~", c) != nullptr) {
      name += c;
      continue;
    }
    char text[4];
    std::snprintf(text, sizeof text, "%%%02X", byte);
    name += text;
  }
  return name;
}

class Directory final : public Store {
 public:
  explicit Directory(std::filesystem::path path) : path_(std::move(path)) {}

  // Writes under another name first, so that readers see the whole value or none.
  Status set(const std::string& key, const std::string& value) override {
    const auto draft = draft_of(key);
    TRY(write(draft, value));
    std::error_code error;
    std::filesystem::rename(draft, path_ / quoted(key), error);
    if (error) return {Code::kSystem, "cannot rename " + draft.string() + ": " + error.message()};
    return Status::ok();
  }

  // Of several processes, only one succeeds in making the link.
  Result<std::string> set_once(const std::string& key, const std::string& value) override {
    const auto draft = draft_of(key);
    TRY(write(draft, value));
    std::error_code error;
    std::filesystem::create_hard_link(draft, path_ / quoted(key), error);
    std::error_code ignored;
    std::filesystem::remove(draft, ignored);
    if (error && error != std::errc::file_exists) {
      return Status{Code::kSystem, "cannot link " + draft.string() + ": " + error.message()};
    }
    return get(key, Duration::zero());
  }

  bool tells_at_once() const override { return true; }

  Result<bool> has(const std::string& key) override {
    std::error_code error;
    const bool there = std::filesystem::exists(path_ / quoted(key), error);
    if (!error) return there;
    return Status{Code::kSystem, "cannot read " + path_.string() + ": " + error.message()};
  }

  Result<std::string> get(const std::string& key, Duration timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const auto path = path_ / quoted(key);
    Duration pause = kFirstPause;
    for (;;) {
      std::ifstream file(path, std::ios::binary);
      if (file) {
        return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status{Code::kTimeout,
                      "store " + path_.string() + ": key " + key + " was not set in time"};
      }
      std::this_thread::sleep_for(pause);
      pause = std::min<Duration>(2 * pause, kLongestPause);
    }
  }

 private:
  std::filesystem::path draft_of(const std::string& key) const {
    return path_ / ("." + std::to_string(::getpid()) + "." + quoted(key));
  }

  static Status write(const std::filesystem::path& path, const std::string& value) {
    std::ofstream file(path, std::ios::binary);
    file << value;
    if (!file.flush()) return {Code::kSystem, "cannot write " + path.string()};
    return Status::ok();
  }

  const std::filesystem::path path_;
};

class Functions final : public Store {
 public:
  explicit Functions(const hf_store_functions& functions) : functions_(functions) {}

  Status set(const std::string& key, const std::string& value) override {
    const hf_status status =
        functions_.set(functions_.context, key.c_str(), value.data(), value.size());
    if (status == HF_OK) return Status::ok();
    return {static_cast<Code>(status), "the store's set() failed for key " + key};
  }

  Result<std::string> get(const std::string& key, Duration timeout) override {
    std::string value(kMaxValueBytes, '\0');
    std::size_t length = 0;
    const hf_status status = functions_.get(functions_.context, key.c_str(), timeout.count(),
                                            value.data(), value.size(), &length);
    if (status != HF_OK) {
      return Status{static_cast<Code>(status), "the store's get() failed for key " + key};
    }
    if (length > value.size()) {
      return Status{Code::kProtocolError, "the store's value of " + key + " has " +
                                              std::to_string(length) + " bytes, at most " +
                                              std::to_string(kMaxValueBytes) + " are accepted"};
    }
    value.resize(length);
    return value;
  }

 private:
  const hf_store_functions functions_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || ::access(path.c_str(), W_OK) != 0) {
    return Status{Code::kConfigError, "store directory " + path + ": " +
                                          (error ? error.message() : std::strerror(errno))};
  }
  return std::unique_ptr<Store>(std::make_unique<Directory>(path));
}

}  // namespace holdfast::c

using namespace holdfast;

hf_status hf_store_directory(const char* path, hf_store** store) {
  return c::guarded([&]() -> Status {
    if (path == nullptr || store == nullptr) return c::missing("path or store");
    auto opened = c::open_directory(path);
    if (!opened.is_ok()) return opened.status();
    *store = new hf_store{std::move(opened).value()};
    return Status::ok();
  });
}

hf_status hf_store_custom(const hf_store_functions* functions, hf_store** store) {
  return c::guarded([&]() -> Status {
    if (functions == nullptr || store == nullptr) return c::missing("functions or store");
    if (functions->size != sizeof(hf_store_functions)) {
      return {Code::kConfigError, "hf_store_functions.size is " + std::to_string(functions->size) +
                                      "; accepted: " + std::to_string(sizeof(hf_store_functions))};
    }
    if (functions->set == nullptr || functions->get == nullptr) return c::missing("set or get");
    *store = new hf_store{std::make_unique<c::Functions>(*functions)};
    return Status::ok();
  });
}

void hf_store_free(hf_store* store) { delete store; }

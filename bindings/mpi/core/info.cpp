#include "mpi/core/info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>

#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi {

namespace {

template <class Entries>
auto find(Entries& entries, std::string_view key) {
  return std::find_if(entries.begin(), entries.end(),
                      [&](const InfoEntry& entry) { return entry.key == key; });
}

}  // namespace

std::optional<std::string> Info::get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto at = find(entries_, key);
  if (at == entries_.end()) return std::nullopt;
  return at->value;
}

bool Info::set(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  const auto at = find(entries_, key);
  if (at != entries_.end()) {
    at->value = value;
    return true;
  }
  if (entries_.size() == kMostKeys) return false;
  entries_.push_back({std::string(key), std::string(value)});
  return true;
}

bool Info::erase(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto at = find(entries_, key);
  if (at == entries_.end()) return false;
  entries_.erase(at);
  return true;
}

std::size_t Info::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::optional<std::string> Info::key(std::size_t n) const {
  const std::lock_guard lock(mutex_);
  if (n >= entries_.size()) return std::nullopt;
  return entries_[n].key;
}

std::vector<InfoEntry> Info::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::vector<InfoEntry> environment(const int* argc, char* const* argv) {
  std::vector<InfoEntry> entries;
  if (argc != nullptr && argv != nullptr && *argc > 0 && argv[0] != nullptr) {
    entries.push_back({"command", argv[0]});
    std::string rest;
    for (int i = 1; i < *argc && argv[i] != nullptr; ++i) {
      if (i > 1) rest += ' ';
      rest += argv[i];
    }
    if (!rest.empty()) entries.push_back({"argv", rest});
  }
  utsname machine{};
  if (uname(&machine) == 0) {
    entries.push_back({"host", machine.nodename});
    entries.push_back({"arch", machine.machine});
  }
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) != nullptr) entries.push_back({"wdir", folder});
  return entries;
}

namespace {

// A program's arguments belong to its main function; the system knows them at any time.
std::vector<InfoEntry> environment_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> texts;
  for (std::string text; std::getline(file, text, '\0');) texts.push_back(text);
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  return environment(&argc, argv.data());
}

}  // namespace

void predefine_infos(Registry& registry) {
  registry.predefine<Info>(kInfoEnv, environment_of_process());
}

}  // namespace holdfast::mpi

#include "runtime/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/forks.h"
#include "health/json.h"

namespace holdfast::runtime {
namespace {

int open_log(const std::string& path) {
  return open_unforked([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
                  S_IRUSR | S_IWUSR);
  });
}

// "2026-11-27T15:04:05.678Z" (RFC 3339).
std::string time_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", day.data(), static_cast<int>(ms % 1000));
  return text.data();
}

}  // namespace

Result<std::shared_ptr<AuditLog>> AuditLog::open(const std::string& path) {
  const int fd = open_log(path);
  if (fd < 0) {
    return Status{Code::kConfigError, "option audit_file " + path + ": " + std::strerror(errno)};
  }
  return std::shared_ptr<AuditLog>(new AuditLog(path, fd));
}

AuditLog::~AuditLog() { close_unforked(fd_); }

void AuditLog::write(const std::string& event, const std::string& address, const CallerFacts& facts,
                     const std::string& why) {
  const std::lock_guard lock(mutex_);
  const Instant now = clock_.now();
  const double waited = std::chrono::duration<double>(now - std::exchange(filled_, now)).count();
  room_ = std::min(kBurst, room_ + waited * kPerSecond);
  if (room_ < 1) {
    ++left_out_;
    return;
  }
  room_ -= 1;
  health::JsonWriter json;
  json.open("", '{');
  json.text("time", time_text());
  json.text("event", event);
  json.text("address", address);
  for (const auto& [name, value] : {std::pair{"token", &facts.token},
                                    {"subject", &facts.subject},
                                    {"certificate", &facts.certificate},
                                    {"run", &facts.run},
                                    {"key", &facts.key},
                                    {"user", &facts.user},
                                    {"why", &why}}) {
    if (!value->empty()) json.text(name, *value);
  }
  if (left_out_ > 0) json.number("left_out", std::exchange(left_out_, 0));
  json.close('}');
  const std::string line = json.take() + "\n";
  struct stat about {};
  const bool full = ::fstat(fd_, &about) == 0 &&
                    static_cast<std::uint64_t>(about.st_size) + line.size() > kMostBytes;
  if (full) rotate(about.st_ino);
  [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
}

// Processes may share the file: the first that finds it full names it anew. Where it cannot be
// renamed, the log goes on in the one that it has. `full`: the inode of the file that is open.
void AuditLog::rotate(std::uint64_t full) {
  const auto old = [this](int number) { return path_ + "." + std::to_string(number); };
  struct stat named {};
  const bool is_first = ::stat(path_.c_str(), &named) == 0 && named.st_ino == full;
  if (is_first) {
    for (int number = kMostOldFiles - 1; number > 0; --number) {
      ::rename(old(number).c_str(), old(number + 1).c_str());
    }
    if (::rename(path_.c_str(), old(1).c_str()) != 0) return;
  }
  const int fd = open_log(path_);
  if (fd < 0) return;
  close_unforked(std::exchange(fd_, fd));
}

}  // namespace holdfast::runtime

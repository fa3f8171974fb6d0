// Audit log: who came to a process's door, what became of it, and why, in lines of JSON. A flood
// costs a bounded number of lines, and files: what is left out is counted in the next line.
// Processes of one host may share a file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace holdfast::runtime {

// What a connection has proven of its caller; empty: nothing.
struct CallerFacts {
  std::string token;             // its serial
  std::string run;               // of the token, or that a certificate's holder asks for
  std::string key;               // its fingerprint
  std::string subject = {};      // of a certificate, in place of a token
  std::string certificate = {};  // its serial number
  std::string user = {};         // of pages: whose credential it is
};

// Any thread.
class AuditLog {
 public:
  // Lines in a row, and per second after them.
  static constexpr double kBurst = 100;
  static constexpr double kPerSecond = 10;
  // A file that is longer is named FILE.1, that one FILE.2, and so on, up to this.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
  static constexpr int kMostOldFiles = 3;

  // Appends to a file that only its owner may read; makes it if there is none. kConfigError, with
  // the reason.
  static Result<std::shared_ptr<AuditLog>> open(const std::string& path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // `event`: "let in", "refused", "shown out", "page refused", "admin kick" and the like; `why`: ""
  // if there is nothing to say. What cannot be written is left out.
  void write(const std::string& event, const std::string& address, const CallerFacts& facts,
             const std::string& why);

 private:
  AuditLog(std::string path, int fd) : path_(std::move(path)), fd_(fd), filled_(clock_.now()) {}
  void rotate(std::uint64_t full);

  const std::string path_;
  const MonotonicClock clock_;
  std::mutex mutex_;  // guards the rest
  int fd_;
  double room_ = kBurst;  // lines that may be written now
  Instant filled_;
  std::uint64_t left_out_ = 0;
};

}  // namespace holdfast::runtime

// The audit log: lines that a program can read, of which a flood writes few.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/audit_log.h"

namespace holdfast::runtime {
namespace {

// A folder of its own, which goes when this does.
class LogFolder {
 public:
  LogFolder() {
    const char* parent = std::getenv("TMPDIR");
    std::string name = std::string(parent != nullptr ? parent : "/tmp") + "/holdfast-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~LogFolder() {
    for (const char* ending : {"", ".1", ".2", ".3", ".4"}) ::unlink((path() + ending).c_str());
    ::rmdir(folder_.c_str());
  }
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  std::string path() const { return folder_ + "/audit"; }
  bool has(const std::string& ending) const {
    return ::access((path() + ending).c_str(), F_OK) == 0;
  }
  std::vector<std::string> lines(const std::string& ending = "") const {
    std::ifstream file(path() + ending);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::string folder_;
};

TEST_CASE("a line says when, from where, who, what and why") {
  const LogFolder folder;
  const auto log = AuditLog::open(folder.path()).value();
  log->write("refused", "192.0.2.7", {"0a", "run7", "ff"}, "the \"token\"\nwas revoked");
  log->write("let in", "2001:db8::7", {}, "");
  log->write("let in", "192.0.2.8", {"", "run7", "ee", "CN=\\\"a\\\"", "0B"}, "");
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 3);
  CHECK(
      lines[2].ends_with("\"address\":\"192.0.2.8\",\"subject\":\"CN=\\\\\\\"a\\\\\\\"\","
                         "\"certificate\":\"0B\",\"run\":\"run7\",\"key\":\"ee\"}"));
  CAPTURE(lines[0]);
  CHECK(lines[0].starts_with("{\"time\":\"20"));
  CHECK(lines[0].find("Z\",\"event\":\"refused\",\"address\":\"192.0.2.7\",\"token\":\"0a\",") !=
        std::string::npos);
  CHECK(lines[0].ends_with("\"why\":\"the \\\"token\\\"\\u000awas revoked\"}"));
  CHECK(lines[1].ends_with("\"event\":\"let in\",\"address\":\"2001:db8::7\"}"));
  struct stat about {};
  REQUIRE(::stat(folder.path().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777U) == 0600U);
}

TEST_CASE("a flood writes few lines, and says how many it left out") {
  const LogFolder folder;
  const auto log = AuditLog::open(folder.path()).value();
  constexpr int kFlood = 20'000;
  for (int i = 0; i < kFlood; ++i) log->write("refused", "192.0.2.7", {}, "garbage");
  const auto lines = folder.lines();
  CHECK(lines.size() >= AuditLog::kBurst);
  CHECK(lines.size() < AuditLog::kBurst + 100);
  const auto after = AuditLog::open(folder.path()).value();
  after->write("let in", "192.0.2.8", {}, "");
  CHECK(folder.lines().size() == lines.size() + 1);
}

TEST_CASE("a long file gets another name, whoever of its writers finds it so") {
  const LogFolder folder;
  const auto one = AuditLog::open(folder.path()).value();
  const auto other = AuditLog::open(folder.path()).value();
  REQUIRE(::truncate(folder.path().c_str(), AuditLog::kMostBytes) == 0);
  one->write("let in", "192.0.2.1", {}, "");
  other->write("let in", "192.0.2.2", {}, "");
  CHECK(folder.has(".1"));
  CHECK_FALSE(folder.has(".2"));
  CHECK(folder.lines().size() == 2);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(::truncate(folder.path().c_str(), AuditLog::kMostBytes) == 0);
    one->write("let in", "192.0.2.1", {}, "");
  }
  CHECK(folder.has(".3"));
  CHECK_FALSE(folder.has(".4"));
}

TEST_CASE("a log that cannot be written is told at once") {
  const Status status = AuditLog::open("/nowhere/at/all").status();
  CHECK(status.code() == Code::kConfigError);
  CHECK(status.message() == "option audit_file /nowhere/at/all: No such file or directory");
}

}  // namespace
}  // namespace holdfast::runtime

#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace holdfast {
namespace {

// Closes a descriptor at the end of its scope.
struct OpenFile {
  explicit OpenFile(int number) : fd(number) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int fd;
};

Status refuse_file(const SmallFile& file, const std::string& why) {
  return {Code::kConfigError, file.option + " " + file.path + ": " + why};
}

// `advice`: null for a file that others may read.
Result<std::string> read_checked(const SmallFile& file, const SecretAdvice* advice) {
  const OpenFile open(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (open.fd < 0) {
    const std::string why = std::strerror(errno);
    return refuse_file(file, advice == nullptr ? why : why + "; " + advice->how_made);
  }
  struct stat about {};
  if (::fstat(open.fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    return refuse_file(file, "this is no file");
  }
  if (advice != nullptr && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", about.st_mode & 07777U);
    return refuse_file(file, std::string("others may use it (mode ") + mode.data() +
                                 "); accepted: 0600 or 0400. Run chmod 600 on it, and make a new " +
                                 advice->what + " if others may have read this one");
  }
  // Reserved whole, so that no piece of a secret is left behind where it grew.
  std::string text(file.most_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(open.fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refuse_file(file, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > file.most_bytes) {
    explicit_bzero(text.data(), text.size());
    return refuse_file(file, "more than " + std::to_string(file.most_bytes) + " bytes");
  }
  text.resize(size);
  return text;
}

}  // namespace

Result<std::string> read_small_file(const SmallFile& file) { return read_checked(file, nullptr); }

Result<std::string> read_private_file(const SmallFile& file, const SecretAdvice& advice) {
  return read_checked(file, &advice);
}

}  // namespace holdfast

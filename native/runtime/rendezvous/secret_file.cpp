#include "runtime/rendezvous/secret_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/small_file.h"

namespace holdfast::runtime {
namespace {

using secure::Secret;

constexpr std::size_t kMostSecretFileBytes = 4096;

Status refuse_secret_file(const std::string& path, const std::string& why) {
  return {Code::kConfigError, "secret_file " + path + ": " + why};
}

// Closes its descriptor at the end of its scope.
struct NewFile {
  explicit NewFile(int number) : fd(number) {}
  ~NewFile() {
    if (fd >= 0) ::close(fd);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  const int fd;
};

}  // namespace

Result<Secret> read_secret_file(const std::string& path) {
  auto text =
      read_private_file({"secret_file", path, kMostSecretFileBytes},
                        {"`holdfast secret FILE` makes one, to be copied to all hosts", "secret"});
  if (!text.is_ok()) return text.status();
  auto secret = secure::parse_secret_file(text.value());
  secure::wipe(std::as_writable_bytes(std::span(text.value())));
  if (!secret.is_ok()) return refuse_secret_file(path, secret.status().message());
  return secret;
}

Result<std::vector<Secret>> read_secret_files(const std::string& paths) {
  std::vector<Secret> secrets;
  for (std::size_t at = 0; at <= paths.size();) {
    const std::size_t end = std::min(paths.find(',', at), paths.size());
    if (secrets.size() == secure::KeyRing::kMaxSecrets) {
      return refuse_secret_file(paths,
                                "accepted: one file, or two while one secret replaces the other");
    }
    auto secret = read_secret_file(paths.substr(at, end - at));
    if (!secret.is_ok()) return secret.status();
    secrets.push_back(std::move(secret).value());
    at = end + 1;
  }
  return secrets;
}

Status make_secret_file(const std::string& path) {
  std::array<std::byte, secure::kSecretBytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return refuse_secret_file(path, "this system has no random numbers");
  }
  const Secret secret{bytes};
  secure::wipe(bytes);
  const NewFile file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR));
  if (file.fd < 0) {
    const bool there = errno == EEXIST;
    return refuse_secret_file(
        path, std::string(std::strerror(errno)) +
                  (there ? "; a secret in use is not written over: name another file" : ""));
  }
  std::string text = secure::secret_file_text(secret);
  const ssize_t written = ::write(file.fd, text.data(), text.size());
  const bool sound = written == static_cast<ssize_t>(text.size()) && ::fsync(file.fd) == 0;
  secure::wipe(std::as_writable_bytes(std::span(text)));
  return sound ? Status::ok() : refuse_secret_file(path, std::strerror(errno));
}

Result<secure::Token> read_token_file(const std::string& path) {
  auto text = read_private_file({"token_file", path, kMostSecretFileBytes},
                                {"`holdfast token new` prints one", "token"});
  if (!text.is_ok()) return text.status();
  auto token = secure::parse_token(text.value());
  secure::wipe(std::as_writable_bytes(std::span(text.value())));
  if (!token.is_ok()) {
    return Status{Code::kConfigError, "token_file " + path + ": " + token.status().message()};
  }
  return token;
}

Status append_revoked(const std::string& secret_files, const secure::Serial& serial) {
  const std::string path = secret_files.substr(0, secret_files.find(',')) + ".revoked";
  const NewFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
                            S_IRUSR | S_IWUSR));
  const std::string line = secure::serial_text(serial) + "\n";
  const bool sound = file.fd >= 0 &&
                     ::write(file.fd, line.data(), line.size()) == ssize_t(line.size()) &&
                     ::fsync(file.fd) == 0;
  if (sound) return Status::ok();
  return {Code::kSystem,
          "it is revoked until this coordinator ends; the next one will not know, for " + path +
              " cannot be written: " + std::strerror(errno)};
}

}  // namespace holdfast::runtime

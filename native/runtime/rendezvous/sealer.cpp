#include "runtime/rendezvous/sealer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/small_file.h"

namespace holdfast::runtime {
namespace {

using secure::KeyRing;
using secure::Secret;
using secure::TokenClaims;
using secure::UnixTime;

// All that have the secret are of one run, whatever it is called: a run's name is for tokens that
// are given to others.
constexpr const char* kRun = "holders-of-the-secret";
// A process makes a token for each call. Clocks may differ by less.
constexpr std::int64_t kTokenSeconds = std::int64_t{7} * 24 * 3600;
constexpr std::size_t kMostSecretFileBytes = 4096;

UnixTime unix_now() {
  return {std::chrono::duration_cast<std::chrono::seconds>(
              std::chrono::system_clock::now().time_since_epoch())
              .count()};
}

bool fill_randomly(std::span<std::byte> bytes) {
  return ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

Status refuse(const std::string& path, const std::string& why) {
  return {Code::kConfigError, "secret_file " + path + ": " + why};
}

// Closes a descriptor at the end of its scope.
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
  if (!secret.is_ok()) return refuse(path, secret.status().message());
  return secret;
}

Status make_secret_file(const std::string& path) {
  std::array<std::byte, secure::kSecretBytes> bytes{};
  if (!fill_randomly(bytes)) return refuse(path, "this system has no random numbers");
  const Secret secret{bytes};
  secure::wipe(bytes);
  const NewFile file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR));
  if (file.fd < 0) {
    const bool there = errno == EEXIST;
    return refuse(path,
                  std::string(std::strerror(errno)) +
                      (there ? "; a secret in use is not written over: name another file" : ""));
  }
  std::string text = secure::secret_file_text(secret);
  const ssize_t written = ::write(file.fd, text.data(), text.size());
  const bool sound = written == static_cast<ssize_t>(text.size()) && ::fsync(file.fd) == 0;
  secure::wipe(std::as_writable_bytes(std::span(text)));
  return sound ? Status::ok() : refuse(path, std::strerror(errno));
}

Result<std::shared_ptr<const Sealer>> Sealer::open(const std::string& secret_file) {
  auto secret = read_secret_file(secret_file);
  if (!secret.is_ok()) return secret.status();
  std::vector<Secret> secrets;
  secrets.push_back(std::move(secret).value());
  auto ring = KeyRing::make(std::move(secrets));
  if (!ring.is_ok()) return ring.status();
  auto context = secure::TlsContext::for_tokens();
  if (!context.is_ok()) return context.status();
  return std::shared_ptr<const Sealer>(
      new Sealer(std::move(ring).value(), std::move(context).value()));
}

Result<std::unique_ptr<TlsSeal>> Sealer::call() const {
  TokenClaims claims;
  if (!fill_randomly(claims.serial.bytes)) {
    return Status{Code::kSystem, "this system has no random numbers"};
  }
  claims.run = kRun;
  claims.not_after = {unix_now().value + kTokenSeconds};
  auto token = ring_->mint(std::move(claims));
  if (!token.is_ok()) return token.status();
  secure::TlsTerms terms;
  terms.now = unix_now();
  terms.token = &token.value();
  auto session = secure::TlsSession::client(context_, std::move(terms));
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value());
}

Result<std::unique_ptr<TlsSeal>> Sealer::answer() const {
  secure::TlsTerms terms;
  terms.now = unix_now();
  terms.key_of = [ring = ring_](std::span<const std::byte> bytes) -> Result<Secret> {
    auto claims = secure::parse_claims(bytes);
    if (!claims.is_ok()) return claims.status();
    return ring->admit(claims.value(), {kRun, unix_now()});
  };
  auto session = secure::TlsSession::server(context_, std::move(terms));
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value());
}

}  // namespace holdfast::runtime

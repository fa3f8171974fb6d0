// Rates of TLS sessions on one core: write, feed and read of the same bytes, beside AES-GCM by
// OpenSSL's EVP, which encrypts and decrypts them in one piece and does nothing else. JSON lines,
// one to contestant and size.
//
//   cmake -DHOLDFAST_TESTS=ON ... && seal_rates [seconds of a turn]
//
// Contestants take turns. A ratio is the median over the turns of EVP's time by the contestant's in
// the same turn, with the same cipher; the rate is that of the best turn. Bytes count once, though
// each is encrypted and decrypted.
//
// Then the same bytes from one process to another over loopback, as they are and sealed. `to_both`
// is the median of what plain TCP and AES-GCM of one end take one after the other, by what the
// sealed connection takes; `cpu_to_both` is the same of the processor time of both ends, which
// neighbours on the machine change less.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/tls_seal.h"
#include "secure/tls_session.h"

namespace holdfast::secure {
namespace {

constexpr int kTurns = 15;
// Of one message, and of what is sent before the other end says that all has come.
constexpr std::size_t kMessageBytes = std::size_t{1} << 20;
constexpr std::size_t kMessages = 32;

struct Sealer {
  std::string name;
  std::string cipher;
  std::size_t yardstick;  // its place among the contestants
  std::function<void()> once;
  std::vector<double> seconds{};
  // Of a process besides this one, 0: there is none.
  pid_t helper = 0;
  std::vector<double> cpu_seconds{};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void must(bool holds) {
  if (!holds) std::abort();
}

double cpu_now(pid_t helper) {
  const auto seconds = [](clockid_t clock) {
    timespec time{};
    must(::clock_gettime(clock, &time) == 0);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  clockid_t others{};
  if (helper != 0) must(::clock_getcpuclockid(helper, &others) == 0);
  return seconds(CLOCK_PROCESS_CPUTIME_ID) + (helper != 0 ? seconds(others) : 0);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double ratio(const Sealer& yardstick, const Sealer& each) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < each.seconds.size(); ++i) {
    ratios.push_back(yardstick.seconds[i] / each.seconds[i]);
  }
  return median(std::move(ratios));
}

void take_turns(std::vector<Sealer>& all, double turn_seconds) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Sealer& each : all) {
      each.once();
      int times = 0;
      const double cpu = cpu_now(each.helper);
      const double start = now();
      do {
        each.once();
        ++times;
      } while (now() - start < turn_seconds);
      each.seconds.push_back((now() - start) / times);
      each.cpu_seconds.push_back((cpu_now(each.helper) - cpu) / times);
    }
  }
}

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

// One piece encrypted and decrypted, as a call each.
class PlainCipher {
 public:
  PlainCipher(const EVP_CIPHER* cipher, std::size_t bytes)
      : cipher_(cipher), sealed_(bytes), opened_(bytes) {}

  void carry(const std::vector<std::byte>& bytes) {
    static constexpr unsigned char kKey[32] = {1};
    static constexpr unsigned char kNonce[12] = {2};
    unsigned char tag[16];
    const auto size = static_cast<int>(bytes.size());
    int done = 0;
    auto* context = context_.get();
    const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
    must(EVP_EncryptInit_ex(context, cipher_, nullptr, kKey, kNonce) == 1);
    must(EVP_EncryptUpdate(context, sealed_.data(), &done, from, size) == 1);
    must(EVP_EncryptFinal_ex(context, sealed_.data() + done, &done) == 1);
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag) == 1);
    must(EVP_DecryptInit_ex(context, cipher_, nullptr, kKey, kNonce) == 1);
    must(EVP_DecryptUpdate(context, opened_.data(), &done, sealed_.data(), size) == 1);
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag) == 1);
    must(EVP_DecryptFinal_ex(context, opened_.data() + done, &done) == 1);
  }

 private:
  const EVP_CIPHER* cipher_;
  std::unique_ptr<EVP_CIPHER_CTX, FreeCipher> context_{EVP_CIPHER_CTX_new()};
  std::vector<unsigned char> sealed_;
  std::vector<unsigned char> opened_;
};

struct TwoEnds {
  TlsSession client;
  TlsSession server;

  void shake_hands() {
    while (!client.outgoing().empty() || !server.outgoing().empty()) {
      server.feed(client.take_outgoing());
      client.feed(server.take_outgoing());
    }
    must(client.state() == TlsState::kOpen && server.state() == TlsState::kOpen);
  }
  void carry(const std::vector<std::byte>& bytes, std::vector<std::byte>& to) {
    must(client.write(bytes).is_ok());
    server.feed(client.outgoing());
    client.sent(client.outgoing().size());
    must(server.read(to) == bytes.size());
  }
};

TwoEnds by_key() {
  const Identity one = std::move(Identity::generate()).value();
  const TlsContext context = std::move(TlsContext::of_identity(one)).value();
  const auto terms = [] {
    TlsTerms any;
    any.accepts = [](const Fingerprint&) { return Status::ok(); };
    return any;
  };
  return {std::move(TlsSession::client(context, terms())).value(),
          std::move(TlsSession::server(context, terms())).value()};
}

TwoEnds by_token() {
  std::vector<Secret> secrets;
  secrets.emplace_back(std::array<std::byte, kSecretBytes>{});
  const KeyRing ring = std::move(KeyRing::make(std::move(secrets))).value();
  TokenClaims claims;
  claims.run = "rates";
  const Token token = std::move(ring.mint(claims)).value();
  const TlsContext context = std::move(TlsContext::for_tokens()).value();
  TlsTerms client;
  client.token = &token;
  TlsTerms server;
  server.key_of = [key = std::make_shared<Secret>(token.key.copy())](
                      std::span<const std::byte>) -> Result<Secret> { return key->copy(); };
  return {std::move(TlsSession::client(context, std::move(client))).value(),
          std::move(TlsSession::server(context, std::move(server))).value()};
}

void measure(std::size_t bytes, double turn_seconds) {
  std::vector<std::byte> from(bytes, std::byte{5});
  std::vector<std::byte> to(bytes);
  PlainCipher aes256(EVP_aes_256_gcm(), bytes);
  PlainCipher aes128(EVP_aes_128_gcm(), bytes);
  TwoEnds keyed = by_key();
  TwoEnds tokened = by_token();
  keyed.shake_hands();
  tokened.shake_hands();
  std::vector<Sealer> all;
  all.push_back({"evp", "AES-256-GCM", 0, [&] { aes256.carry(from); }});
  all.push_back({"session by key", keyed.client.suite(), 0, [&] { keyed.carry(from, to); }});
  all.push_back({"evp", "AES-128-GCM", 2, [&] { aes128.carry(from); }});
  all.push_back({"session by token", tokened.client.suite(), 2, [&] { tokened.carry(from, to); }});
  take_turns(all, turn_seconds);
  for (const Sealer& each : all) {
    const double best = *std::ranges::min_element(each.seconds);
    std::printf(
        "{\"name\": \"%s\", \"cipher\": \"%s\", \"bytes\": %zu, \"gb_per_s\": %.3f, "
        "\"to_evp\": %.3f}\n",
        each.name.c_str(), each.cipher.c_str(), bytes, static_cast<double>(bytes) / best / 1e9,
        ratio(all[each.yardstick], each));
  }
  std::fflush(stdout);
}

// ---- over loopback

// Looks for a while before it sleeps, as ranks do.
void wait_for(int fd, short events) {
  constexpr double kLookSeconds = 2e-4;
  pollfd look{fd, events, 0};
  const double start = now();
  while (now() - start < kLookSeconds) {
    if (::poll(&look, 1, 0) == 1) return;
  }
  must(::poll(&look, 1, 60'000) == 1);
}

// One end of a TCP connection, sealed or not.
class LoopbackEnd {
 public:
  LoopbackEnd(int fd, std::unique_ptr<comm::Seal> seal) : fd_(fd), seal_(std::move(seal)) {}

  void send(std::span<std::byte> bytes) {
    while (!bytes.empty() || holds()) {
      const iovec part{bytes.data(), bytes.size()};
      const ssize_t sent = !seal_          ? ::send(fd_, part.iov_base, part.iov_len, kFlags)
                           : bytes.empty() ? (seal_->flush(fd_) ? 0 : -1)
                                           : seal_->send(fd_, {&part, 1});
      must(sent >= 0 || errno == EAGAIN);
      if (sent < 0) wait_for(fd_, POLLOUT);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  // False: the other end has gone.
  bool receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const iovec part{bytes.data(), bytes.size()};
      const ssize_t got = seal_ ? seal_->receive(fd_, {&part, 1})
                                : ::recv(fd_, part.iov_base, part.iov_len, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      if (got < 0) wait_for(fd_, POLLIN);
      if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  int fd() const { return fd_; }

 private:
  static constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  bool holds() const { return seal_ && seal_->holds(); }

  int fd_;
  std::unique_ptr<comm::Seal> seal_;
};

// The ends have a core each where there are two: on one they would take turns, and each byte would
// be encrypted and decrypted one after the other.
void take_core(int which) {
  cpu_set_t all{};
  must(::sched_getaffinity(0, sizeof all, &all) == 0);
  if (CPU_COUNT(&all) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || which-- != 0) continue;
    cpu_set_t one{};
    CPU_SET(core, &one);
    must(::sched_setaffinity(0, sizeof one, &one) == 0);
    return;
  }
}

std::pair<int, int> loopback_pair() {
  const int door = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  must(::bind(door, address, size) == 0 && ::listen(door, 1) == 0);
  must(::getsockname(door, address, &size) == 0);
  const int caller = ::socket(AF_INET, SOCK_STREAM, 0);
  must(::connect(caller, address, size) == 0);
  const int callee = ::accept(door, nullptr, nullptr);
  must(callee >= 0);
  ::close(door);
  return {caller, callee};
}

// A process that receives, and says when all has come; it goes with its connection.
class Loopback {
 public:
  // `seals`: of the two ends, or neither.
  explicit Loopback(std::array<std::unique_ptr<comm::Seal>, 2> seals) {
    const auto [ours, theirs] = loopback_pair();
    child_ = ::fork();
    must(child_ >= 0);
    if (child_ == 0) {
      ::close(ours);
      take_core(1);
      absorb(LoopbackEnd(theirs, std::move(seals[1])));
      ::_exit(0);
    }
    ::close(theirs);
    end_.emplace(ours, std::move(seals[0]));
  }
  ~Loopback() {
    ::close(end_->fd());
    ::waitpid(child_, nullptr, 0);
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  void carry(std::vector<std::byte>& bytes) {
    for (std::size_t i = 0; i < kMessages; ++i) end_->send(bytes);
    std::byte all{};
    must(end_->receive({&all, 1}));
  }
  pid_t helper() const { return child_; }

 private:
  static void absorb(LoopbackEnd end) {
    std::vector<std::byte> to(kMessageBytes);
    for (;;) {
      for (std::size_t i = 0; i < kMessages; ++i) {
        if (!end.receive(to)) return;
      }
      end.send(std::span(to).first(1));
    }
  }

  pid_t child_ = -1;
  std::optional<LoopbackEnd> end_;
};

std::array<std::unique_ptr<comm::Seal>, 2> seals_of(TwoEnds ends) {
  return {std::make_unique<runtime::TlsSeal>(std::move(ends.client)),
          std::make_unique<runtime::TlsSeal>(std::move(ends.server))};
}

void print_to_both(const Sealer& plain, const Sealer& evp, const Sealer& each) {
  const auto to_both = [&](std::vector<double> Sealer::*of) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < (each.*of).size(); ++i) {
      ratios.push_back(((plain.*of)[i] + (evp.*of)[i]) / (each.*of)[i]);
    }
    return median(std::move(ratios));
  };
  std::printf(", \"to_both\": %.3f, \"cpu_to_both\": %.3f", to_both(&Sealer::seconds),
              to_both(&Sealer::cpu_seconds));
}

void measure_loopback(double turn_seconds) {
  std::vector<std::byte> bytes(kMessageBytes, std::byte{5});
  PlainCipher aes256(EVP_aes_256_gcm(), kMessageBytes);
  PlainCipher aes128(EVP_aes_128_gcm(), kMessageBytes);
  TwoEnds by[] = {by_key(), by_token()};
  const std::string suites[] = {"AES-256-GCM", "AES-128-GCM"};
  for (TwoEnds& each : by) each.shake_hands();
  Loopback plain({});
  Loopback keyed(seals_of(std::move(by[0])));
  Loopback tokened(seals_of(std::move(by[1])));
  take_core(0);
  std::vector<Sealer> all;
  all.push_back({"plain TCP", "", 0, [&] { plain.carry(bytes); }, {}, plain.helper()});
  all.push_back({"evp", suites[0], 1, [&] { aes256.carry(bytes); }});
  all.push_back(
      {"TCP sealed by key", suites[0], 1, [&] { keyed.carry(bytes); }, {}, keyed.helper()});
  all.push_back({"evp", suites[1], 3, [&] { aes128.carry(bytes); }});
  all.push_back(
      {"TCP sealed by token", suites[1], 3, [&] { tokened.carry(bytes); }, {}, tokened.helper()});
  take_turns(all, turn_seconds);
  for (const std::size_t evp : {1U, 3U}) {
    // One end's share of EVP's encryption and decryption, and of processor time both.
    for (double& seconds : all[evp].seconds) seconds *= 0.5 * kMessages;
    for (double& seconds : all[evp].cpu_seconds) seconds *= kMessages;
  }
  for (const Sealer& each : all) {
    std::printf("{\"name\": \"%s\", \"cipher\": \"%s\", \"bytes\": %zu, \"gb_per_s\": %.3f",
                each.name.c_str(), each.cipher.c_str(), kMessageBytes,
                static_cast<double>(kMessages * kMessageBytes) /
                    *std::ranges::min_element(each.seconds) / 1e9);
    if (each.name.starts_with("TCP")) print_to_both(all[0], all[each.yardstick], each);
    std::printf("}\n");
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace holdfast::secure

int main(int count, char** words) {
  if (!holdfast::secure::available()) {
    std::printf("%s\n", holdfast::secure::lacks_openssl().message().c_str());
    return 0;
  }
  const double turn_seconds = count > 1 ? std::atof(words[1]) : 0.05;
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20}) {
    holdfast::secure::measure(bytes, turn_seconds);
  }
  holdfast::secure::measure_loopback(turn_seconds);
  return 0;
}

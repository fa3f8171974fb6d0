// Rates of TLS sessions on one core: write, feed and read of the same bytes, beside AES-GCM by
// OpenSSL's EVP, which encrypts and decrypts them in one piece and does nothing else. JSON lines,
// one to contestant and size.
//
//   cmake -DHOLDFAST_TESTS=ON ... && seal_rates [seconds of a turn]
//
// Contestants take turns. A ratio is the median over the turns of EVP's time by the contestant's in
// the same turn, with the same cipher; the rate is that of the best turn. Bytes count once, though
// each is encrypted and decrypted.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "secure/tls_session.h"

namespace holdfast::secure {
namespace {

constexpr int kTurns = 15;

struct Sealer {
  std::string name;
  std::string cipher;
  std::size_t yardstick;  // its place among the contestants
  std::function<void()> once;
  std::vector<double> seconds{};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void must(bool holds) {
  if (!holds) std::abort();
}

double ratio(const Sealer& yardstick, const Sealer& each) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < each.seconds.size(); ++i) {
    ratios.push_back(yardstick.seconds[i] / each.seconds[i]);
  }
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

void take_turns(std::vector<Sealer>& all, double turn_seconds) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Sealer& each : all) {
      each.once();
      int times = 0;
      const double start = now();
      do {
        each.once();
        ++times;
      } while (now() - start < turn_seconds);
      each.seconds.push_back((now() - start) / times);
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
  return 0;
}

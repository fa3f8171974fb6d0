#include "secure/records/traffic_key.h"

#include <algorithm>
#include <utility>

#include "secure/hex.h"
#include "secure/secret.h"

namespace holdfast::secure {

TrafficSecret::~TrafficSecret() { wipe(bytes_); }

TrafficSecret::TrafficSecret(TrafficSecret&& other) noexcept
    : bytes_(other.bytes_), size_(std::exchange(other.size_, 0)) {
  wipe(other.bytes_);
}

TrafficSecret& TrafficSecret::operator=(TrafficSecret&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    size_ = std::exchange(other.size_, 0);
    wipe(other.bytes_);
  }
  return *this;
}

std::span<std::byte> TrafficSecret::resized(std::size_t size) {
  size_ = std::min(size, kMost);
  return std::span(bytes_).first(size_);
}

TrafficSecret TrafficSecret::of_text(std::string_view text) {
  TrafficSecret secret;
  if (!unhex(text, secret.resized(text.size() / 2))) secret.resized(0);
  return secret;
}

}  // namespace holdfast::secure

#ifdef HOLDFAST_OPENSSL
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <limits>
#include <string>

namespace holdfast::secure {
namespace {

constexpr TrafficSuite kTrafficSuites[] = {{0x1301, "SHA256", 32, 16, EVP_aes_128_gcm},
                                           {0x1302, "SHA384", 48, 32, EVP_aes_256_gcm},
                                           {0x1303, "SHA256", 32, 32, EVP_chacha20_poly1305}};

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// HKDF-Expand-Label without a context (RFC 8446, 7.1).
Status expand(const TrafficSuite& suite, const TrafficSecret& secret, std::string_view label,
              std::span<std::byte> to) {
  constexpr std::string_view kPrefix = "tls13 ";
  std::string info{'\0', static_cast<char>(to.size()),
                   static_cast<char>(kPrefix.size() + label.size())};
  info.append(kPrefix).append(label).push_back('\0');
  const Owned<EVP_KDF> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const Owned<EVP_KDF_CTX> work(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  // Inputs that OpenSSL's table of parameters takes as if it wrote to them.
  auto* key = const_cast<std::byte*>(secret.bytes().data());
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(suite.hash), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret.bytes().size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  if (work == nullptr || EVP_KDF_derive(work.get(), raw(to.data()), to.size(), params) != 1) {
    return {Code::kSystem, "OpenSSL derives no key of a TLS session: " + openssl_reason()};
  }
  return Status::ok();
}

}  // namespace

const TrafficSuite* traffic_suite(std::uint16_t number) {
  const auto* found = std::ranges::find(kTrafficSuites, number, &TrafficSuite::number);
  return found == std::end(kTrafficSuites) ? nullptr : found;
}

Result<TrafficKey> TrafficKey::make(const TrafficSuite& suite, TrafficSecret secret, KeyUse use) {
  if (secret.bytes().size() != suite.hash_bytes) {
    return Status{Code::kSystem, "a TLS session's secret is not as long as its hash"};
  }
  TrafficKey key(suite, std::move(secret), use);
  TRY(key.set_up());
  return key;
}

Status TrafficKey::set_up() {
  std::array<std::byte, TrafficSecret::kMost> key{};
  const auto used = std::span(key).first(suite_->key_bytes);
  TRY(expand(*suite_, secret_, "key", used));
  const Status salted = expand(*suite_, secret_, "iv", salt_);
  if (work_ == nullptr) work_.reset(EVP_CIPHER_CTX_new());
  const bool sound =
      work_ != nullptr && EVP_CipherInit_ex(work_.get(), suite_->cipher(), nullptr, raw(key.data()),
                                            nullptr, static_cast<int>(use_)) == 1;
  wipe(key);
  records_ = 0;
  TRY(Status(salted));
  if (!sound) return {Code::kSystem, "OpenSSL takes no key of a session: " + openssl_reason()};
  return Status::ok();
}

Status TrafficKey::advance() {
  TrafficSecret next;
  TRY(expand(*suite_, secret_, "traffic upd", next.resized(suite_->hash_bytes)));
  secret_ = std::move(next);
  return set_up();
}

// The nonce is the record's number among those of its key, over the key's salt.
bool TrafficKey::begin_record(std::span<const std::byte> header) {
  // A number that came twice would give the key away.
  if (records_ == std::numeric_limits<std::uint64_t>::max()) return false;
  std::array<std::byte, kNonceBytes> nonce = salt_;
  for (std::size_t i = 0; i < sizeof records_; ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<std::byte>(records_ >> (8 * i));
  }
  ++records_;
  return EVP_CipherInit_ex(work_.get(), nullptr, nullptr, nullptr, raw(nonce.data()), -1) == 1 &&
         update(header, nullptr);
}

bool TrafficKey::update(std::span<const std::byte> from, std::byte* to) {
  int size = 0;
  return from.empty() || EVP_CipherUpdate(work_.get(), raw(to), &size, raw(from.data()),
                                          static_cast<int>(from.size())) == 1;
}

bool TrafficKey::seal(std::span<const std::byte> header, std::span<const std::byte> text,
                      std::byte last, std::span<std::byte> to) {
  CHECK(to.size() == text.size() + 1 + kRecordTagBytes);
  std::byte* tag = to.data() + text.size() + 1;
  int size = 0;
  return begin_record(header) && update(text, to.data()) && update({&last, 1}, tag - 1) &&
         EVP_CipherFinal_ex(work_.get(), raw(tag), &size) == 1 &&
         EVP_CIPHER_CTX_ctrl(work_.get(), EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, tag) == 1;
}

bool TrafficKey::open(std::span<const std::byte> header, std::span<const std::byte> sealed,
                      std::span<std::byte> to, std::byte& last) {
  CHECK(sealed.size() == to.size() + 1 + kRecordTagBytes);
  // OpenSSL takes the tag as if it wrote to it.
  auto* tag = const_cast<std::byte*>(sealed.data() + to.size() + 1);
  std::byte none;
  int size = 0;
  const bool is_sound =
      begin_record(header) &&
      EVP_CIPHER_CTX_ctrl(work_.get(), EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes, tag) == 1 &&
      update(sealed.first(to.size()), to.data()) && update({tag - 1, 1}, &last) &&
      EVP_CipherFinal_ex(work_.get(), raw(&none), &size) == 1;
  if (!is_sound) wipe(to);
  return is_sound;
}

}  // namespace holdfast::secure
#endif

#include "runtime/rendezvous/sealed_store.h"

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "secure/digest.h"
#include "secure/hex.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kStoreLabel = "holdfast store 1";
constexpr std::string_view kValueLabel = "value";
constexpr std::string_view kMark = "\nseal=";
constexpr std::size_t kCodeDigits = 2 * secure::kSecretBytes;
// For a key that is there.
constexpr Duration kThere = std::chrono::seconds(5);

Result<secure::Secret> code_of(const secure::Secret& with, const std::string& key,
                               const std::string& value) {
  Writer both;
  both.text(key);
  both.text(value);
  return secure::derive(with, kValueLabel, both.take());
}

Status refused(const std::string& key) {
  return {Code::kAuthFailed,
          "store, key " + key +
              ": its value was written without the job's secret, or with another one; accepted: "
              "option secret_file with the same secret on all ranks, and a store that nobody else "
              "has written to"};
}

}  // namespace

Result<std::shared_ptr<const StoreSeal>> StoreSeal::of(const std::vector<secure::Secret>& secrets) {
  std::vector<secure::Secret> keys;
  for (const secure::Secret& secret : secrets) {
    auto key = secure::derive(secret, kStoreLabel);
    if (!key.is_ok()) return key.status();
    keys.push_back(std::move(key).value());
  }
  return std::shared_ptr<const StoreSeal>(new StoreSeal(std::move(keys)));
}

Result<std::string> StoreSeal::seal(const std::string& key, const std::string& value) const {
  const auto code = code_of(keys_.front(), key, value);
  if (!code.is_ok()) return code.status();
  return value + std::string(kMark) + secure::hex(code.value().bytes());
}

Result<std::string> StoreSeal::open(const std::string& key, const std::string& text) const {
  const std::size_t tail = kMark.size() + kCodeDigits;
  if (text.size() < tail) return refused(key);
  const std::string value = text.substr(0, text.size() - tail);
  const std::string_view mark = std::string_view(text).substr(value.size(), kMark.size());
  std::array<std::byte, secure::kSecretBytes> shown{};
  if (mark != kMark ||
      !secure::unhex(std::string_view(text).substr(value.size() + kMark.size()), shown)) {
    return refused(key);
  }
  for (const secure::Secret& with : keys_) {
    const auto code = code_of(with, key, value);
    if (!code.is_ok()) return code.status();
    if (secure::same_bytes(code.value().bytes(), shown)) return value;
  }
  return refused(key);
}

Status SealedStore::set(const std::string& key, const std::string& value) {
  const auto text = seal_.seal(key, value);
  return text.is_ok() ? below_.set(key, text.value()) : text.status();
}

Result<std::string> SealedStore::get(const std::string& key, Duration timeout) {
  auto text = below_.get(key, timeout);
  return text.is_ok() ? seal_.open(key, text.value()) : text;
}

Result<bool> SealedStore::has(const std::string& key) {
  auto there = below_.has(key);
  if (!there.is_ok() || !there.value()) return there;
  const auto value = get(key, kThere);
  if (!value.is_ok()) return value.status();
  return true;
}

Result<std::string> SealedStore::set_once(const std::string& key, const std::string& value) {
  auto text = seal_.seal(key, value);
  if (!text.is_ok()) return text;
  auto set = below_.set_once(key, text.value());
  return set.is_ok() ? seal_.open(key, set.value()) : set;
}

}  // namespace holdfast::runtime

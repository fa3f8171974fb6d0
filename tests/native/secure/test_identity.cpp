// A process's key: its fingerprint, its certificate, and what it proves over a session's binding.
// Without OpenSSL: that this is said.
#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "lacking.h"
#include "secure/digest.h"
#include "secure/hex.h"
#include "secure/identity.h"
#include "secure/proof.h"
#include "secure/secret.h"

namespace holdfast::secure {
namespace {

Secret secret_of(std::byte filled_with) {
  std::array<std::byte, kSecretBytes> bytes{};
  bytes.fill(filled_with);
  return Secret(bytes);
}

Binding binding_of(int first) {
  Binding binding{};
  binding[0] = static_cast<std::byte>(first);
  return binding;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST_CASE("a secret is neither copied nor printed nor compared by accident") {
  static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);
  static_assert(!std::is_copy_constructible_v<Identity> && !std::is_copy_assignable_v<Identity>);
  static_assert(std::is_nothrow_move_constructible_v<Secret>);
}

TEST_CASE("a secret that was moved from, or is gone, leaves zeros") {
  Secret first = secret_of(std::byte{7});
  const Secret second = std::move(first);
  CHECK(first.same(secret_of(std::byte{0})));  // NOLINT(bugprone-use-after-move): it is the claim
  CHECK(second.same(secret_of(std::byte{7})));
  alignas(Secret) std::byte room[sizeof(Secret)];
  auto* third = new (room) Secret(secret_of(std::byte{9}));
  third->~Secret();
  for (const std::byte b : room) CHECK(b == std::byte{0});
}

TEST_CASE("bytes are the same only if sizes and all bytes are") {
  CHECK(same_bytes(bytes_of("abc"), bytes_of("abc")));
  CHECK(same_bytes({}, {}));
  CHECK(!same_bytes(bytes_of("abc"), bytes_of("abd")));
  CHECK(!same_bytes(bytes_of("abc"), bytes_of("xbc")));
  CHECK(!same_bytes(bytes_of("abc"), bytes_of("abcd")));
}

TEST_CASE("a fingerprint is written as 64 digits and read back, in either case") {
  Fingerprint fingerprint;
  fingerprint.bytes[0] = std::byte{0xAB};
  fingerprint.bytes[31] = std::byte{0x01};
  const std::string text = fingerprint_text(fingerprint);
  CHECK(text.size() == 64);
  CHECK(text.starts_with("ab00"));
  CHECK(parse_fingerprint(text).value() == fingerprint);
  CHECK(parse_fingerprint("AB" + text.substr(2)).value() == fingerprint);
  CHECK(parse_fingerprint(text + "0").status().code() == Code::kConfigError);
  CHECK(!parse_fingerprint("g" + text.substr(1)).is_ok());
  CHECK(!parse_fingerprint("").is_ok());
}

TEST_CASE("a build without OpenSSL says so") {
  if (available()) return;
  const auto identity = Identity::generate();
  CHECK(identity.status().code() == Code::kUnsupported);
  CHECK(identity.status().message().find("without OpenSSL") != std::string::npos);
  CHECK(sha256({}).status().code() == Code::kUnsupported);
}

TEST_CASE("digests and derived keys are those of the standards") {
  if (lacking()) return;
  CHECK(hex(sha256(bytes_of("abc")).value()) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // HKDF-SHA256 of 32 bytes 0x0b, no salt, info "label" 0 "context": by Python's hmac.
  const Secret secret = secret_of(std::byte{0x0b});
  const Secret key = derive(secret, "label", bytes_of("context")).value();
  CHECK(hex(key.bytes()) == "fdcf50f20e3e5a30ab9314429477780b1379983d65ada736bacf4628318ec612");
  CHECK(!key.same(derive(secret, "labelc", bytes_of("ontext")).value()));
}

TEST_CASE("every process has a key of its own, and its certificate carries it") {
  if (lacking()) return;
  const Identity a = std::move(Identity::generate()).value();
  const Identity b = std::move(Identity::generate()).value();
  CHECK(a.fingerprint() != b.fingerprint());
  CHECK(fingerprint_of(a.public_key()).value() == a.fingerprint());
  CHECK(public_key_of(a.certificate()).value() == a.public_key());
}

TEST_CASE("a proof holds for its key, its session and its side only") {
  if (lacking()) return;
  const Identity a = std::move(Identity::generate()).value();
  const Identity b = std::move(Identity::generate()).value();
  const Proof proof = prove(a, binding_of(1), TlsSide::kClient).value();
  CHECK(check_proof(proof, a.fingerprint(), binding_of(1), TlsSide::kClient).is_ok());
  CHECK(!check_proof(proof, a.fingerprint(), binding_of(2), TlsSide::kClient).is_ok());
  CHECK(!check_proof(proof, a.fingerprint(), binding_of(1), TlsSide::kServer).is_ok());
  const Status other = check_proof(proof, b.fingerprint(), binding_of(1), TlsSide::kClient);
  CHECK(other.code() == Code::kAuthFailed);
  CHECK(other.message().find(fingerprint_text(b.fingerprint())) != std::string::npos);
}

TEST_CASE("no bit of a proof may change, and no byte be missing") {
  if (lacking()) return;
  const Identity a = std::move(Identity::generate()).value();
  const Proof proof = prove(a, binding_of(1), TlsSide::kServer).value();
  const auto holds = [&](std::span<const std::byte> bytes) {
    return check_proof(bytes, a.fingerprint(), binding_of(1), TlsSide::kServer).is_ok();
  };
  REQUIRE(holds(proof));
  for (std::size_t i = 0; i < 8 * kProofBytes; ++i) {
    Proof changed = proof;
    changed[i / 8] ^= static_cast<std::byte>(1U << (i % 8));
    CHECK(!holds(changed));
  }
  CHECK(!holds(std::span(proof).first(kProofBytes - 1)));
  CHECK(!holds({}));
}

}  // namespace
}  // namespace holdfast::secure

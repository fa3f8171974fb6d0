#include "runtime/relay/preface.h"

#include <algorithm>

#include "base/bytes.h"
#include "secure/digest.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMaxClaimBytes = 256;
constexpr std::size_t kMaxAddressText = 45;  // INET6_ADDRSTRLEN, without its end
constexpr std::string_view kProofLabel = "holdfast relay preface 1";

std::vector<std::byte> encode_fields(const Preface& preface) {
  Writer w;
  w.number(static_cast<std::uint8_t>(preface.wish));
  w.number(preface.self.value);
  w.number(preface.wanted.value);
  w.raw(preface.ticket);
  w.bytes(preface.claims);
  w.number(preface.port);
  w.list(preface.addresses, [&](const std::string& address) { w.text(address); });
  return w.take();
}

// A derived key is a message's authentication code: HKDF's last step is an HMAC (RFC 5869, 2.3).
Result<secure::Secret> proof_of(std::span<const std::byte> fields, const secure::Secret& key,
                                const RelayChallenge& challenge) {
  std::vector<std::byte> all(challenge.begin(), challenge.end());
  all.insert(all.end(), fields.begin(), fields.end());
  return secure::derive(key, kProofLabel, all);
}

}  // namespace

Result<std::vector<std::byte>> seal_preface(const Preface& preface, const secure::Secret& key,
                                            const RelayChallenge& challenge) {
  const std::vector<std::byte> fields = encode_fields(preface);
  const auto proof = proof_of(fields, key, challenge);
  if (!proof.is_ok()) return proof.status();
  Writer w;
  w.number(static_cast<std::uint16_t>(fields.size() + secure::kSecretBytes));
  w.raw(fields);
  w.raw(proof.value().bytes());
  return w.take();
}

Result<SealedPreface> parse_preface(std::span<const std::byte> bytes) {
  const Status malformed(Code::kProtocolError, "malformed preface");
  if (bytes.size() > kMaxPrefaceBytes || bytes.size() < secure::kSecretBytes) return malformed;
  const std::span<const std::byte> fields = bytes.first(bytes.size() - secure::kSecretBytes);
  SealedPreface sealed;
  Preface& preface = sealed.preface;
  Reader r(fields);
  const auto wish = r.number<std::uint8_t>();
  r.require(wish >= 1 && wish <= kRelayWishes);
  preface.wish = static_cast<RelayWish>(wish);
  preface.self = {r.number<std::uint64_t>()};
  preface.wanted = {r.number<std::uint64_t>()};
  std::ranges::copy(r.raw(preface.ticket.size()), preface.ticket.begin());
  preface.claims = r.bytes(kMaxClaimBytes);
  preface.port = r.number<std::uint16_t>();
  r.list(kMaxKnockAddresses, 1, [&] { preface.addresses.push_back(r.text(kMaxAddressText)); });
  if (!r.ended()) return malformed;
  sealed.fields.assign(fields.begin(), fields.end());
  std::ranges::copy(bytes.last(secure::kSecretBytes), sealed.proof.begin());
  return sealed;
}

Status check_proof(const SealedPreface& sealed, const secure::Secret& key,
                   const RelayChallenge& challenge) {
  const auto expected = proof_of(sealed.fields, key, challenge);
  if (!expected.is_ok()) return expected.status();
  if (secure::same_bytes(expected.value().bytes(), sealed.proof)) return Status::ok();
  return {Code::kAuthFailed, kUnknownKey};
}

std::vector<std::byte> encode_verdict(RelayVerdict verdict, const std::string& text) {
  const std::string said = text.substr(0, kMaxVerdictText);
  Writer w;
  w.number(static_cast<std::uint8_t>(verdict));
  w.number(static_cast<std::uint8_t>(said.size()));
  w.raw(std::as_bytes(std::span(said)));
  return w.take();
}

std::vector<std::byte> encode_ticket(MemberId caller, const RelayTicket& ticket) {
  Writer w;
  w.raw({&kRelayTicket, 1});
  w.number(caller.value);
  w.raw(ticket);
  return w.take();
}

}  // namespace holdfast::runtime

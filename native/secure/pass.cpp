#include "secure/pass.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"
#include "secure/digest.h"
#include "secure/signature.h"

namespace holdfast::secure {
namespace {

constexpr std::string_view kIssuerLabel = "holdfast pass issuer 1";
constexpr std::string_view kPassPurpose = "holdfast pass 1";
constexpr std::uint8_t kPassVersion = 1;

Status refused(const std::string& why) { return {Code::kAuthFailed, "the pass " + why}; }

std::vector<std::byte> encode_pass(const PassClaims& claims) {
  Writer out;
  out.number(kPassVersion);
  out.number(claims.member.value);
  out.raw(claims.key.bytes);
  out.raw(claims.token.bytes);
  out.number(claims.not_after.value);
  out.text(claims.run);
  return out.take();
}

Result<PassClaims> parse_pass(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (in.number<std::uint8_t>() != kPassVersion) return refused("is of another version");
  PassClaims claims;
  claims.member = {in.number<std::uint64_t>()};
  for (const std::span<std::byte> field :
       {std::span<std::byte>(claims.key.bytes), std::span<std::byte>(claims.token.bytes)}) {
    const auto read = in.raw(field.size());
    if (read.size() != field.size()) return refused("is truncated");
    std::ranges::copy(read, field.begin());
  }
  claims.not_after = {in.number<std::int64_t>()};
  claims.run = in.text(kMaxRunName);
  if (!in.ended()) return refused("is truncated, or has more than a pass has");
  return claims;
}

}  // namespace

Result<Identity> pass_issuer(const Secret& secret) {
  auto seed = derive(secret, kIssuerLabel);
  if (!seed.is_ok()) return seed.status();
  return Identity::of_seed(seed.value());
}

Result<std::vector<std::byte>> issue_pass(const Identity& issuer, const PassClaims& claims) {
  std::vector<std::byte> bytes = encode_pass(claims);
  auto signature = sign(issuer, kPassPurpose, bytes);
  if (!signature.is_ok()) return signature.status();
  bytes.insert(bytes.end(), signature.value().begin(), signature.value().end());
  return bytes;
}

Result<PassClaims> check_pass(std::span<const std::byte> pass, std::span<const PublicKey> issuers,
                              UnixTime now) {
  if (pass.empty()) return refused("is missing");
  if (pass.size() < kSignatureBytes || pass.size() > kMaxPassBytes) {
    return refused("has " + std::to_string(pass.size()) + " bytes, which no pass has");
  }
  const auto body = pass.first(pass.size() - kSignatureBytes);
  const auto signature = pass.last(kSignatureBytes);
  const bool sound = std::ranges::any_of(issuers, [&](const PublicKey& issuer) {
    return is_signed(issuer, kPassPurpose, body, signature);
  });
  if (!sound) return refused("was not signed by this run's coordinator");
  auto claims = parse_pass(body);
  if (claims.is_ok() && now > claims.value().not_after) {
    return refused("of member " + std::to_string(claims.value().member.value) +
                   " has expired with the token or the certificate that it came from");
  }
  return claims;
}

}  // namespace holdfast::secure

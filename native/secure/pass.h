// Passes: what a coordinator gives to a process that it has let in by a token or a certificate, and
// that the process shows to the other members of its run: a signed statement that a key belongs to
// a member. Members know whose signature counts from their coordinator, so they need no token of
// each other, and no coordinator while they make a connection. Why:
// docs/decisions/0161-a-pass-names-a-key.md
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "secure/identity.h"
#include "secure/token.h"

namespace holdfast::secure {

struct PassClaims {
  std::string run;
  MemberId member;
  Fingerprint key;
  Serial token;        // by which the member was let in; or the id of its certificate
  UnixTime not_after;  // of that
  bool operator==(const PassClaims&) const = default;
};

// Claims and signature, with the longest name of a run.
inline constexpr std::size_t kMaxPassBytes = 1 + kMaxRunName + 1 + 8 + 32 + 16 + 8 + 64;

// The key that signs a secret's passes: the same wherever the secret is. Any thread, as all
// functions here.
Result<Identity> pass_issuer(const Secret& secret);

Result<std::vector<std::byte>> issue_pass(const Identity& issuer, const PassClaims& claims);
// The claims of a pass that one of the issuers has signed, and that holds at `now`. kAuthFailed
// else, with the reason.
Result<PassClaims> check_pass(std::span<const std::byte> pass, std::span<const PublicKey> issuers,
                              UnixTime now);

}  // namespace holdfast::secure

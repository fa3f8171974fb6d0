// Testimony: the word of whoever started a process, and has seen it end. One short message that
// needs no sealed connection, for it is signed by the key that the dead one's card names. It is of
// one process's one life: a member's id is drawn anew in each. Comes from outside: parsing is
// total. Why: docs/decisions/0167-with-a-secret-no-packet-proves-a-death.md
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "secure/identity.h"
#include "secure/signature.h"

namespace holdfast::secure {

// A mark that begins like no greeting and no TLS record, the member's id, the signature.
inline constexpr std::size_t kTestimonyBytes = 8 + 8 + kSignatureBytes;

struct Testimony {
  MemberId ended;
  Signature signature;
};

// nullopt: it is none.
std::optional<Testimony> parse_testimony(std::span<const std::byte> bytes);
// Any thread.
Result<std::array<std::byte, kTestimonyBytes>> testify(const Identity& witness, MemberId ended);
bool is_true(const Testimony& testimony, const PublicKey& witness);

}  // namespace holdfast::secure

// FNV-1a: a hash that is the same on every machine, for telling things apart that no attacker
// forges.
//
// For a text it is the published hash, byte by byte. A number is mixed in one step, as a whole,
// which is quicker and not part of the standard. Source: Fowler, Noll, Vo, "The FNV
// Non-Cryptographic Hash Algorithm".
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

template <class Word, Word kBasis, Word kPrime>
class Fnv {
 public:
  constexpr Fnv() = default;
  // Goes on from the value of another hash.
  constexpr explicit Fnv(Word value) : value_(value) {}

  constexpr void mix(Word value) { value_ = (value_ ^ value) * kPrime; }
  constexpr void mix(std::string_view text) {
    for (const char c : text) mix(Word{static_cast<unsigned char>(c)});
  }
  constexpr Word value() const { return value_; }

 private:
  Word value_ = kBasis;
};

using Fnv1a = Fnv<std::uint64_t, 14695981039346656037ULL, 1099511628211ULL>;
using Fnv1a32 = Fnv<std::uint32_t, 2166136261U, 16777619U>;

}  // namespace holdfast

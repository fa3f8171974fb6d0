// Digest: 64 bits that stand for a value, by which members tell each other what both hold. It
// protects against chance, not against an attacker: members of a world trust each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace holdfast::ft {

class Digest {
 public:
  void mix(std::uint64_t word) {
    // The finalizer of SplitMix64 (Steele et al. 2014): one to one, so that two words that differ
    // leave values that do.
    std::uint64_t x = (value_ ^ word) + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    value_ = x ^ (x >> 31);
  }
  void mix(std::span<const std::byte> bytes) {
    mix(bytes.size());
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
      mix(word);
    }
  }
  void mix(std::string_view text) { mix(std::as_bytes(std::span(text))); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace holdfast::ft

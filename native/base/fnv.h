// FNV-1a over whole values: the same number on every machine, for telling things apart that nobody
// forges.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

class Fnv1a {
 public:
  void mix(std::uint64_t value) { value_ = (value_ ^ value) * 1099511628211ULL; }
  void mix(std::string_view text) {
    for (const char c : text) mix(std::uint64_t{static_cast<unsigned char>(c)});
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

}  // namespace holdfast

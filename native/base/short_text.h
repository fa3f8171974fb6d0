// ShortText: a text of bounded length that is held inside itself, and copied like a number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace holdfast {

template <std::size_t kMost>
class ShortText {
  static_assert(kMost < 256);

 public:
  constexpr ShortText() = default;
  // Implicit on purpose: callers pass texts. At most kMost characters.
  ShortText(std::string_view text) : length_(static_cast<std::uint8_t>(text.size())) {
    CHECK(text.size() <= kMost);
    text.copy(text_.data(), text.size());
  }
  ShortText(const char* text) : ShortText(std::string_view(text)) {}

  std::string_view view() const { return {text_.data(), length_}; }
  bool empty() const { return length_ == 0; }
  friend bool operator==(const ShortText& a, const ShortText& b) { return a.view() == b.view(); }

 private:
  std::array<char, kMost> text_{};
  std::uint8_t length_ = 0;
};

}  // namespace holdfast

// JSON text (RFC 8259), written by hand: what is written here is flat and small.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::runtime {

// The string in quotes, with escapes; bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace holdfast::runtime

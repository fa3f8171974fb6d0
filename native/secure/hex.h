// Bytes as pairs of hexadecimal digits, lower case when written, either when read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::secure {

std::string hex(std::span<const std::byte> bytes);

// Fills `to`, and says whether the text was exactly that many bytes.
bool unhex(std::string_view text, std::span<std::byte> to);

}  // namespace holdfast::secure

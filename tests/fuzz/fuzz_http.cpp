// HTTP requests, from any socket that the health pages listen on.
#include <cstdint>
#include <string_view>

#include "health/http_request.h"
#include "health/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const holdfast::health::HttpParse parse = holdfast::health::parse_request(bytes);
  using State = holdfast::health::HttpParse::ParseState;
  // More bytes do not change what a whole request says, nor make a refused one good.
  const holdfast::health::HttpParse half =
      holdfast::health::parse_request(bytes.substr(0, size / 2));
  if (half.state != State::kIncomplete && half.state != parse.state) __builtin_trap();
  if (parse.state == State::kBad && (parse.status < 400 || parse.status > 599)) __builtin_trap();
  constexpr std::size_t kMost =
      holdfast::health::kMaxRequestBytes + holdfast::health::kMaxBodyBytes;
  if (parse.state == State::kIncomplete && size > kMost) __builtin_trap();
  if (parse.request.body.size() > holdfast::health::kMaxBodyBytes) __builtin_trap();
  if (parse.state == State::kWhole && !parse.request.path.starts_with('/')) __builtin_trap();
  const std::string text = holdfast::health::json_text(bytes);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) __builtin_trap();
  }
  return 0;
}

// The header Authorization, from any reader of pages; and the file of who may read them.
#include <cstdint>
#include <string_view>

#include "base/base64.h"
#include "health/lock/authorization.h"
#include "health/lock/credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto decoded = decode_base64(bytes);
  // One spelling for each text.
  if (decoded && encode_base64(*decoded) != bytes) __builtin_trap();
  if (decode_base64(encode_base64(bytes)) != bytes) __builtin_trap();
  const auto said = health::parse_authorization(bytes);
  if (said) {
    if (said->text.empty() || said->text.size() > health::kMaxCredentialBytes) __builtin_trap();
    const auto again = health::parse_authorization(health::authorization_value(*said));
    if (!again || again->scheme != said->scheme || again->text != said->text) __builtin_trap();
  }
  const auto credentials = health::Credentials::parse(bytes);
  if (!credentials.is_ok()) return 0;
  // Nobody is let in without a credential, and its own words let in who has the file.
  if (credentials.value().reader_of("") != health::PageReader::kAnybody) __builtin_trap();
  const std::string own = credentials.value().authorization();
  if (credentials.value().reader_of(own) == health::PageReader::kAnybody) __builtin_trap();
  return 0;
}

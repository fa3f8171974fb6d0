// Texts that somebody pastes: join tokens, with a checksum of their own and with the right one,
// secret files and lists of serials. What is understood is said again in the same bytes.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "secure/base32.h"
#include "secure/identity.h"
#include "secure/token.h"

namespace {

using namespace holdfast;
using namespace holdfast::secure;

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

void read_token(const std::string& text) {
  auto token = parse_token(text);
  if (!token.is_ok()) return expect(!token.status().message().empty());
  auto again = parse_token(token_text(token.value()));
  expect(again.is_ok() && again.value().claims == token.value().claims &&
         again.value().key.same(token.value().key));
  const TokenGate gate{token.value().claims.run, {0}};
  if (!check_claims(token.value().claims, gate).is_ok()) {
    expect(token.value().claims.not_after.value < 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_token(text);
  // With the right checksum, so that what is behind it is reached.
  std::vector<std::byte> whole(bytes.begin(), bytes.end());
  Writer sum;
  sum.number(checksum(bytes));
  for (const std::byte b : sum.take()) whole.push_back(b);
  read_token("hf1-" + base32(whole));
  if (auto claims = parse_claims(bytes); claims.is_ok()) {
    expect(encode_claims(claims.value()) == std::vector(bytes.begin(), bytes.end()));
  }
  expect(parse_base32(base32(bytes)) == std::vector(bytes.begin(), bytes.end()));
  if (auto secret = parse_secret_file(text); secret.is_ok()) {
    expect(parse_secret_file(secret_file_text(secret.value())).value().same(secret.value()));
  }
  if (auto serial = parse_serial(text); serial.is_ok()) {
    expect(parse_serial(serial_text(serial.value())).value() == serial.value());
  }
  if (auto print = parse_fingerprint(text); print.is_ok()) {
    expect(parse_fingerprint(fingerprint_text(print.value())).value() == print.value());
  }
  return 0;
}

// Join tokens: what a typo, a stranger's token and a late one are told, and that a coordinator with
// the secret alone knows each token's key.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "lacking.h"
#include "secure/base32.h"
#include "secure/token.h"

namespace holdfast::secure {
namespace {

Secret secret_of(int filled_with) {
  std::array<std::byte, kSecretBytes> bytes{};
  bytes.fill(static_cast<std::byte>(filled_with));
  return Secret(bytes);
}

KeyRing ring_of(std::vector<int> fillings) {
  std::vector<Secret> secrets;
  for (const int filling : fillings) secrets.push_back(secret_of(filling));
  return std::move(KeyRing::make(std::move(secrets))).value();
}

TokenClaims claims_of(std::string run) {
  TokenClaims claims;
  claims.run = std::move(run);
  claims.serial.bytes[3] = std::byte{0x5a};
  claims.role = TokenRole::kObserver;
  claims.not_after = {1000};
  claims.uses = 3;
  return claims;
}

// A text whose checksum is right, whatever else it holds: what somebody made, and mistyped nothing.
std::string forged(std::vector<std::byte> bytes) {
  Writer sum;
  sum.number(checksum(bytes));
  const auto end = sum.take();
  bytes.insert(bytes.end(), end.begin(), end.end());
  return "hf1-" + base32(bytes);
}

std::string forged(const TokenClaims& claims) {
  auto bytes = encode_claims(claims);
  bytes.resize(bytes.size() + kSecretBytes);
  return forged(std::move(bytes));
}

void check_refusal(const Status& status, const std::string& words) {
  CHECK(status.code() == Code::kConfigError);
  CHECK_MESSAGE(status.message().find(words) != std::string::npos, status.message());
}

TEST_CASE("base32 has the letters of its standard, and one text for each row of bytes") {
  const auto text = [](const std::string& of) { return base32(std::as_bytes(std::span(of))); };
  CHECK(text("").empty());
  CHECK(text("f") == "my");
  CHECK(text("fo") == "mzxq");
  CHECK(text("foobar") == "mzxw6ytboi");
  CHECK(parse_base32("MZXW6YTBOI") == parse_base32("mzxw6ytboi"));
  CHECK(parse_base32("mz").has_value() == false);  // leftover bits that are not zero
  CHECK(!parse_base32("m").has_value());
  CHECK(!parse_base32("m1").has_value());
  CHECK(!parse_base32("my==").has_value());
}

TEST_CASE("roles have names") {
  for (const auto role : {TokenRole::kMember, TokenRole::kObserver, TokenRole::kAdmin}) {
    CHECK(parse_role(role_name(role)).value() == role);
  }
  check_refusal(parse_role("root").status(), "unknown role");
}

TEST_CASE("a secret file is read back, and another file is none") {
  const Secret secret = secret_of(0x3c);
  const std::string text = secret_file_text(secret);
  CHECK(parse_secret_file(text).value().same(secret));
  CHECK(parse_secret_file("holdfast secret 1\r\n" + text.substr(18) + "\r\n").is_ok());
  check_refusal(parse_secret_file("").status(), "first line");
  check_refusal(parse_secret_file("holdfast secret 2\n00\n").status(), "first line");
  check_refusal(parse_secret_file("holdfast secret 1").status(), "second line");
  check_refusal(parse_secret_file(text.substr(0, text.size() - 2)).status(), "second line");
  check_refusal(parse_secret_file(text + "00").status(), "second line");
}

TEST_CASE("claims have one encoding, which fits an identity of TLS") {
  const TokenClaims claims = claims_of(std::string(kMaxRunName, 'r'));
  const auto bytes = encode_claims(claims);
  CHECK(bytes.size() <= 256);
  CHECK(parse_claims(bytes).value() == claims);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(!parse_claims(std::span(bytes).first(size)).is_ok());
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  check_refusal(parse_claims(longer).status(), "more than a token has");
}

TEST_CASE("a text that is no token is told so before a network is asked") {
  check_refusal(parse_token("").status(), "begins with \"hf1-\"");
  check_refusal(parse_token("hf2-abc").status(), "begins with \"hf1-\"");
  check_refusal(parse_token("hf1-").status(), "truncated");
  check_refusal(parse_token("hf1-" + std::string(10000, 'a')).status(), "longer than any token");
  check_refusal(parse_token("hf1-aa!a").status(), "typo");
  TokenClaims odd = claims_of("run");
  odd.role = static_cast<TokenRole>(7);
  check_refusal(parse_token(forged(odd)).status(), "unknown role");
  check_refusal(parse_token(forged(claims_of(std::string(65, 'r')))).status(), "longer than");
  check_refusal(parse_token(forged(claims_of("a run"))).status(), "letters, digits");
  auto later = encode_claims(claims_of("run"));
  later[0] = std::byte{2};
  later.resize(later.size() + kSecretBytes);
  check_refusal(parse_token(forged(std::move(later))).status(), "another version");
}

TEST_CASE("a run's name that is too long is told with its length") {
  TokenClaims claims = claims_of(std::string(kMaxRunName + 1, 'r'));
  check_refusal(parse_claims(encode_claims(claims)).status(), "a name of 65 bytes");
  claims.run = "";
  check_refusal(parse_claims(encode_claims(claims)).status(), "empty");
}

TEST_CASE("a token holds for its run, until its end, unless it is revoked") {
  const TokenClaims claims = claims_of("exp-7");
  CHECK(check_claims(claims, {"exp-7", {1000}}).is_ok());
  CHECK(check_claims(claims, {"exp-7", {-5}}).is_ok());
  check_refusal(check_claims(claims, {"exp-8", {1000}}), "of the run \"exp-7\", and this is");
  check_refusal(check_claims(claims, {"exp-7", {1001}}), "expired 1 s ago");
  check_refusal(check_claims(claims, {"exp-7", {1000 + 150}}), "expired 2 min 30 s ago");
  check_refusal(check_claims(claims, {"exp-7", {1000 + 3 * 3600}}), "expired 3 h ago");
  check_refusal(check_claims(claims, {"exp-7", {1000 + 49 * 3600}}), "expired 2 d 1 h ago");
  check_refusal(check_claims(claims, {"exp-7", {1000}, {claims.serial}}), "was revoked");
  CHECK(check_claims(claims, {"exp-7", {1000}, {Serial{}}}).is_ok());
}

TEST_CASE("no pair of times overflows") {
  TokenClaims claims = claims_of("run");
  claims.not_after = {INT64_MIN};
  check_refusal(check_claims(claims, {"run", {INT64_MAX}}), "expired");
  claims.not_after = {INT64_MAX};
  CHECK(check_claims(claims, {"run", {INT64_MIN}}).is_ok());
}

TEST_CASE("a minted token's text is read back whole") {
  if (lacking()) return;
  const KeyRing ring = ring_of({1});
  const Token token = ring.mint(claims_of("exp-7")).value();
  const std::string text = token_text(token);
  CHECK(text.size() < 160);
  const Token read = parse_token("  " + text + "\n").value();
  CHECK(read.claims == token.claims);
  CHECK(read.key.same(token.key));
}

TEST_CASE("every typo of one letter is told, and every cut") {
  if (lacking()) return;
  const std::string text = token_text(ring_of({1}).mint(claims_of("exp-7")).value());
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
  for (std::size_t i = 4; i < text.size(); ++i) {
    for (const char letter : kLetters) {
      if (letter == text[i]) continue;
      std::string typo = text;
      typo[i] = letter;
      check_refusal(parse_token(typo).status(), "typo");
    }
    std::string swapped = text;
    if (i + 1 == text.size() || text[i] == text[i + 1]) continue;
    std::swap(swapped[i], swapped[i + 1]);
    check_refusal(parse_token(swapped).status(), "the token has a typo");
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    CHECK(parse_token(text.substr(0, size)).status().code() == Code::kConfigError);
  }
}

TEST_CASE("who has the secret knows the key of every token, from its claims alone") {
  if (lacking()) return;
  const Token token = ring_of({1}).mint(claims_of("exp-7")).value();
  const KeyRing coordinator = ring_of({1});
  const TokenGate gate{"exp-7", {0}};
  CHECK(coordinator.admit(token.claims, gate).value().same(token.key));
  for (int word = 0; word < 4; ++word) {
    TokenClaims other = token.claims;
    if (word == 0) other.role = TokenRole::kAdmin;
    if (word == 1) other.not_after = {2000};
    if (word == 2) other.uses = kAnyUses;
    if (word == 3) other.serial.bytes[0] = std::byte{1};
    CHECK(!coordinator.admit(other, gate).value().same(token.key));
  }
  check_refusal(coordinator.admit(token.claims, {"exp-7", {2000}}).status(), "expired");
  check_refusal(coordinator.admit(token.claims, {"other", {0}}).status(), "of the run");
}

TEST_CASE("a secret is replaced while tokens of both are good") {
  if (lacking()) return;
  const TokenGate gate{"exp-7", {0}};
  const Token old = ring_of({1}).mint(claims_of("exp-7")).value();
  const KeyRing both = ring_of({2, 1});
  const Token fresh = both.mint(claims_of("exp-7")).value();
  CHECK(fresh.claims.secret != old.claims.secret);
  CHECK(both.admit(old.claims, gate).value().same(old.key));
  CHECK(both.admit(fresh.claims, gate).value().same(fresh.key));
  const KeyRing after = ring_of({2});
  CHECK(after.admit(fresh.claims, gate).is_ok());
  check_refusal(after.admit(old.claims, gate).status(), "has no more");
}

TEST_CASE("a ring has one secret or two, and not one twice") {
  if (lacking()) return;
  check_refusal(KeyRing::make({}).status(), "here are 0");
  std::vector<Secret> secrets;
  secrets.push_back(secret_of(1));
  secrets.push_back(secret_of(1));
  check_refusal(KeyRing::make(std::move(secrets)).status(), "the same");
  std::vector<Secret> three;
  for (const int filling : {1, 2, 3}) three.push_back(secret_of(filling));
  check_refusal(KeyRing::make(std::move(three)).status(), "here are 3");
}

TEST_CASE("nothing is minted that would not be read") {
  if (lacking()) return;
  check_refusal(ring_of({1}).mint(claims_of(std::string(65, 'r'))).status(), "65 bytes");
  check_refusal(ring_of({1}).mint(claims_of("")).status(), "empty");
}

}  // namespace
}  // namespace holdfast::secure

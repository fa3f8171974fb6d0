// A store that others can write to: what they wrote is refused.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "memory_store.h"
#include "runtime/rendezvous/sealed_store.h"
#include "secure/openssl.h"

namespace holdfast::runtime {
namespace {

using holdfast::testing::MemoryStore;

constexpr Duration kShort = std::chrono::milliseconds(20);

std::shared_ptr<const StoreSeal> seal_of(const std::vector<int>& fillings) {
  std::vector<secure::Secret> secrets;
  for (const int filling : fillings) {
    std::array<std::byte, secure::kSecretBytes> bytes{};
    bytes.fill(static_cast<std::byte>(filling));
    secrets.emplace_back(bytes);
  }
  return StoreSeal::of(secrets).value();
}

bool is_refused(const Status& status) {
  return status.code() == Code::kAuthFailed &&
         status.message().find("written without the job's secret") != std::string::npos;
}

TEST_CASE("who has the secret reads what another holder wrote" *
          doctest::skip(!secure::available())) {
  MemoryStore below;
  const auto seal = seal_of({1});
  SealedStore store(below, *seal);
  REQUIRE(store.set("card/0", "member=7\nhost=a\n").is_ok());
  CHECK(store.get("card/0", kShort).value() == "member=7\nhost=a\n");
  CHECK(store.set_once("card/0", "another").value() == "member=7\nhost=a\n");
  CHECK(store.set_once("begins", "").value() == "");
  CHECK(store.has("begins").value());
  CHECK_FALSE(store.has("over").value());
  CHECK(store.get("over", kShort).status().code() == Code::kTimeout);
  // While one secret replaces the other, both are known.
  const auto both = seal_of({2, 1});
  SealedStore later(below, *both);
  CHECK(later.get("card/0", kShort).value() == "member=7\nhost=a\n");
}

TEST_CASE("what others wrote, changed or moved is refused" * doctest::skip(!secure::available())) {
  MemoryStore below;
  const auto seal = seal_of({1});
  SealedStore store(below, *seal);
  REQUIRE(store.set("card/0", "host=a").is_ok());
  REQUIRE(store.set("card/1", "host=b").is_ok());
  const std::string first = below.get("card/0", kShort).value();
  const std::string second = below.get("card/1", kShort).value();
  // One card in place of another, a changed one, one without a code, and none.
  for (const std::string& text :
       {second, "host=c" + first.substr(6), std::string("host=a"), std::string(),
        first.substr(0, first.size() - 1), first + "0", first.substr(1)}) {
    CAPTURE(text);
    REQUIRE(below.set("card/0", text).is_ok());
    CHECK(is_refused(store.get("card/0", kShort).status()));
    CHECK(is_refused(store.has("card/0").status()));
    CHECK(is_refused(store.set_once("card/0", "host=a").status()));
  }
  REQUIRE(below.set("over", "1").is_ok());
  CHECK(is_refused(store.has("over").status()));
  const auto another = seal_of({3});
  SealedStore stranger(below, *another);
  CHECK(is_refused(stranger.get("card/1", kShort).status()));
}

}  // namespace
}  // namespace holdfast::runtime

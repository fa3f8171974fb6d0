// Tokens at a door: a coordinator lets in by them, and two members that it has let in prove to each
// other who they are; everybody else is told why not. Real sockets of this host.
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/pass_holder.h"
#include "sealed_door.h"

namespace holdfast::runtime {
namespace {

using secure::Serial;
using secure::Token;
using secure::TokenClaims;
using testing::SealedDoor;
using testing::SecretFile;

constexpr MemberId kCoordinator{2};

TokenClaims claims_for(const std::string& run) {
  TokenClaims claims;
  claims.serial = random_serial().value();
  claims.run = run;
  claims.not_after = {unix_now().value + 60};
  return claims;
}

Token minted(const SecretFile& secret, TokenClaims claims) {
  const auto ring = secure::KeyRing::make(read_secret_files(secret.path()).value());
  return ring.value().mint(std::move(claims)).value();
}

std::shared_ptr<const Sealer> holder(const SecretFile& secret, TokenClaims claims) {
  return PassHolder::make(enter_by_token(minted(secret, std::move(claims))), kCoordinator).value();
}

// A coordinator's door.
struct Entrance {
  explicit Entrance(const SecretFile& secret)
      : gate(Gatekeeper::open(secret.path()).value()), door(gate, kCoordinator) {}
  std::shared_ptr<Gatekeeper> gate;
  SealedDoor door;
};

bool holds(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("who has a token is let in, as a member of its run" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  Entrance at(secret);
  const TokenClaims claims = claims_for("run7");
  CHECK(at.door.refusal_of(*holder(secret, claims), {11}) == "");
  REQUIRE(at.gate->entrant({11}).has_value());
  CHECK(at.gate->entrant({11})->run == "run7");
  CHECK(at.gate->entrant({11})->token == claims.serial);
  // Who has the secret needs no token, and is of no run.
  CHECK(at.door.refusal_of(*secret.sealer(), {12}) == "");
  CHECK_FALSE(at.gate->entrant({12}).has_value());
}

TEST_CASE("who has a token that does not count is told why" * doctest::skip(!secure::available())) {
  const SecretFile secret;
  const SecretFile other;
  Entrance at(secret);
  const TokenClaims claims = claims_for("run7");
  CHECK(holds(at.door.refusal_of(*holder(other, claims), {11}), "share no secret"));
  at.gate->revoke({claims.serial});
  CHECK(holds(at.door.refusal_of(*holder(secret, claims), {11}), "was revoked"));
  CHECK_FALSE(at.gate->entrant({11}).has_value());

  TokenClaims twice = claims_for("run7");
  twice.uses = 2;
  const auto first = holder(secret, twice);
  CHECK(at.door.refusal_of(*first, {21}) == "");
  CHECK(at.door.refusal_of(*holder(secret, twice), {22}) == "");
  CHECK(holds(at.door.refusal_of(*holder(secret, twice), {23}), "was used 2 times"));
  // The same process again is not counted again.
  CHECK(at.door.refusal_of(*first, {21}) == "");

  CHECK(holds(at.door.refusal_of(*holder(secret, claims_for("run7")), {21}),
              "belongs to another key"));
}

TEST_CASE("who floods with ids of its own makes nobody be forgotten" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  Entrance at(secret);
  const TokenClaims claims = claims_for("run7");
  const auto flooder = holder(secret, claims);
  const auto other = holder(secret, claims_for("run7"));
  REQUIRE(at.door.refusal_of(*other, {1}) == "");
  std::uint64_t id = 2;
  std::string refusal;
  while (refusal.empty() && id < 2 * Gatekeeper::kMostUses) {
    refusal = at.door.refusal_of(*flooder, {id++});
  }
  CHECK(id == Gatekeeper::kMostUses + 3);
  CHECK(holds(refusal, "lets in no more"));
  CHECK(at.gate->entrant({1}).has_value());
  CHECK(at.gate->entrant({2}).has_value());
  CHECK(holds(at.door.refusal_of(*flooder, {1}), "belongs to another key"));
  // Who was let in before may come again, and others' tokens still let in.
  CHECK(at.door.refusal_of(*flooder, {2}) == "");
  CHECK(at.door.refusal_of(*holder(secret, claims_for("run7")), {id}) == "");
}

TEST_CASE("a token that lets nobody join is refused before a call" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  TokenClaims observer = claims_for("run7");
  observer.role = secure::TokenRole::kObserver;
  CHECK(holds(enter_by_token(minted(secret, observer)).status().message(),
              "accepted, to join: member"));
  TokenClaims late = claims_for("run7");
  late.not_after = {unix_now().value - 7200};
  CHECK(holds(enter_by_token(minted(secret, late)).status().message(), "expired 2 h"));
}

TEST_CASE("members that were let in prove who they are to each other" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  Entrance at(secret);
  const auto one = holder(secret, claims_for("run7"));
  const auto other = holder(secret, claims_for("run7"));
  SealedDoor members(one, {31});
  // Nobody has a pass yet.
  CHECK(holds(members.refusal_of(*other, {32}), "has not let it in yet"));
  REQUIRE(at.door.refusal_of(*one, {31}) == "");
  REQUIRE(at.door.refusal_of(*other, {32}) == "");
  CHECK(members.refusal_of(*other, {32}) == "");
  // A member takes another one's name.
  CHECK(holds(members.refusal_of(*other, {33}), "is of another member"));
  // The callee is not who was called.
  SealedDoor impostor(one, {34});
  CHECK(holds(impostor.refusal_of(*other, {32}), "is of another member"));
  // Of another run, let in by the same coordinator.
  const auto stranger = holder(secret, claims_for("run8"));
  REQUIRE(at.door.refusal_of(*stranger, {35}) == "");
  CHECK(holds(members.refusal_of(*stranger, {35}), "is of another run"));
  // By another coordinator.
  const SecretFile foreign_secret;
  Entrance elsewhere(foreign_secret);
  const auto foreign = holder(foreign_secret, claims_for("run7"));
  REQUIRE(elsewhere.door.refusal_of(*foreign, {36}) == "");
  CHECK(holds(members.refusal_of(*foreign, {36}), "not signed by this run's coordinator"));
  // The secret alone opens no member's door that asks for passes.
  CHECK(members.refusal_of(*secret.sealer(), {37}) != "");
}

TEST_CASE("a standby with the secret knows who was let in before" *
          doctest::skip(!secure::available())) {
  const SecretFile secret;
  const auto one = holder(secret, claims_for("run7"));
  const auto other = holder(secret, claims_for("run7"));
  {
    Entrance first(secret);
    REQUIRE(first.door.refusal_of(*one, {31}) == "");
  }
  Entrance standby(secret);
  REQUIRE(standby.door.refusal_of(*other, {32}) == "");
  SealedDoor members(one, {31});
  CHECK(members.refusal_of(*other, {32}) == "");
}

TEST_CASE("two secrets let in while one replaces the other" * doctest::skip(!secure::available())) {
  const SecretFile before;
  const SecretFile after;
  const auto gate = Gatekeeper::open(after.path() + "," + before.path()).value();
  SealedDoor door(gate, kCoordinator);
  const auto old_member = holder(before, claims_for("run7"));
  const auto new_member = holder(after, claims_for("run7"));
  REQUIRE(door.refusal_of(*old_member, {41}) == "");
  REQUIRE(door.refusal_of(*new_member, {42}) == "");
  SealedDoor members(old_member, {41});
  CHECK(members.refusal_of(*new_member, {42}) == "");
  CHECK(holds(Gatekeeper::open(after.path() + "," + before.path() + ",x").status().message(),
              "or two while one secret replaces"));
}

}  // namespace
}  // namespace holdfast::runtime

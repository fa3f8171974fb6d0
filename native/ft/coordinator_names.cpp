// Of two worlds of one name one goes on. Which one is asked when a member of a world greets that
// is not known here.
#include <algorithm>

#include "ft/coordinator_service.h"

namespace holdfast::ft {
namespace {

// Limit of the worlds that claim a name which another one has: far more than a coordinator has
// lives in which it could found one.
constexpr std::size_t kMaxClaims = 64;

}  // namespace

// Handles the greeting of a member of a world that is not known here.
CoordinatorService::ServedWorld* CoordinatorService::find_greeted(MemberId from,
                                                                  const Message& message,
                                                                  Instant now) {
  const auto take_up = [&] { return begin(from, message.world, message, message.elastic, now); };
  if (!is_attested(settings_.notary, message.text, message)) {
    refuse(from, message.world,
           "no coordinator of this job has signed the view that this process says it is in");
    return nullptr;
  }
  ServedWorld* known = named(message.text);
  if (known == nullptr) return take_up();
  Coordinator& other = known->coordinator;
  if (other.view().epoch.value == 0) {
    // The other world has only strangers in its lobby, which ask again.
    worlds_.erase(other.world());
    return take_up();
  }
  if (message.elastic && other.is_elastic()) {
    const std::string why =
        "the group \"" + message.text + "\" has gone on in an older world, without this process";
    if (settings_.notary != nullptr && !outweighs(from, message, *known)) {
      refuse(from, message.world,
             "more processes are in a group \"" + message.text +
                 "\" that the coordinator knows than have called of this one");
      return nullptr;
    }
    if (settings_.notary == nullptr && other.world() < message.world) {
      fence(from, message.world, message.epoch, why);
      return nullptr;
    }
    for (const MemberId member : other.view().present()) {
      fence(member, other.world(), other.view().epoch, why);
    }
    claims_.erase(message.world);
    worlds_.erase(other.world());
    return take_up();
  }
  // The world of a fixed size is known by its id: one that has the name and cannot be reached, be
  // it an earlier job or what a newcomer founded before this one called, is not in its way.
  if (!message.elastic && !reaches_members(*known)) return take_up();
  refuse(from, message.world,
         "this coordinator has another job with a group \"" + message.text +
             "\"; name yours in the coordinator's address: host:port/NAME");
  return nullptr;
}

// A signed view may be long past: whoever was in it can show it again, and nobody else. So a world
// takes the name of another one only when more than half of its members have called, and they are
// more than those of the other one. Why: docs/decisions/0164-a-view-is-signed-by-who-decides-it.md
bool CoordinatorService::outweighs(MemberId from, const Message& message,
                                   const ServedWorld& known) {
  if (!claims_.contains(message.world) && claims_.size() >= kMaxClaims) return false;
  auto& claimants = claims_[message.world];
  claimants.insert(from);
  const auto of = [](const std::set<MemberId>& some, const WorldView& view) {
    return static_cast<std::size_t>(
        std::count_if(some.begin(), some.end(), [&](MemberId m) { return view.has(m); }));
  };
  const std::size_t called = of(claimants, message.view);
  return 2 * called > message.view.present().size() &&
         called > of(known.connected, known.coordinator.view());
}

void CoordinatorService::withdraw(MemberId claimant) {
  for (auto& [world, claimants] : claims_) claimants.erase(claimant);
  std::erase_if(claims_, [](const auto& claim) { return claim.second.empty(); });
}

}  // namespace holdfast::ft

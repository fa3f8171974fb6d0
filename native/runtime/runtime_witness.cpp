// What a runtime leaves for whoever started its process, and hears of such witnesses of others.
#include <algorithm>
#include <utility>

#include "base/fnv.h"
#include "runtime/runtime.h"
#include "secure/hex.h"
#include "secure/testimony.h"

namespace holdfast::runtime {
namespace {

// A job has fewer members that others are told of at a time; more are a flood.
constexpr std::size_t kMostEndpoints = 8192;
// Signatures looked at in a heartbeat, by the thread that moves data: an ex-member knows whose end
// it might claim, and could claim it all the time.
constexpr int kMostChecks = 64;

}  // namespace

// The coordinator first, for it decides.
void Runtime::leave_note() {
  if (!note_) return;
  // Reading the cards of many members takes milliseconds.
  Fnv1a views;
  views.mix(peers_.size());
  router_.each_world([&](const auto& world) {
    views.mix(world->id().value);
    views.mix(world->view().epoch.value);
  });
  if (std::exchange(noted_, views.value()) == views.value()) return;
  std::vector<Endpoint> others;
  for (const HostSearch& host : parts_.hosts) {
    for (const Endpoint& at : host.endpoints()) others.push_back(at);
  }
  router_.each_world([&](const auto& world) {
    const ft::WorldView& view = world->view();
    for (std::size_t r = 0; r < view.members.size(); ++r) {
      const MemberId member = view.members[r];
      if (member == ft::kNobody || member == parts_.self) continue;
      const auto card = parse_card(view.cards[r]);
      if (!card.is_ok()) continue;
      std::vector<std::string> addresses = card.value().addresses;
      // Where it is known to be, if its card says so.
      const Peer* peer = find_peer(member);
      const bool known = peer != nullptr && std::find(addresses.begin(), addresses.end(),
                                                      peer->address) != addresses.end();
      if (known) addresses = {peer->address};
      for (const std::string& address : addresses) others.push_back({address, card.value().port});
    }
  });
  if (others.size() > kMostEndpoints) others.resize(kMostEndpoints);
  note_->write(others);
}

// The key of whoever started the process, as its card says; empty: nobody.
std::string Runtime::witness_of(MemberId member) const {
  std::string card = router_.card_of(member);
  if (parts_.service != nullptr) {
    parts_.service->each_world([&](const ft::Coordinator& world) {
      if (card.empty()) card = ft::card_in(world.view(), member);
    });
  }
  const auto parsed = parse_card(card);
  return parsed.is_ok() ? parsed.value().witness : std::string{};
}

void Runtime::hear_testimonies() {
  const Instant now = parts_.clock->now();
  if (now - checks_since_ >= parts_.options.heartbeat) {
    checks_since_ = now;
    checks_ = 0;
  }
  for (const secure::Testimony& said : doorman_->take_testimonies()) {
    secure::PublicKey key{};
    const std::string witness = witness_of(said.ended);
    if (witness.empty() || !secure::unhex(witness, key) || ++checks_ > kMostChecks) continue;
    if (!secure::is_true(said, key)) continue;
    // What it had sent is read first.
    if (Peer* peer = find_peer(said.ended)) peer->control->set_readable();
    router_.on_witnessed_end(said.ended);
  }
}

}  // namespace holdfast::runtime

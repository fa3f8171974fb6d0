// What a world does about its members' connections.
#include "group/world.h"

namespace holdfast::ft {

void World::on_closed(MemberId member, const Status& why, Instant now) {
  explain_losses(now);
  for (const auto& group : groups()) group->on_died(member, why);
  // Nothing changes until an op misses it; but a change that is under way waits for its word.
  if (membership_.has_left(member) && !membership_.changing()) return;
  membership_.on_closed(member, now);
  carry_out(now);
}

void World::on_silent(MemberId member, Instant now) {
  explain_losses(now);
  membership_.on_silent(member, now);
  carry_out(now);
}

void World::on_heard(MemberId member, Instant now) {
  membership_.on_heard(member, now);
  carry_out(now);
}

// What the members have done of the ops under way, they find out by ending the view.
void World::on_relinked(MemberId member, bool data_lost, Instant now) {
  for (const auto& group : groups()) group->on_relinked(member, data_lost);
  membership_.on_relinked(member, now);
  carry_out(now);
}

void World::on_connected(MemberId peer, Instant now) {
  if (peer != membership_.settings().coordinator) return;
  membership_.greet(now);
  carry_out(now);
}

// A loss is a state, not an event: a member may have been lost before the world, or the view, that
// has it.
void World::look_at_contacts(Instant now) {
  using State = Contact::ContactState;
  for (std::size_t r = 0; r < view().members.size(); ++r) {
    const MemberId member = view().members[r];
    if (member == kNobody || member == self_) continue;
    switch (network_.contact_of(member, now).state) {
      case State::kHeard: break;
      case State::kSilent: on_silent(member, now); break;
      case State::kGone: on_closed(member, network_.loss_of(member)->why, now); break;
      case State::kLeft:
        if (!membership_.has_left(member)) on_goodbye(member, {}, now);
        break;
      case State::kUnknown:
      case State::kCut: network_.look_after(member, view().cards[r], now); break;
    }
  }
  for (const auto& [outcast, rank, card] : membership_.at_large()) {
    const State state = network_.contact_of(outcast, now).state;
    if (state == State::kGone) on_closed(outcast, network_.loss_of(outcast)->why, now);
    if (state == State::kLeft) on_goodbye(outcast, {}, now);
    // It is to be told; its host may say that it has ended.
    if (state == State::kUnknown || state == State::kCut) network_.look_after(outcast, card, now);
  }
}

}  // namespace holdfast::ft

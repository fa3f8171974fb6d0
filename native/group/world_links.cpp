// A world's connections with its members: which it looks after, and what a new one means.
#include <algorithm>

#include "group/world.h"

namespace holdfast::group {

comm::MemberLinks World::links_to(MemberId member) {
  const comm::MemberLinks links = network_.links_to(member);
  if (links.data != nullptr || membership_.is_sparse()) return links;
  return {&nowhere_, &nowhere_};
}

void World::reach(MemberId member) {
  if (!membership_.is_sparse() || member == self_ || !view().has(member)) return;
  if (links_to(member).data != nullptr) return;
  network_.look_after(member, ft::card_in(view(), member), turned_);
}

void World::on_linked(MemberId member) {
  for (const auto& group : groups()) group->on_linked(member);
}

// Ending the view shows how far the members have come with the ops under way.
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
  using State = ft::Contact::ContactState;
  const bool sparse = membership_.is_sparse();
  const std::vector<MemberId> near = sparse ? membership_.neighbours() : std::vector<MemberId>{};
  const auto is_watched = [&](MemberId member) {
    return !sparse || std::find(near.begin(), near.end(), member) != near.end();
  };
  for (std::size_t r = 0; r < view().members.size(); ++r) {
    const MemberId member = view().members[r];
    if (member == ft::kNobody || member == self_) continue;
    switch (network_.contact_of(member, now).state) {
      case State::kHeard: break;
      case State::kSilent: on_silent(member, now); break;
      case State::kGone: on_closed(member, network_.loss_of(member)->why, now); break;
      case State::kLeft:
        if (!membership_.has_left(member)) on_goodbye(member, {}, now);
        break;
      case State::kUnknown:
      case State::kCut:
        if (is_watched(member)) network_.look_after(member, view().cards[r], now);
        break;
    }
  }
  for (const auto& [outcast, rank, card] : membership_.at_large()) {
    const State state = network_.contact_of(outcast, now).state;
    if (state == State::kGone) on_closed(outcast, network_.loss_of(outcast)->why, now);
    if (state == State::kLeft) on_goodbye(outcast, {}, now);
    // The outcast is to be told; its host may say that its process has ended. Of a sparse world,
    // who coordinates does that, and who has met it.
    const bool tells = !sparse || membership_.coordinator() == self_ || state == State::kCut;
    if (state != State::kUnknown && state != State::kCut) continue;
    if (tells) network_.look_after(outcast, card, now);
  }
}

// A newcomer may be connected to this process without having been noted so here yet.
bool World::can_adopt(const ft::WorldView& next, Instant now) {
  if (membership_.is_sparse()) return true;
  using State = ft::Contact::ContactState;
  return std::all_of(next.members.begin(), next.members.end(), [&](MemberId m) {
    return m == ft::kNobody || m == self_ || membership_.is_suspect(m) ||
           network_.links_to(m).data != nullptr || network_.loss_of(m) != nullptr ||
           network_.contact_of(m, now).state != State::kUnknown;
  });
}

}  // namespace holdfast::group

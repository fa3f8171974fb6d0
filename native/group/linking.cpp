// How a group's ops and messages come to the links of its members, and what becomes of them when
// a connection takes the place of another.
#include "group/group.h"
#include "group/world.h"

namespace holdfast::group {

void Group::on_relinked(MemberId member, bool data_lost) {
  const auto rank = roster_.rank_of(member);
  if (!rank || *rank == config_.rank) return;
  ask_for_turns();
  departure_.on_relinked(member);
  mail_.on_relinked(*rank);
  if (!data_lost) return;
  const comm::MemberLinks links = world_->links_to(member);
  for (std::vector<std::byte>& said : messages_.relink(*rank, links.data)) {
    links.control->session().send_control(comm::FrameKind::kSent, config_.id, {}, std::move(said));
  }
  links.control->pump();
  end_messages();
}

void Group::reach(Rank rank) {
  if (rank.value >= 0) world_->reach(roster_.member(rank));
}

void Group::on_linked(MemberId member) {
  const auto rank = roster_.rank_of(member);
  if (!rank || *rank == config_.rank) return;
  ask_for_turns();
  const comm::MemberLinks links = world_->links_to(member);
  if (const auto place = view_rank_of(member, roster_.epoch)) {
    comm_->set_links(*place, links);
    watch_.linked(roster_.world_ranks[static_cast<std::size_t>(rank->value)], links);
  }
  messages_.link(*rank, links.data);
  departure_.on_relinked(member);
  mail_.on_relinked(*rank);
}

void Group::on_sent(MemberId from, std::span<const std::byte> payload) {
  const auto rank = roster_.rank_of(from);
  if (!health().is_ok()) return;
  if (!rank) return early_notices_.keep(from, payload);
  ask_for_turns();
  if (const Status sound = messages_.hear_sent(*rank, payload); !sound.is_ok()) return fail(sound);
  end_messages();
}

}  // namespace holdfast::group

// What a group does about its members' connections, and whom its messages go to.
#include <algorithm>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {

void Group::seat_messages(const std::vector<MemberId>& before, Epoch epoch) {
  messages_.resize(static_cast<int>(config_.members.size()));
  for (std::size_t r = 0; r < config_.members.size(); ++r) {
    const MemberId member = config_.members[r];
    const Rank rank{static_cast<std::int32_t>(r)};
    if (r < before.size() && before[r] == member) continue;
    if (rank == config_.rank || member == kNobody) {
      messages_.seat(rank, nullptr, epoch);
    } else {
      messages_.seat(rank, world_->links_to(member).data, epoch);
    }
  }
  end_messages();
}

// Died, or said goodbye, and is still in the view.
bool Group::has_gone(MemberId member) const {
  return std::any_of(gone_.begin(), gone_.end(),
                     [member](const auto& entry) { return entry.first == member; });
}

void Group::on_died(MemberId member, const Status& why) {
  const auto rank = rank_of(member);
  if (!rank) return;
  // Its goodbye came before: the end of its connections is no death.
  const bool left = has_gone(member);
  messages_.on_gone(*rank, !left, why);
  gone_.emplace_back(member, why);
  if (config_.protect || !comm_) return;
  const auto view_rank = view_rank_of(member, epoch_);
  if (view_rank) comm_->on_gone(*view_rank, why);
}

void Group::on_goodbye(MemberId member) {
  const auto rank = rank_of(member);
  if (!rank) return;
  const Status why(Code::kPeerLost, "the peer left");
  messages_.on_gone(*rank, false, why);
  gone_.emplace_back(member, why);
  left_.insert(member);
  const auto view_rank = view_rank_of(member, epoch_);
  if (view_rank) comm_->on_gone(*view_rank, why);
}

void Group::on_relinked(MemberId member, bool data_lost) {
  const auto rank = rank_of(member);
  if (!rank || *rank == config_.rank) return;
  // Said over the last connection, and perhaps not heard.
  if (leaving_ && leaving_->quiet.load(std::memory_order_relaxed)) {
    send_to(member, comm::FrameKind::kClosing, epoch_);
  }
  if (!data_lost) return;
  const comm::MemberLinks links = world_->links_to(member);
  for (std::vector<std::byte>& said : messages_.relink(*rank, links.data)) {
    links.control->session().send_control(comm::FrameKind::kSent, config_.id, {}, std::move(said));
  }
  links.control->pump();
  end_messages();
}

void Group::on_sent(MemberId from, std::span<const std::byte> payload) {
  const auto rank = rank_of(from);
  if (!rank || !health().is_ok()) return;
  if (const Status sound = messages_.hear_sent(*rank, payload); !sound.is_ok()) return fail(sound);
  end_messages();
}

}  // namespace holdfast::ft

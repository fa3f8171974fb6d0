#include "group/parts/group_mail.h"

#include <algorithm>
#include <utility>

#include "group/world.h"

namespace holdfast::group {

GroupMail::~GroupMail() {
  if (!office_) return;
  office_->end({Code::kNotMember, "the group has ended"});
  office_->set_network(nullptr);
}

std::shared_ptr<comm::PostOffice> GroupMail::open(std::shared_ptr<comm::Executor> executor,
                                                  std::shared_ptr<const Clock> clock) {
  if (office_) return office_;
  office_ =
      std::make_shared<comm::PostOffice>(roster_.self, static_cast<int>(roster_.members.size()),
                                         comm::MailLimits{}, std::move(executor), std::move(clock));
  office_->set_network(this);
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    seat(Rank{static_cast<std::int32_t>(r)});
  }
  for (const auto& [member, why] : roster_.gone) {
    if (const auto rank = roster_.rank_of(member)) {
      office_->on_gone(*rank, !roster_.left.contains(member), why);
    }
  }
  for (const EarlyMail& mail : std::exchange(early_, {})) hear(mail.from, mail.frame);
  office_->progress();
  return office_;
}

void GroupMail::seat(Rank rank) {
  const MemberId member = roster_.member(rank);
  if (rank == roster_.self || member == ft::kNobody) return;
  office_->seat(rank);
}

void GroupMail::take_members(const std::vector<MemberId>& before) {
  if (!office_) return;
  for (std::size_t r = 0; r < roster_.members.size() && r < before.size(); ++r) {
    if (before[r] == roster_.members[r]) continue;
    const Rank rank{static_cast<std::int32_t>(r)};
    if (before[r] != ft::kNobody) {
      office_->on_gone(rank, true, {Code::kPeerLost, "the member is in the view no more"});
    }
    seat(rank);
  }
}

void GroupMail::on_gone(Rank rank, bool died, const Status& why) {
  if (office_) office_->on_gone(rank, died, why);
}

void GroupMail::on_relinked(Rank rank) {
  if (office_) office_->relink(rank);
}

void GroupMail::hear(MemberId from, std::span<const std::byte> frame) {
  const auto rank = roster_.rank_of(from);
  if (!rank) return;
  if (office_) return office_->hear(*rank, frame);
  const auto of_member = [&](const EarlyMail& mail) { return mail.from == from; };
  if (std::count_if(early_.begin(), early_.end(), of_member) >=
      static_cast<std::ptrdiff_t>(kMostEarly)) {
    early_.erase(std::find_if(early_.begin(), early_.end(), of_member));
  }
  early_.push_back({from, {frame.begin(), frame.end()}});
}

void GroupMail::end(const Status& why) {
  if (office_) office_->end(why);
}

comm::MailMeter* GroupMail::meter_of(Rank rank) {
  comm::Observer* const observer = world_.network().observer();
  return observer == nullptr ? nullptr : observer->mail_meter(rank);
}

// A frame that finds no link, or is lost with it, goes out again over the next one.
void GroupMail::send_mail(Rank to, std::vector<std::byte> frame) {
  comm::Link* control = world_.links_to(roster_.member(to)).control;
  if (control == nullptr) return world_.reach(roster_.member(to));
  control->session().send_control(comm::FrameKind::kMail, group_, {}, std::move(frame));
  control->pump();
}

std::optional<comm::Bell> GroupMail::bell_of(Rank rank) {
  const comm::HostPeer* area = memory_.area_of(rank);
  return area == nullptr ? std::nullopt : std::optional(area->bell);
}

}  // namespace holdfast::group

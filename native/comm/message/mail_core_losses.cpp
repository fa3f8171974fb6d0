// What becomes of messages when ranks come and go, and when the world ends.
#include <utility>

#include "comm/message/mail_core.h"

namespace holdfast::comm {

MailPeer& MailCore::seat(Rank rank, MailLane* lane) {
  MailSeat& seat = seats_[static_cast<std::size_t>(rank.value)];
  CHECK(seat.peer == nullptr || !seat.gone.is_ok());
  for (auto& [id, context] : contexts_) {
    if (seat.gone.is_ok() || !is_member(context, rank)) continue;
    --context.left;
    if (context.died == rank) context.died = first_died(context, rank);
  }
  seat.gone = Status::ok();
  seat.died = false;
  seat.peer = std::make_unique<MailPeer>(self_, rank, limits_, *this);
  seat.peer->set_lane(lane);
  return *seat.peer;
}

// The first member that has died, but for this one.
std::optional<Rank> MailCore::first_died(const MailContext& context, Rank except) const {
  for (std::int32_t r = 0; r < size(); ++r) {
    if (seats_[static_cast<std::size_t>(r)].died && is_member(context, {r}) && Rank{r} != except) {
      return Rank{r};
    }
  }
  return std::nullopt;
}

void MailCore::on_gone(Rank rank, bool died, const Status& why) {
  MailSeat& seat = seats_[static_cast<std::size_t>(rank.value)];
  if (!seat.gone.is_ok() || rank == self_) return;
  seat.gone = Status(why.code(), why.message()).about({rank}, why.epoch());
  seat.died = died;
  ++news_;
  for (auto& [id, context] : contexts_) {
    if (!is_member(context, rank)) continue;
    ++context.left;
    if (died && !context.died) context.died = rank;
  }
  if (seat.peer != nullptr) {
    lose_mail(*seat.peer, seat.gone);
    seat.peer->fail_all(seat.gone);
  }
  for (MailRequest* receive = matcher_.first_posted(); receive != nullptr;) {
    MailRequest& posted = *receive;
    receive = posted.lists[Matcher::kAllPosted].next;
    const Status lost = hopeless(posted.pattern);
    if (lost.is_ok()) continue;
    matcher_.cancel(posted);
    fail(posted, lost);
  }
}

// What has come in full stays; of the rest, only its sender had the payload.
void MailCore::lose_mail(MailPeer& peer, const Status& why) {
  for (MailArrival* arrival = matcher_.first_kept(); arrival != nullptr;) {
    auto& mail = static_cast<KeptMail&>(*arrival);
    arrival = mail.lists[Matcher::kAllKept].next;
    if (mail.from != &peer) continue;
    mail.from = nullptr;
    mail.cost = 0;
    if (!mail.announced) continue;
    matcher_.remove(mail);
    pool_.give(mail);
  }
  for (MailArrival* arrival = taken_.first; arrival != nullptr;) {
    auto& mail = static_cast<KeptMail&>(*arrival);
    arrival = mail.lists[Matcher::kAllKept].next;
    if (mail.from != &peer) continue;
    mail.from = nullptr;
    mail.cost = 0;
    if (mail.announced) mail.lost = why;
  }
}

void MailCore::end(const Status& why) {
  if (!ended_.is_ok()) return;
  ended_ = why;
  ++news_;
  for (MailSeat& seat : seats_) {
    if (seat.peer == nullptr) continue;
    lose_mail(*seat.peer, why);
    seat.peer->fail_all(why);
  }
  while (MailRequest* posted = matcher_.first_posted()) {
    matcher_.cancel(*posted);
    fail(*posted, why);
  }
  for (auto* list : {matcher_.first_kept(), taken_.first}) {
    for (MailArrival* arrival = list; arrival != nullptr;) {
      auto& mail = static_cast<KeptMail&>(*arrival);
      arrival = mail.lists[Matcher::kAllKept].next;
      MailRequest* local = std::exchange(mail.local, nullptr);
      if (local == nullptr) continue;
      mail.lost = why;
      local->kept = nullptr;
      fail(*local, why);
    }
  }
}

}  // namespace holdfast::comm

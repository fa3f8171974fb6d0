#include "health/world_board.h"

#include <algorithm>
#include <array>

namespace holdfast::runtime {
namespace {

using comm::LossCause;
using Contacted = ft::Contact::State;

// Of a member that a view has just lost, by its connection: members may have had other reasons.
LossCause cause_of(Contacted contact) {
  switch (contact) {
    case Contacted::kGone: return LossCause::kDied;
    case Contacted::kLeft: return LossCause::kLeft;
    case Contacted::kCut: return LossCause::kCut;
    case Contacted::kUnknown:
    case Contacted::kHeard:
    case Contacted::kSilent: return LossCause::kSilent;
  }
  return LossCause::kSilent;
}

SeatState state_of(const ft::Contact& contact, const RankNumbers* numbers) {
  switch (contact.state) {
    case Contacted::kUnknown: return SeatState::kUnheard;
    case Contacted::kSilent: return SeatState::kSilent;
    case Contacted::kCut:
    case Contacted::kGone: return SeatState::kGone;
    case Contacted::kLeft: return SeatState::kLeft;
    case Contacted::kHeard: break;
  }
  if (numbers == nullptr) return SeatState::kWell;
  switch (numbers->total().standing) {
    case comm::Standing::kAlone:
    case comm::Standing::kMember: return SeatState::kWell;
    case comm::Standing::kChanging: return SeatState::kChanging;
    case comm::Standing::kVotedOut:
    case comm::Standing::kEnded: return SeatState::kFailed;
  }
  return SeatState::kWell;
}

void add_rank(std::vector<BoardEvent>& events, BoardEvent event, std::size_t rank,
              const std::string& host) {
  const auto at = std::find_if(events.begin(), events.end(), [&](const BoardEvent& known) {
    return known.kind == event.kind && known.cause == event.cause;
  });
  BoardEvent& to = at == events.end() ? events.emplace_back(std::move(event)) : *at;
  ++to.count;
  if (to.ranks.size() == kRanksNamed) return;
  to.ranks.push_back({static_cast<std::int32_t>(rank)});
  if (std::find(to.hosts.begin(), to.hosts.end(), host) == to.hosts.end()) to.hosts.push_back(host);
}

}  // namespace

std::string_view seat_state_name(SeatState state) {
  constexpr std::array<std::string_view, kSeatStateCount> kNames = {
      "vacant", "well", "changing", "failed", "unheard", "silent", "gone", "left", "lost"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::vector<BoardEvent> WorldBoard::update(const WorldNews& news, const Look& look,
                                           const NumbersOf& numbers_of, Instant now) {
  const ft::WorldView& view = *news.view;
  std::vector<BoardEvent> events;
  // A world without members has no view yet.
  const bool is_new = view.epoch != epoch_ || view.members != view_;
  if (is_new) events = take_view(view, look, now);
  if (!news.blocked.empty() && blocked_.empty()) {
    events.push_back({now, name_, "blocked", "", view.epoch, 0, {}, {}, news.blocked});
  }
  waiting_ = news.waiting;
  blocked_ = news.blocked;
  for (std::size_t r = 0; r < view_.size(); ++r) {
    if (view_[r] == ft::kNobody) continue;
    seats_[r].numbers = numbers_of(view_[r]);
    look_at(seats_[r], look(view_[r]), now);
  }
  return events;
}

void WorldBoard::look_at(Seat& seat, const ft::Contact& contact, Instant now) {
  seat.heard = std::max(seat.heard, contact.heard);
  const SeatState state = state_of(contact, seat.numbers.get());
  if (state == seat.state) return;
  seat.state = state;
  seat.since = now;
}

std::vector<BoardEvent> WorldBoard::take_view(const ft::WorldView& view, const Look& look,
                                              Instant now) {
  std::vector<BoardEvent> events;
  const bool begins = view_.empty();
  ViewRecord record{view.epoch, now, 0, 0, 0};
  seats_.resize(std::max(seats_.size(), view.members.size()));
  for (std::size_t r = 0; r < seats_.size(); ++r) {
    const MemberId was = r < view_.size() ? view_[r] : ft::kNobody;
    const MemberId is = r < view.members.size() ? view.members[r] : ft::kNobody;
    record.members += is != ft::kNobody ? 1 : 0;
    if (was == is) continue;
    Seat& seat = seats_[r];
    if (was != ft::kNobody) {
      ++record.lost;
      seat.state = SeatState::kLost;
      seat.cause = comm::loss_cause_name(cause_of(look(was).state));
      seat.since = now;
      add_rank(events, {now, name_, "lost", seat.cause, view.epoch, 0, {}, {}, ""}, r, seat.host);
    }
    if (is == ft::kNobody) continue;
    ++record.joined;
    seat = {is, SeatState::kUnheard, "", "", "", {}, now, nullptr};
    Place place = place_of_(r < view.cards.size() ? view.cards[r] : std::string{});
    seat.host = std::move(place.host);
    seat.http = std::move(place.http);
    const std::string_view kind = begins ? "began" : "joined";
    add_rank(events, {now, name_, kind, "", view.epoch, 0, {}, {}, ""}, r, seat.host);
  }
  epoch_ = view.epoch;
  view_ = view.members;
  members_ = record.members;
  views_.push_back(record);
  if (views_.size() > kEpochsKept) views_.pop_front();
  return events;
}

}  // namespace holdfast::runtime

#include "health/world_status.h"

#include <algorithm>
#include <array>

#include "health/json.h"

namespace holdfast::health {
namespace {

using comm::LossCause;
using Contacted = ft::Contact::ContactState;

// Guesses from its connection why a view has lost a member; the members may have had other reasons.
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

RankState state_of(const ft::Contact& contact, const RankNumbers* numbers) {
  switch (contact.state) {
    case Contacted::kUnknown: return RankState::kUnheard;
    case Contacted::kSilent: return RankState::kSilent;
    case Contacted::kCut:
    case Contacted::kGone: return RankState::kGone;
    case Contacted::kLeft: return RankState::kLeft;
    case Contacted::kHeard: break;
  }
  if (numbers == nullptr) return RankState::kWell;
  switch (numbers->total().standing) {
    case comm::Standing::kAlone:
    case comm::Standing::kMember: return RankState::kWell;
    case comm::Standing::kChanging: return RankState::kChanging;
    case comm::Standing::kVotedOut:
    case comm::Standing::kEnded: return RankState::kFailed;
  }
  return RankState::kWell;
}

void add_rank(std::vector<StatusEvent>& events, StatusEvent event, std::size_t rank,
              const std::string& host) {
  const auto at = std::find_if(events.begin(), events.end(), [&](const StatusEvent& known) {
    return known.kind == event.kind && known.cause == event.cause;
  });
  StatusEvent& to = at == events.end() ? events.emplace_back(std::move(event)) : *at;
  ++to.count;
  if (to.ranks.size() == kRanksNamed) return;
  to.ranks.push_back({static_cast<std::int32_t>(rank)});
  if (std::find(to.hosts.begin(), to.hosts.end(), host) == to.hosts.end()) to.hosts.push_back(host);
}

std::string map_text(const comm::MapFacts& map) {
  return "version " + std::to_string(map.version) + ", digest " + hex_digits(map.digest) + ", " +
         std::to_string(map.ranks) + " ranks";
}

}  // namespace

std::string_view rank_state_name(RankState state) {
  constexpr std::array<std::string_view, kRankStateCount> kNames = {
      "vacant", "well", "changing", "failed", "unheard", "silent", "gone", "left", "lost"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::vector<StatusEvent> WorldStatus::update(const WorldNews& news, const ContactOf& look,
                                             const NumbersOf& numbers_of, Instant now) {
  const ft::WorldView& view = *news.view;
  std::vector<StatusEvent> events;
  // A world without members has no view yet.
  const bool is_new = view.epoch != epoch_ || view.members != view_;
  if (is_new) events = take_view(news, look, now);
  if (!news.blocked.empty() && blocked_.empty()) {
    events.push_back({now, name_, "blocked", "", view.epoch, 0, {}, {}, news.blocked});
  }
  waiting_ = news.waiting;
  blocked_ = news.blocked;
  for (std::size_t r = 0; r < view_.size(); ++r) {
    if (view_[r] == ft::kNobody) continue;
    ranks_[r].numbers = numbers_of(view_[r]);
    look_at(ranks_[r], look(view_[r]), now);
  }
  if (look_at_maps(now)) {
    events.push_back({now, name_, "map", "", view.epoch, 0, {}, {}, map_text(map_)});
  }
  return events;
}

// Heartbeats of the ranks come one by one, so the newest map counts; whether it is another one.
bool WorldStatus::look_at_maps(Instant now) {
  comm::MapFacts newest;
  for (std::size_t r = 0; r < view_.size(); ++r) {
    if (view_[r] == ft::kNobody || !ranks_[r].numbers) continue;
    const comm::MapFacts& told = ranks_[r].numbers->total().map;
    if (told.ranks > 0 && (newest.ranks == 0 || told.version > newest.version)) newest = told;
  }
  if (newest.ranks == 0 || newest == map_) return false;
  map_ = newest;
  map_since_ = now;
  return true;
}

void WorldStatus::look_at(RankStatus& status, const ft::Contact& contact, Instant now) {
  status.heard = std::max(status.heard, contact.heard);
  const RankState state = state_of(contact, status.numbers.get());
  if (state == status.state) return;
  status.state = state;
  status.since = now;
}

std::vector<StatusEvent> WorldStatus::take_view(const WorldNews& news, const ContactOf& look,
                                                Instant now) {
  const ft::WorldView& view = *news.view;
  std::vector<StatusEvent> events;
  const bool begins = view_.empty();
  ViewRecord record{view.epoch, now, 0, 0, 0, 0};
  ranks_.resize(std::max(ranks_.size(), view.members.size()));
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const MemberId was = r < view_.size() ? view_[r] : ft::kNobody;
    const MemberId is = r < view.members.size() ? view.members[r] : ft::kNobody;
    record.members += is != ft::kNobody ? 1 : 0;
    if (was == is) continue;
    RankStatus& status = ranks_[r];
    if (was != ft::kNobody) {
      const LossCause cause = news.at_boundary ? LossCause::kLeft : cause_of(look(was).state);
      const bool left = cause == LossCause::kLeft;
      ++(left ? record.left : record.lost);
      status.state = left ? RankState::kLeft : RankState::kLost;
      status.cause = comm::loss_cause_name(cause);
      status.since = now;
      const std::string_view kind = left ? "left" : "lost";
      add_rank(events, {now, name_, kind, status.cause, view.epoch, 0, {}, {}, ""}, r, status.host);
    }
    if (is == ft::kNobody) continue;
    ++record.joined;
    status = {is, RankState::kUnheard, "", "", "", {}, now, nullptr};
    MemberPlace place = place_of_(r < view.cards.size() ? view.cards[r] : std::string{});
    status.host = std::move(place.host);
    status.http = std::move(place.http);
    const std::string_view kind = begins ? "began" : "joined";
    add_rank(events, {now, name_, kind, "", view.epoch, 0, {}, {}, ""}, r, status.host);
  }
  epoch_ = view.epoch;
  view_ = view.members;
  members_ = record.members;
  views_.push_back(record);
  if (views_.size() > kEpochsKept) views_.pop_front();
  return events;
}

}  // namespace holdfast::health

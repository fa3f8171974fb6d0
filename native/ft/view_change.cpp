#include "ft/view_change.h"

#include <algorithm>
#include <utility>

#include "ft/digest.h"

namespace holdfast::ft {
namespace {

// The members that report when `base` ends: all that stay, by rank.
std::vector<MemberId> who_stay(const WorldView& base, const std::vector<Rank>& vacated) {
  std::vector<MemberId> members = base.members;
  for (const Rank rank : vacated) members[static_cast<std::size_t>(rank.value)] = kNobody;
  std::erase(members, kNobody);
  return members;
}

bool is_rank_of(Rank rank, std::size_t ranks) {
  return rank.value >= 0 && static_cast<std::size_t>(rank.value) < ranks;
}

bool is_among(const std::vector<MemberId>& members, MemberId member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

// The lost ranks, in the order of report.lost; fewer, if a lost process is no member of the view.
std::vector<LostRank> ranks_of(const Message& report, const WorldView& view) {
  std::vector<LostRank> ranks;
  for (const MemberId member : report.lost) {
    const auto at = std::find(view.members.begin(), view.members.end(), member);
    if (at == view.members.end()) continue;
    const auto rank = static_cast<std::int32_t>(at - view.members.begin());
    ranks.push_back({Rank{rank}, !is_among(report.unproven, member)});
  }
  return ranks;
}

WorldView follow(const WorldView& base, const ViewChange& change) {
  WorldView next = base;
  ++next.epoch.value;
  next.admitted = change.admitted;
  for (const Rank rank : change.vacated) {
    next.members[static_cast<std::size_t>(rank.value)] = kNobody;
  }
  std::erase_if(next.outcasts, [&](const Outcast& outcast) {
    return std::find(change.absent.begin(), change.absent.end(), outcast.member) !=
           change.absent.end();
  });
  for (const Rank rank : change.cast_out) {
    const auto r = static_cast<std::size_t>(rank.value);
    next.outcasts.push_back({base.members[r], rank, base.cards[r]});
  }
  for (const Joiner& joiner : change.seated) {
    const auto r = static_cast<std::size_t>(joiner.wanted.value);
    if (r >= next.members.size()) {
      next.members.resize(r + 1, kNobody);
      next.cards.resize(r + 1);
    }
    next.members[r] = joiner.member;
    next.cards[r] = joiner.card;
  }
  if (!change.seated.empty()) next.forget_vacated();
  return next;
}

ViewChange change_of(const WorldView& base, const WorldView& next) {
  ViewChange change;
  change.base = digest_of(base);
  change.result = digest_of(next);
  change.admitted = next.admitted;
  for (const Outcast& outcast : base.outcasts) {
    if (!next.has_outcast(outcast.member)) change.absent.push_back(outcast.member);
  }
  for (const Outcast& outcast : next.outcasts) {
    if (!base.has_outcast(outcast.member)) change.cast_out.push_back(outcast.rank);
  }
  for (std::size_t r = 0; r < next.members.size(); ++r) {
    const Rank rank{static_cast<std::int32_t>(r)};
    const MemberId before = r < base.members.size() ? base.members[r] : kNobody;
    if (next.members[r] == before) continue;
    if (before != kNobody) change.vacated.push_back(rank);
    if (next.members[r] != kNobody) {
      change.seated.push_back({next.members[r], rank, next.cards[r]});
    }
  }
  return change;
}

}  // namespace

std::uint64_t digest_of(const WorldView& view) {
  Digest digest;
  digest.mix(view.epoch.value);
  digest.mix(view.admitted);
  digest.mix(view.members.size());
  for (const MemberId member : view.members) digest.mix(member.value);
  for (const std::string& card : view.cards) digest.mix(card);
  for (const auto& [outcast, rank, card] : view.outcasts) {
    digest.mix(outcast.value);
    digest.mix(static_cast<std::uint64_t>(rank.value));
    digest.mix(card);
  }
  return digest.value();
}

std::uint64_t digest_of_value(const Message& whole) {
  Digest digest;
  digest.mix(digest_of(whole.view));
  digest.mix(whole.reports.digest());
  digest.mix(std::uint64_t{whole.boundary});
  return digest.value();
}

Message abridged(Message message, const WorldView& view) {
  message.digest = digest_of(std::exchange(message.body.groups, {}));
  std::vector<LostRank> ranks = ranks_of(message, view);
  if (ranks.size() != message.lost.size()) return message;
  message.lost_ranks = std::move(ranks);
  message.lost.clear();
  message.unproven.clear();
  return message;
}

std::vector<std::pair<MemberId, bool>> losses_of(const Message& report, const WorldView& view) {
  std::vector<std::pair<MemberId, bool>> losses;
  for (const MemberId member : report.lost) {
    losses.emplace_back(member, !is_among(report.unproven, member));
  }
  for (const auto& [rank, proven] : report.lost_ranks) {
    const bool known = report.epoch == view.epoch && is_rank_of(rank, view.members.size());
    if (known) losses.emplace_back(view.members[static_cast<std::size_t>(rank.value)], proven);
  }
  std::sort(losses.begin(), losses.end());
  return losses;
}

Message named(const Message& proposal) {
  Message m;
  m.kind = proposal.kind;
  m.world = proposal.world;
  m.generation = proposal.generation;
  m.epoch = proposal.epoch;
  m.digest = digest_of_value(proposal);
  return m;
}

Message by_difference(const Message& whole, const WorldView& base) {
  Message difference = whole;
  difference.view = {};
  difference.change = change_of(base, whole.view);
  difference.reports.forget_members();
  Message back = difference;
  const bool same = base.epoch.value > 0 && spell_out(back, base) && back == whole;
  return same ? difference : whole;
}

bool spell_out(Message& message, const WorldView& base) {
  if (!message.change) return true;
  const ViewChange& change = *message.change;
  const auto is_rank = [&](Rank rank) { return is_rank_of(rank, base.members.size()); };
  const bool fits =
      change.base == digest_of(base) &&
      std::all_of(change.vacated.begin(), change.vacated.end(), is_rank) &&
      std::all_of(change.cast_out.begin(), change.cast_out.end(), is_rank) &&
      std::all_of(change.seated.begin(), change.seated.end(),
                  [](const Joiner& joiner) { return is_rank_of(joiner.wanted, kMaxRanks); });
  if (!fits) return false;
  WorldView next = follow(base, change);
  if (digest_of(next) != change.result) return false;
  if (!message.reports.name_members(who_stay(base, change.vacated))) return false;
  message.view = std::move(next);
  message.change.reset();
  return true;
}

}  // namespace holdfast::ft

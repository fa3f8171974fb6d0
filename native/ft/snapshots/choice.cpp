#include "ft/snapshots/choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/planted.h"
#include "ft/snapshots/group_parts.h"

namespace holdfast::ft {
namespace {

constexpr std::array<const char*, kSourceKinds> kKindNames = {"live", "keeper", "decode",
                                                              "storage"};
// An error names so many snapshots that could not be had.
constexpr std::size_t kMostNamed = 4;

// Parts that claim to be of one snapshot: the agreed hashes are part of its name.
struct SnapshotCandidate {
  SnapshotId id;
  std::vector<std::uint64_t> parts;
  bool committed = false;
  std::vector<const PartReport*> reports;
};

bool is_sound(const PartReport& part) {
  const auto seats = static_cast<int>(part.group.size());
  const auto ranks = static_cast<int>(part.parts.size());
  if (part.rank < 0 || part.rank >= ranks || part.parity < 0 || part.parity >= seats) return false;
  return std::all_of(part.group.begin(), part.group.end(),
                     [&](int rank) { return rank >= 0 && rank < ranks; });
}

// The newest first; of one id, what is known to be committed, and what more reports are of.
std::vector<SnapshotCandidate> candidates(const RestoreReports& reports) {
  std::map<std::pair<SnapshotId, std::vector<std::uint64_t>>, SnapshotCandidate> found;
  const auto& refused = reports.refused;
  for (const PartReport& part : reports.parts) {
    const bool is_refused = std::find(refused.begin(), refused.end(), part.id) != refused.end();
    if (is_refused || !is_sound(part)) continue;
    SnapshotCandidate& one = found[{part.id, part.parts}];
    one.id = part.id;
    one.parts = part.parts;
    one.committed = one.committed || part.committed;
    one.reports.push_back(&part);
  }
  std::vector<SnapshotCandidate> all;
  all.reserve(found.size());
  for (auto& [key, one] : found) all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.id, a.committed, a.reports.size()) >
           std::tuple(b.id, b.committed, b.reports.size());
  });
  for (SnapshotCandidate& one : all) {
    std::stable_sort(one.reports.begin(), one.reports.end(), [](const auto* a, const auto* b) {
      return std::tuple(a->place, a->holder) < std::tuple(b->place, b->holder);
    });
  }
  return all;
}

// S3: a body whose hashes are not the agreed ones counts as lost, whatever it says of itself.
std::vector<PartReport> trusted(const SnapshotCandidate& candidate) {
  std::vector<PartReport> parts;
  for (const PartReport* report : candidate.reports) {
    PartReport& part = parts.emplace_back(*report);
    const bool is_other = part.hashes != part.parts[static_cast<std::size_t>(part.rank)];
    if (is_other && !is_planted(Planted::kAnyHashes)) part.has_body = false;
  }
  return parts;
}

struct SourcesFound {
  std::vector<std::optional<RankSource>> sources;  // by rank
  std::string lacks;                               // the first reason
};

SourcesFound find_sources(const SnapshotCandidate& candidate,
                          const std::vector<PartReport>& parts) {
  SourcesFound found;
  found.sources.resize(candidate.parts.size());
  std::vector<GroupShare> groups;
  std::set<int> seated;
  for (const PartReport& part : parts) {
    const bool known = std::any_of(part.group.begin(), part.group.end(),
                                   [&](int rank) { return seated.contains(rank); });
    if (known) continue;
    seated.insert(part.group.begin(), part.group.end());
    groups.emplace_back(part);
  }
  for (GroupShare& group : groups) {
    for (const PartReport& part : parts) group.add(part);
    PartPlace most = PartPlace::kMemory;
    if (!group.lacks(most).empty()) most = PartPlace::kStorage;
    const std::string lacks = group.lacks(most);
    if (found.lacks.empty()) found.lacks = lacks;
    if (!lacks.empty()) continue;
    for (std::size_t seat = 0; seat < group.ranks().size(); ++seat) {
      RankSource source = group.source(seat, most);
      source.id = candidate.id;
      found.sources[static_cast<std::size_t>(source.rank)] = std::move(source);
    }
  }
  for (std::size_t rank = 0; rank < candidate.parts.size() && found.lacks.empty(); ++rank) {
    if (found.sources[rank]) continue;
    found.lacks = "of rank " + std::to_string(rank) + " and its code group no part is left";
  }
  return found;
}

// The newest step at which the living have everybody's state.
std::optional<RestoreChoice> choose_live(const std::vector<LiveReport>& live) {
  std::map<SnapshotId, std::map<int, int>, std::greater<>> boundaries;
  std::map<SnapshotId, int> sizes;
  for (const LiveReport& one : live) {
    sizes[one.id] = std::max(sizes[one.id], one.ranks);
    for (const int rank : one.covers) {
      // A trainer has its own state: the lowest holder is nearest to nobody else.
      auto [at, fresh] = boundaries[one.id].try_emplace(rank, one.holder);
      if (!fresh && one.holder == rank) at->second = one.holder;
    }
  }
  for (const auto& [id, holders] : boundaries) {
    RestoreChoice choice;
    for (int rank = 0; rank < sizes[id] && holders.contains(rank); ++rank) {
      choice.sources.push_back({rank, id, SourceKind::kLive, holders.at(rank), {}, {}});
    }
    if (sizes[id] == 0 || choice.sources.size() < static_cast<std::size_t>(sizes[id])) continue;
    choice.id = id;
    choice.reason = "all ranks' state lives at " + to_text(id);
    return choice;
  }
  return std::nullopt;
}

std::uint64_t newest_step(const RestoreReports& reports) {
  std::uint64_t step = reports.reached;
  for (const PartReport& part : reports.parts) step = std::max(step, part.id.step);
  for (const LiveReport& one : reports.live) step = std::max(step, one.id.step);
  return step;
}

RestoreChoice chosen(const SnapshotCandidate& candidate, SourcesFound found) {
  RestoreChoice choice;
  choice.id = candidate.id;
  choice.parts = candidate.parts;
  std::array<int, kSourceKinds> counts{};
  for (auto& source : found.sources) {
    ++counts.at(static_cast<std::size_t>(source->kind));
    choice.sources.push_back(std::move(*source));
  }
  choice.reason =
      to_text(candidate.id) + (candidate.committed ? "" : ", which some may have") + ":";
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] == 0) continue;
    choice.reason += " " + std::to_string(counts[kind]) + " by " + kKindNames[kind];
  }
  return choice;
}

// A planted bug: what a group lacks of the newest, it takes from an older one.
void mix(SourcesFound& found, const SourcesFound& older) {
  if (found.sources.size() != older.sources.size()) return;
  for (std::size_t rank = 0; rank < found.sources.size(); ++rank) {
    if (!found.sources[rank]) found.sources[rank] = older.sources[rank];
  }
  const auto& all = found.sources;
  if (std::all_of(all.begin(), all.end(), [](const auto& one) { return one.has_value(); })) {
    found.lacks.clear();
  }
}

}  // namespace

const char* source_kind_name(SourceKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

Result<RestoreChoice> choose_snapshot(const RestoreReports& reports) {
  const std::uint64_t newest = newest_step(reports);
  const auto with_loss = [&](RestoreChoice choice) {
    choice.steps_lost = newest - std::min(newest, choice.id.step);
    return choice;
  };
  const auto live = choose_live(reports.live);
  const auto all = candidates(reports);
  if (live && (all.empty() || live->id >= all.front().id)) return with_loss(*live);
  if (all.empty() && reports.refused.empty()) {
    RestoreChoice fresh;
    fresh.fresh = true;
    fresh.reason = "no snapshot has been committed, and none is in storage";
    return with_loss(fresh);
  }
  std::string lacks;
  std::optional<SourcesFound> mixed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (live && live->id >= all[i].id) return with_loss(*live);
    const std::vector<PartReport> parts = trusted(all[i]);
    SourcesFound found = find_sources(all[i], parts);
    if (is_planted(Planted::kMixSteps)) {
      if (mixed) mix(*mixed, found);
      if (!mixed) mixed = found;
      if (mixed->lacks.empty()) return with_loss(chosen(all.front(), *mixed));
    }
    if (found.lacks.empty()) return with_loss(chosen(all[i], std::move(found)));
    if (i < kMostNamed) lacks += "; " + to_text(all[i].id) + ": " + found.lacks;
  }
  if (live) return with_loss(*live);
  return Status{Code::kPeerLost, "no state can be restored of the steps up to " +
                                     std::to_string(newest) + lacks +
                                     "; storage has no snapshot that verifies for all ranks"};
}

}  // namespace holdfast::ft

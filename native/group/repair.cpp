#include "group/repair.h"

#include <algorithm>

#include "base/planted.h"

namespace holdfast::group {
namespace {

using comm::Collective;

bool has(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::uint32_t block_of(Rank rank) { return static_cast<std::uint32_t>(rank.value); }

class RepairPlanner {
 public:
  RepairPlanner(const OpFate& fate, const RepairQuestion& question, const Incident& incident)
      : question_(question), incident_(incident), fate_(fate) {
    fate_.transfers.clear();
    fate_.reductions.clear();
    fate_.zeros.clear();
    fate_.finish_flat = fate_.fresh = fate_.planned = false;
  }

  OpFate run() {
    if (fate_.lost || incident_.all_complete()) return fate_;
    if (any([](const OpReport& r) { return r.complete && r.flat; })) {
      fate_.finish_flat = true;
      return fate_;
    }
    const bool held_whole = any([](const OpReport& r) { return r.complete; });
    if (held_whole && is_replicated(question_.collective)) {
      // A survivor that holds it may have told its user which ranks contributed.
      const OpFate told = fate_;
      repair();
      fate_.epoch = told.epoch;
      fate_.retried = told.retried;
      return fate_;
    }
    fate_.retried = true;
    fate_.epoch = incident_.epoch;
    if (!held_whole && !any([](const OpReport& r) { return !r.held.empty(); })) {
      start_again();
    } else {
      repair();
    }
    return fate_;
  }

 private:
  const std::vector<Rank>& survivors() const { return incident_.survivors; }

  template <class Predicate>
  bool any(Predicate holds) const {
    return std::any_of(incident_.reports.begin(), incident_.reports.end(),
                       [&](const auto& report) { return report && holds(*report); });
  }

  // What survivor number i holds of an output block.
  ft::Ranges held(std::size_t i, std::uint32_t block) const {
    const auto& report = incident_.reports[i];
    if (!report) return {};
    if (report->complete)
      return has_output(survivors()[i], block) ? ft::Ranges::all() : ft::Ranges();
    for (const HeldBlock& h : report->held) {
      if (h.block == block) return h.held;
    }
    return {};
  }

  // Whether the rank's result has the output block at all.
  bool has_output(Rank rank, std::uint32_t block) const {
    if (!comm::has_result(question_.collective, rank == question_.root)) return false;
    return !is_reduced_for_each(question_.collective) || block == block_of(rank);
  }

  std::vector<ft::Ranges> held_by_all(std::uint32_t block) const {
    std::vector<ft::Ranges> sets;
    for (std::size_t i = 0; i < survivors().size(); ++i) sets.push_back(held(i, block));
    return sets;
  }

  void start_again() {
    if (is_rooted(question_.collective) && !has(survivors(), question_.root)) {
      fate_.lost = true;
      return;
    }
    fate_.fresh = true;
    give_up_contributions();
  }

  void repair() {
    fate_.planned = true;
    switch (question_.collective) {
      case Collective::kAllReduce: return repair_reduced(0, survivors(), std::nullopt);
      case Collective::kReduce:
        if (!root_lives()) return;
        return repair_reduced(0, {question_.root}, question_.root);
      case Collective::kReduceScatter:
      case Collective::kScan:
      case Collective::kExscan:
        for (const Rank rank : survivors()) repair_reduced(block_of(rank), {rank}, rank);
        return;
      case Collective::kAllGather:
        for (const Rank rank : all_ranks()) repair_copied(rank, survivors(), 0);
        return;
      case Collective::kGather:
        if (!root_lives()) return;
        for (const Rank rank : all_ranks()) repair_copied(rank, {question_.root}, 0);
        return;
      case Collective::kAllToAll:
        for (const Rank to : survivors()) {
          for (const Rank from : all_ranks()) repair_copied(from, {to}, block_of(to));
        }
        return;
      case Collective::kBroadcast: return repair_broadcast();
      case Collective::kScatter: return repair_scatter();
      case Collective::kBarrier: return;  // a member has passed it: all had reached it
      default: fate_.lost = true;
    }
  }

  bool root_lives() {
    if (!has(survivors(), question_.root)) fate_.lost = true;
    return !fate_.lost;
  }

  std::vector<Rank> all_ranks() const {
    std::vector<Rank> ranks = incident_.before;
    for (const std::vector<Rank>* others : {&fate_.contributors, &fate_.missing}) {
      ranks.insert(ranks.end(), others->begin(), others->end());
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  // Ranks that have gone, in this view or before, no longer have their data in every part.
  void give_up_contributions() {
    for (const Rank rank : all_ranks()) {
      if (!std::binary_search(survivors().begin(), survivors().end(), rank)) miss(rank);
    }
  }

  void miss(Rank rank) {
    if (!has(fate_.missing, rank)) fate_.missing.push_back(rank);
    std::sort(fate_.missing.begin(), fate_.missing.end());
    std::erase(fate_.contributors, rank);
  }

  // Sends what `targets` lack of an output block from its holders; returns what no survivor holds.
  ft::Ranges serve(std::uint32_t block, const std::vector<Rank>& targets) {
    const std::vector<ft::Ranges> sets = held_by_all(block);
    std::vector<const ft::Ranges*> cuts;
    cuts.reserve(sets.size());
    for (const ft::Ranges& set : sets) cuts.push_back(&set);
    ft::Ranges orphans;
    for (const ft::Range& piece : pieces(ft::Ranges::all(), cuts)) {
      std::vector<Rank> holders;
      for (std::size_t i = 0; i < sets.size(); ++i) {
        if (sets[i].contains(piece)) holders.push_back(survivors()[i]);
      }
      if (holders.empty()) {
        orphans.add(piece);
        continue;
      }
      for (const Rank to : targets) {
        if (has(holders, to)) continue;
        // Transfers are spread over the holders, the same way on every rank.
        const Rank from = holders[static_cast<std::size_t>(to.value) % holders.size()];
        fate_.transfers.push_back({from, to, false, 0, block, piece});
      }
    }
    return orphans;
  }

  void repair_reduced(std::uint32_t block, const std::vector<Rank>& targets,
                      std::optional<Rank> to) {
    const std::size_t transfers = fate_.transfers.size();
    ft::Ranges orphans = serve(block, targets);
    if (is_planted(Planted::kCountTwice)) orphans = ft::Ranges::all();
    if (orphans.empty()) return;
    if (question_.atomic) {
      fate_.transfers.resize(transfers);
      orphans = ft::Ranges::all();
    }
    for (const ft::Range& run : orphans.runs()) fate_.reductions.push_back({block, run, to});
    give_up_contributions();
  }

  // Repairs a block that `owner` gave as its input block `source`.
  void repair_copied(Rank owner, const std::vector<Rank>& targets, std::uint32_t source) {
    const std::uint32_t block = block_of(owner);
    if (has(survivors(), owner) && question_.encoded && is_replicated(question_.collective)) {
      return give(owner, block, serve(block, targets), targets);
    }
    if (has(survivors(), owner)) {
      for (const Rank to : targets) {
        const auto at = std::find(survivors().begin(), survivors().end(), to);
        const ft::Ranges have = held(static_cast<std::size_t>(at - survivors().begin()), block);
        for (const ft::Range& run : have.complement().runs()) {
          fate_.transfers.push_back({owner, to, true, source, block, run});
        }
      }
      return;
    }
    if (!has(fate_.missing, owner)) {
      const std::size_t transfers = fate_.transfers.size();
      if (question_.collective != Collective::kAllToAll) {
        if (ends_known(block) && serve(block, targets).empty()) return;
        fate_.transfers.resize(transfers);
      } else if (all_hold(block, targets)) {
        return;
      }
    }
    miss(owner);
    for (const Rank to : targets) fate_.zeros.emplace_back(to, block);
  }

  // Sends without encoding to all targets, the owner included: all shall hold the same bits.
  void give(Rank owner, std::uint32_t block, const ft::Ranges& orphans,
            const std::vector<Rank>& targets) {
    for (const Rank to : targets) {
      for (const ft::Range& run : orphans.runs()) {
        fate_.transfers.push_back({owner, to, true, 0, block, run});
      }
    }
  }

  // Whether some survivor holds the block to its end; the plan does not know how long the block is.
  bool ends_known(std::uint32_t block) const {
    ft::Ranges together;
    for (const ft::Ranges& set : held_by_all(block)) together.add(set);
    return together == ft::Ranges::all();
  }

  bool all_hold(std::uint32_t block, const std::vector<Rank>& targets) const {
    return std::all_of(targets.begin(), targets.end(), [&](Rank to) {
      const auto at = std::find(survivors().begin(), survivors().end(), to);
      return held(static_cast<std::size_t>(at - survivors().begin()), block) == ft::Ranges::all();
    });
  }

  void repair_broadcast() {
    const bool rooted = has(survivors(), question_.root);
    std::vector<Rank> targets = survivors();
    if (!question_.encoded) std::erase(targets, question_.root);
    const std::size_t transfers = fate_.transfers.size();
    const ft::Ranges orphans = serve(0, targets);
    if (orphans.empty()) return;
    if (!rooted) {
      fate_.transfers.resize(transfers);
      fate_.lost = true;
      return;
    }
    give(question_.root, 0, orphans, targets);
  }

  void repair_scatter() {
    const bool rooted = has(survivors(), question_.root);
    for (std::size_t i = 0; i < survivors().size(); ++i) {
      const ft::Ranges lacking = held(i, 0).complement();
      if (lacking.empty()) continue;
      if (!rooted) fate_.lost = true;
      const Rank to = survivors()[i];
      for (const ft::Range& run : lacking.runs()) {
        fate_.transfers.push_back({question_.root, to, true, block_of(to), 0, run});
      }
    }
    if (fate_.lost) fate_.transfers.clear();
  }

  const RepairQuestion& question_;
  const Incident& incident_;
  OpFate fate_;
};

}  // namespace

bool Incident::all_complete() const {
  return settled || std::all_of(reports.begin(), reports.end(),
                                [](const auto& report) { return report && report->complete; });
}

OpFate fate_at_start(std::vector<Rank> members, std::size_t size, Epoch epoch) {
  OpFate fate;
  std::vector<bool> is_there(size);
  for (const Rank member : members) {
    const auto r = static_cast<std::size_t>(member.value);
    if (r < size) is_there[r] = true;
  }
  for (std::size_t r = 0; r < size; ++r) {
    if (!is_there[r]) fate.missing.push_back({static_cast<std::int32_t>(r)});
  }
  fate.contributors = std::move(members);
  fate.epoch = epoch;
  return fate;
}

OpFate fate_after(const OpFate& fate, const RepairQuestion& question, const Incident& incident) {
  OpFate next = RepairPlanner(fate, question, incident).run();
  if (is_planted(Planted::kSkipRepairPiece) && !next.transfers.empty()) next.transfers.pop_back();
  return next;
}

}  // namespace holdfast::group

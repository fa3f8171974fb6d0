#include "sim/state/keeper_group.h"

#include <algorithm>

namespace holdfast::sim {

bool KeeperGroup::join(KeeperOp& op, int rank, OpShare share) {
  op.in.resize(seats.size());
  op.in.at(static_cast<std::size_t>(rank)) = std::move(share);
  return !op.decided && decide(op);
}

bool KeeperGroup::decide(KeeperOp& op) {
  op.in.resize(seats.size());
  std::set<int> missing;
  bool any = false;
  for (int rank = 0; rank < size(); ++rank) {
    const bool is_in = op.in[static_cast<std::size_t>(rank)].has_value();
    any = any || is_in;
    if (is_in) continue;
    if (!lost.contains(rank)) return false;
    missing.insert(rank);
  }
  if (!any) return false;
  op.missing = std::move(missing);
  op.decided = true;
  return true;
}

std::vector<KeeperOp*> KeeperGroup::lose(int rank, Random& random) {
  lost.insert(rank);
  std::vector<KeeperOp*> decided;
  const auto look = [&](KeeperOp& op) {
    if (!op.decided) {
      // What it brought may be lost with it.
      const bool forgets = !op.in.empty() && random.chance(50);
      if (forgets) op.in.at(static_cast<std::size_t>(rank)).reset();
      if (decide(op)) decided.push_back(&op);
      return;
    }
    const bool is_known = std::any_of(op.told.begin(), op.told.end(),
                                      [&](int other) { return !lost.contains(other); });
    if (is_known || random.chance(50)) return;
    op.in.at(static_cast<std::size_t>(rank)).reset();
    op.missing.insert(rank);
  };
  for (KeeperOp& op : ops) look(op);
  for (auto& [id, op] : flushes) look(op);
  return decided;
}

std::string KeeperGroup::complaint(const KeeperOp& op) const {
  const OpShare* first = nullptr;
  for (const auto& share : op.in) {
    if (!share) continue;
    if (first == nullptr) first = &*share;
    const bool same = share->what == first->what &&
                      (share->id == first->id || share->what == ft::SnapshotDo::kTell);
    if (!same) {
      return std::string("keepers run different ops: ") + ft::snapshot_do_name(first->what) +
             " of " + to_text(first->id) + ", " + ft::snapshot_do_name(share->what) + " of " +
             to_text(share->id);
    }
  }
  return "";
}

}  // namespace holdfast::sim

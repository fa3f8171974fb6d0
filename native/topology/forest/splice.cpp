#include "topology/forest/splice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace holdfast::topology {
namespace {

constexpr int kOrphan = -2;

class Splice {
 public:
  Splice(const Forest& forest, const Capacities& capacities, std::span<const int> place)
      : before_(forest),
        capacities_(capacities),
        place_(place),
        n_(capacities.ranks),
        words_(as_index(n_) / 64 + 1),
        shared_from_(as_index(n_)),
        shared_to_(as_index(n_)),
        is_listed_(as_index(n_), 0),
        worst_(as_index(n_)) {}

  // Returns whether there is a forest.
  bool run(Forest& made_of_it) {
    std::vector<PlannedTree>& trees = made_of_it.trees;
    for (const PlannedTree& tree : before_.trees) {
      PlannedTree made;
      made.root = root_of(tree);
      made.share = tree.share;
      made.up = living(tree.up, made.root);
      made.down = living(tree.down, made.root);
      trees.push_back(std::move(made));
    }
    reckon(trees);
    for (std::size_t i = 0; i < trees.size(); ++i) {
      for (const bool is_up : {true, false}) {
        if (!mend(trees[i], before_.trees[i], is_up)) return false;
      }
    }
    if (has_grown_) reckon(trees);
    find_decisive(made_of_it);
    return true;
  }

 private:
  // A living root stays. Of a dead one's living children that with the most below it follows, since
  // the fewest ranks then change their place; without any, the first rank that is left.
  int root_of(const PlannedTree& tree) const {
    if (place_[as_index(tree.root)] >= 0) return place_[as_index(tree.root)];
    const std::vector<int>& way = tree.down.empty() ? tree.up : tree.down;
    std::vector<int> below(way.size(), 0);
    for (std::size_t r = 0; r < way.size(); ++r) {
      int at = static_cast<int>(r);
      while (at != tree.root && way[as_index(at)] != tree.root) at = way[as_index(at)];
      ++below[as_index(at)];
    }
    int best = -1;
    for (std::size_t r = 0; r < way.size(); ++r) {
      if (way[r] != tree.root || place_[r] < 0) continue;
      if (best < 0 || below[r] > below[as_index(best)]) best = static_cast<int>(r);
    }
    return best < 0 ? 0 : place_[as_index(best)];
  }

  // The way as it is left, in new numbers.
  std::vector<int> living(const std::vector<int>& way, int root) const {
    std::vector<int> left(way.empty() ? 0 : as_index(n_), kOrphan);
    for (std::size_t r = 0; r < way.size(); ++r) {
      const int self = place_[r];
      if (self < 0) continue;
      const int next = way[r] < 0 ? -1 : place_[as_index(way[r])];
      left[as_index(self)] = self == root ? -1 : next < 0 ? kOrphan : next;
    }
    return left;
  }

  // ---- use ----

  void reckon(const std::vector<PlannedTree>& trees) {
    use_.assign(capacities_.count(), 0);
    for (const PlannedTree& tree : trees) {
      for (int r = 0; r < n_; ++r) {
        const auto at = as_index(r);
        if (!tree.up.empty() && tree.up[at] >= 0) {
          use_[capacities_.pair(r, tree.up[at])] += tree.share;
        }
        if (!tree.down.empty() && tree.down[at] >= 0) {
          use_[capacities_.pair(tree.down[at], r)] += tree.share;
        }
      }
    }
    for (std::size_t s = 0; s < capacities_.shared.size(); ++s) {
      std::int64_t& sum = use_[capacities_.pairs() + s];
      for (const int u : capacities_.shared[s].from) {
        const std::int64_t* row = &use_[capacities_.pair(u, 0)];
        for (const int v : capacities_.shared[s].to) sum += row[v];
      }
    }
    for (std::size_t c = 0; c < use_.size(); ++c) {
      if (use_[c] > 0) most_ = std::max(most_, load(c, 0));
    }
  }

  double load(std::size_t capacity, std::int64_t more) const {
    return static_cast<double>(use_[capacity] + more) /
           static_cast<double>(capacities_.rate(capacity));
  }

  void find_decisive(Forest& forest) const {
    double most = 0;
    for (std::size_t c = 0; c < use_.size(); ++c) {
      if (use_[c] == 0 || load(c, 0) <= most) continue;
      most = load(c, 0);
      forest.decides = c;
    }
    forest.kbit_per_s = static_cast<double>(kWholeShare) / most;
  }

  void list(int rank) {
    if (std::exchange(is_listed_[as_index(rank)], 1) != 0) return;
    if (from_bits_.empty()) fill_bits();
    for (std::size_t s = 0; s < capacities_.shared.size(); ++s) {
      if (has(from_bits_, s, rank)) shared_from_[as_index(rank)].push_back(s);
      if (has(to_bits_, s, rank)) shared_to_[as_index(rank)].push_back(s);
    }
  }

  void fill_bits() {
    from_bits_.assign(capacities_.shared.size() * words_, 0);
    to_bits_ = from_bits_;
    for (std::size_t s = 0; s < capacities_.shared.size(); ++s) {
      const auto fill = [&](std::vector<std::uint64_t>& bits, const std::vector<int>& ranks) {
        for (const int r : ranks) bits[s * words_ + as_index(r) / 64] |= 1ULL << (r % 64);
      };
      fill(from_bits_, capacities_.shared[s].from);
      fill(to_bits_, capacities_.shared[s].to);
    }
  }

  bool has(const std::vector<std::uint64_t>& bits, std::size_t shared, int rank) const {
    return (bits[shared * words_ + as_index(rank) / 64] >> (rank % 64) & 1) != 0;
  }

  // By rank: how much the capacity is used that is used most, with a hop to it (up) or from it.
  void find_loads(int orphan, bool is_up, std::int64_t share) {
    list(orphan);
    for (int q = 0; q < n_; ++q) {
      const std::size_t pair = is_up ? capacities_.pair(orphan, q) : capacities_.pair(q, orphan);
      const bool has_way = q != orphan && capacities_.kbit_per_s[pair] > 0;
      worst_[as_index(q)] = has_way ? load(pair, share) : -1;
    }
    for (const std::size_t s : (is_up ? shared_from_ : shared_to_)[as_index(orphan)]) {
      const double with = load(capacities_.pairs() + s, share);
      for (const int q : is_up ? capacities_.shared[s].to : capacities_.shared[s].from) {
        double& worst = worst_[as_index(q)];
        if (worst >= 0) worst = std::max(worst, with);
      }
    }
  }

  void add_hop(int orphan, int next, bool is_up, std::int64_t share) {
    const int from = is_up ? orphan : next;
    const int to = is_up ? next : orphan;
    use_[capacities_.pair(from, to)] += share;
    const auto& shared = is_up ? shared_from_ : shared_to_;
    for (const std::size_t s : shared[as_index(orphan)]) add_shared(s, from, to, share);
    most_ = std::max(most_, worst_[as_index(next)]);
  }

  void add_shared(std::size_t s, int from, int to, std::int64_t share) {
    const bool counts = has(from_bits_, s, from) && has(to_bits_, s, to);
    if (counts) use_[capacities_.pairs() + s] += share;
  }

  // ---- ways ----

  // Joins every orphan of the way to a rank that is not below it.
  bool mend(PlannedTree& tree, const PlannedTree& before, bool is_up) {
    std::vector<int>& way = is_up ? tree.up : tree.down;
    const std::vector<int>& old = is_up ? before.up : before.down;
    for (std::size_t r = 0; r < old.size(); ++r) {
      const int orphan = place_[r];
      if (orphan < 0 || way[as_index(orphan)] != kOrphan) continue;
      find_loads(orphan, is_up, tree.share);
      const int next = choose(way, orphan, living_above(old, static_cast<int>(r)));
      if (next < 0) return grow(tree, is_up);
      way[as_index(orphan)] = next;
      add_hop(orphan, next, is_up, tree.share);
    }
    return true;
  }

  // The nearest rank above that is left, or -1.
  int living_above(const std::vector<int>& old, int rank) const {
    int at = old[as_index(rank)];
    while (at >= 0 && place_[as_index(at)] < 0) at = old[as_index(at)];
    return at < 0 ? -1 : place_[as_index(at)];
  }

  static bool is_below(const std::vector<int>& way, int rank, int top) {
    while (rank >= 0 && rank != top) rank = way[as_index(rank)];
    return rank == top;
  }

  int choose(const std::vector<int>& way, int orphan, int above) const {
    const auto suits = [&](int q) { return worst_[as_index(q)] >= 0 && !is_below(way, q, orphan); };
    if (above >= 0 && worst_[as_index(above)] <= most_ && suits(above)) return above;
    int best = -1;
    for (int q = 0; q < n_; ++q) {
      const bool better = best < 0 || worst_[as_index(q)] < worst_[as_index(best)];
      if (better && suits(q)) best = q;
    }
    return best;
  }

  // Makes the way anew, with the fewest hops: where all ways of an orphan lead below it.
  bool grow(PlannedTree& tree, bool is_up) {
    has_grown_ = true;
    std::vector<int>& way = is_up ? tree.up : tree.down;
    std::vector<int> open{tree.root};
    way.assign(as_index(n_), kOrphan);
    way[as_index(tree.root)] = -1;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const int at = open[i];
      for (int r = 0; r < n_; ++r) {
        const std::size_t pair = is_up ? capacities_.pair(r, at) : capacities_.pair(at, r);
        if (way[as_index(r)] != kOrphan || capacities_.kbit_per_s[pair] <= 0) continue;
        way[as_index(r)] = at;
        open.push_back(r);
      }
    }
    return open.size() == as_index(n_);
  }

  const Forest& before_;
  const Capacities& capacities_;
  std::span<const int> place_;
  int n_;
  std::size_t words_;              // that hold a bit for each rank
  std::vector<std::int64_t> use_;  // by capacity, in parts of kWholeShare
  double most_ = 0;                // of the loads
  bool has_grown_ = false;         // a way was made anew, and use_ is not right
  // By shared capacity: whom it is from and to; filled for the first orphan.
  std::vector<std::uint64_t> from_bits_;
  std::vector<std::uint64_t> to_bits_;
  // By rank, once it was an orphan: the shared capacities that it sends by, and receives by.
  std::vector<std::vector<std::size_t>> shared_from_;
  std::vector<std::vector<std::size_t>> shared_to_;
  std::vector<char> is_listed_;
  std::vector<double> worst_;  // find_loads()
};

}  // namespace

std::optional<Forest> splice_forest(const Forest& forest, const Capacities& capacities,
                                    const ForestTask& task, std::span<const int> place) {
  CHECK(!forest.trees.empty());
  if (capacities.ranks < 2) return std::nullopt;
  Forest made;
  if (!Splice(forest, capacities, place).run(made)) return std::nullopt;
  if (task.root && made.trees[0].root != *task.root) return std::nullopt;
  made.bound_kbit_per_s = most_payload(capacities, task);
  return made;
}

}  // namespace holdfast::topology

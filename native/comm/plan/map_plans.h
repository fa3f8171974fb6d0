// Map plans: what rows cost on maps of links, and their trees, kept across the views of a group. To
// find them takes from milliseconds to a second, and a loss must not wait for that: a view that has
// lost ranks begins with what was planned where all were there, less the dead, and a thread finds
// meanwhile what is best for those who are left. From which op on that counts is agreed
// (group/maps.cpp); the answers depend on the problem alone, whoever makes them, and when.
// Why: docs/decisions/0152-what-a-loss-leaves-of-a-plan.md
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/task.h"
#include "comm/plan/map_price.h"

namespace holdfast::comm {

class Background {
 public:
  virtual ~Background() = default;
  // Runs the task once, after those before it, on a thread that nobody waits for; never, if the
  // process ends before. Any thread.
  virtual void run(Task task) = 0;
};

// For a view that starts from another one: that one's candidates without the ranks that are gone,
// at the prices that they had there. Empty where none of them is left, or where some pair has no
// way, so that all must be tried anew. Trees are spliced, and proven.
std::vector<MapCandidate> without_the_gone(const std::vector<MapCandidate>& of_base,
                                           const Problem& problem);

// Thread: one at a time.
class MapPlans {
 public:
  // `background` null: all is found when it is asked for. Owners: the runtime and its groups.
  explicit MapPlans(std::shared_ptr<Background> background) : background_(std::move(background)) {}
  ~MapPlans();
  MapPlans(const MapPlans&) = delete;
  MapPlans& operator=(const MapPlans&) = delete;

  // For calls of the problem's collective, root and order of folds, on its fabric; goes_by_map()
  // says that it goes by that. The answer stays until the next question.
  const std::vector<MapCandidate>& of(const Problem& problem);
  // Ops will go by `fabric`, which has no base: finds in the background what was asked for on
  // `before`, whose ranks are another view's. `place`: by rank there its rank here, or -1.
  void expect(const topology::Fabric& fabric, const topology::Fabric& before,
              std::span<const int> place);

 private:
  using Key = std::tuple<Collective, int, bool>;  // collective, root, whether in order of ranks
  class Making;
  struct OfFabric {
    topology::Fabric fabric;
    std::map<Key, std::vector<MapCandidate>> found = {};
    std::shared_ptr<Making> making = nullptr;  // owners: this and the task that makes
  };

  OfFabric& entry(const topology::Fabric& fabric);
  std::vector<MapCandidate> find(OfFabric& known, const Problem& problem, const Key& key);

  const std::shared_ptr<Background> background_;
  std::list<OfFabric> known_;  // the last asked for first
};

}  // namespace holdfast::comm

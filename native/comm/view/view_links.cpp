// How the ops of a view begin where not all ranks are connected with each other: an op waits until
// there is a link to each rank that its schedule talks to. Both ends of a pair have the same op, so
// both want the link.
#include <algorithm>

#include "comm/algorithms/catalogue.h"
#include "comm/view/view_communicator.h"

namespace holdfast::comm {
namespace {

// Frames of so many views before this one may still come over a link that is new here.
constexpr std::uint32_t kLateViews = 8;

void add_peers(const Schedule& schedule, std::vector<Rank>& peers) {
  for (const Step& step : schedule.steps) {
    const bool talks = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
    if (talks && std::find(peers.begin(), peers.end(), step.peer) == peers.end()) {
      peers.push_back(step.peer);
    }
  }
}

}  // namespace

void ViewCommunicator::set_links(Rank rank, const MemberLinks& links) {
  const auto r = static_cast<std::size_t>(rank.value);
  if (rank == config_.rank || data_links_[r] != nullptr || links.data == nullptr) return;
  config_.links[r] = links;
  data_links_[r] = links.data;
  --unlinked_;
  drop_late_views(*links.data);
  for (ActiveOp& active : active_) std::erase(active.unlinked, rank);
}

void ViewCommunicator::drop_late_views(Link& link) const {
  const std::uint32_t now = config_.view.epoch.value;
  for (std::uint32_t e = now > kLateViews ? now - kLateViews : 1; e < now; ++e) {
    link.session().retire(config_.id, {e});
  }
}

const FusedSchedule& ViewCommunicator::barrier() {
  if (!barrier_) {
    barrier_.emplace(find_algorithm(Collective::kBarrier, "dissemination")
                         ->build({Collective::kBarrier, config_.rank, size(), {}, {}}));
    make_layout(barrier_->schedule, {}, {}, 1, no_blocks_);
  }
  return *barrier_;
}

// Returns whether the op has to wait. The links of the round that may end it, or a batch of ops,
// are wanted with those of its schedule.
bool ViewCommunicator::awaits_links(ActiveOp& active, const Plan& plan) {
  if (plan.way == Way::kSlices) return false;
  std::vector<Rank> peers;
  if (plan.way == Way::kRepair) {
    add_peers(active.launch.repair->schedule, peers);
  } else {
    add_peers(runs_.schedule_of(*active.launch.request, plan, active.work().sequence()), peers);
  }
  add_peers(barrier().schedule, peers);
  std::erase_if(peers, [this](Rank peer) {
    return peer == config_.rank || data_links_[static_cast<std::size_t>(peer.value)] != nullptr;
  });
  if (peers.empty()) return false;
  active.stage = OpStage::kLinking;
  active.unlinked = std::move(peers);
  links_ops_ = true;
  want_links(active);
  return true;
}

void ViewCommunicator::want_links(const ActiveOp& active) {
  for (const Rank rank : active.unlinked) owner_.on_wanted(rank);
}

// Begins the ops whose last link has come. The plan is what it was: it depends on the call alone.
bool ViewCommunicator::begin_linked() {
  bool moved = false;
  links_ops_ = false;
  for (ActiveOp& active : active_) {
    if (active.stage != OpStage::kLinking) continue;
    links_ops_ = links_ops_ || !active.unlinked.empty();
    if (!active.unlinked.empty()) continue;
    facts_.fabric = &config_.fabric.of(active.work().sequence());
    const bool repairs = active.launch.repair.has_value();
    const Plan plan = route_in_view(*active.launch.request, facts_, repairs, &last_);
    active.stage = OpStage::kRun;
    make_run(active, plan);
    moved = true;
  }
  return moved;
}

}  // namespace holdfast::comm

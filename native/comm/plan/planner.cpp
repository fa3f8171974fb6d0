#include "comm/plan/planner.h"

#include <algorithm>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/call/request_check.h"
#include "comm/plan/route.h"

namespace holdfast::comm {
namespace {

// Larger ops use the choice for this size: from here on, time is proportional to bytes.
constexpr std::uint64_t kLargestMeasured = 256ULL << 20;
// Runs of each candidate, the first untimed; the fastest counts.
constexpr int kRuns = 6;
constexpr int kRunsOfLarge = 3;
constexpr std::uint64_t kLarge = 4ULL << 20;
// An algorithm predicted to be this many times slower than the best is not tried.
constexpr double kHopeless = 8;

// Memory like the request's, with blocks of the same sizes.
struct ScratchCall {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  OpRequest request;
};

std::vector<std::byte> memory_for(BlockList& blocks, std::uint64_t element) {
  std::uint64_t bytes = 0;
  for (const Block& block : blocks) bytes += block.count * element;
  std::vector<std::byte> memory(bytes);
  std::byte* at = memory.data();
  for (Block& block : blocks) {
    block.data = at;
    at += block.count * element;
  }
  return memory;
}

ScratchCall scratch_like(const OpRequest& request) {
  const std::uint64_t element = request.element_bytes();
  ScratchCall scratch{{}, {}, request};
  OpRequest& own = scratch.request;
  own.atomic = false;
  const bool in_place = !request.input.empty() && !request.output.empty() &&
                        request.input[0].data == request.output[0].data;
  scratch.output = memory_for(own.output, element);
  if (in_place && own.input.size() == own.output.size()) {
    own.input = own.output;
  } else {
    scratch.input = memory_for(own.input, element);
  }
  return scratch;
}

Status run_to_end(Communicator& group, OpRequest request) {
  auto ran = group.run(std::move(request));
  if (!ran.is_ok()) return ran.status();
  if (!ran.value().work) return Status::ok();
  return ran.value().work->wait(kForever);
}

std::vector<std::string> candidates(const PlanKey& key, const OpRequest& request,
                                    const topology::HostLinks& links) {
  const auto fabric = topology::Fabric::evenly(key.place.ranks, key.place.hosts, links).value();
  const Problem problem{key.collective, payload_bytes(request), fabric};
  std::vector<std::pair<double, std::string_view>> found;
  for (const AlgorithmRow& row : catalogue()) {
    const auto seconds = predict_seconds(row, problem);
    if (!seconds) continue;
    found.emplace_back(*seconds, row.algorithm);
  }
  if (found.empty()) return {};
  const double least = std::min_element(found.begin(), found.end())->first;
  std::vector<std::string> names;
  if (key.place.shared) names.emplace_back(kSharedMemory);
  for (const auto& [seconds, name] : found) {
    if (seconds <= kHopeless * least) names.emplace_back(name);
  }
  return names;
}

void use(OpRequest& request, std::string_view algorithm) {
  if (algorithm != kSharedMemory) request.algorithm = algorithm;
}

}  // namespace

Status Planner::choose(Communicator& group, OpRequest& request) {
  // Many calls name their algorithm: they need no placement, which is under a lock.
  if (idle_ || !request.algorithm.empty()) return Status::ok();
  const PlanKey key{request.collective, group.placement()};
  if (!is_planned(request, key.place)) return Status::ok();
  const std::uint64_t bytes = payload_bytes(request);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = table_.find(key, bytes, !measures_)) {
      use(request, *known);
      return Status::ok();
    }
  }
  if (!measures_ || !request.how.may_measure || bytes > kLargestMeasured) return Status::ok();
  auto best = measure(group, request, key);
  if (!best.is_ok()) return best.status();
  use(request, best.value());
  return Status::ok();
}

Result<std::string> Planner::measure(Communicator& group, const OpRequest& request,
                                     const PlanKey& key) {
  const topology::HostLinks links(table().link(key.place.shared), table().link(true));
  const auto names = candidates(key, request, links);
  // There is nothing to choose from, or algorithms do not run this op.
  if (names.size() < 2) return std::string(kSharedMemory);
  std::vector<double> seconds;
  ScratchCall scratch = scratch_like(request);
  for (const std::string& name : names) {
    scratch.request.algorithm.clear();
    use(scratch.request, name);
    auto took = time(group, scratch.request);
    if (!took.is_ok()) return took.status();
    seconds.push_back(took.value());
  }
  // The slowest rank's time counts, so that it is the same on all ranks.
  OpRequest agree;
  agree.collective = Collective::kAllReduce;
  agree.dtype = DType::kF64;
  agree.op = ReduceOp::kMax;
  agree.timeout = request.timeout;
  agree.input = {{reinterpret_cast<std::byte*>(seconds.data()), seconds.size()}};
  agree.output = agree.input;
  TRY(run_to_end(group, std::move(agree)));
  PlanTable known;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      table_.add({key, payload_bytes(request), names[i], seconds[i]});
    }
    known = table_;
  }
  if (on_measured_) on_measured_(known);
  const auto best = std::min_element(seconds.begin(), seconds.end());
  return names[static_cast<std::size_t>(best - seconds.begin())];
}

Result<double> Planner::time(Communicator& group, const OpRequest& request) const {
  const int runs = payload_bytes(request) > kLarge ? kRunsOfLarge : kRuns;
  Duration least = Duration::max();
  for (int i = 0; i < runs; ++i) {
    const Instant began = clock_->now();
    TRY(run_to_end(group, request));
    if (i > 0) least = std::min(least, clock_->now() - began);
  }
  return std::chrono::duration<double>(least).count();
}

void Planner::forget() {
  if (!measures_) return;
  const std::lock_guard lock(mutex_);
  table_ = {};
}

PlanTable Planner::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

}  // namespace holdfast::comm

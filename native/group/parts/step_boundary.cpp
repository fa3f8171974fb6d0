#include "group/parts/step_boundary.h"

#include <map>
#include <utility>

namespace holdfast::group {

comm::OpRequest StepBoundary::call(Duration timeout) {
  comm::OpRequest request;
  request.collective = comm::Collective::kBarrier;
  request.timeout = timeout;
  return request;
}

comm::OpRequest StepBoundary::vote(std::uint64_t& lobby, Duration timeout) {
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.dtype = DType::kU64;
  request.op = ReduceOp::kMax;
  auto* data = reinterpret_cast<std::byte*>(&lobby);
  request.input = {{data, 1}};
  request.output = {{data, 1}};
  request.timeout = timeout;
  return request;
}

void StepBoundary::begin(PendingBoundary step, std::uint64_t lobby) {
  step_ = std::move(step);
  *step_->lobby = lobby;
}

StepBoundary::Next StepBoundary::after_vote(const Status& status, const Facts& facts) const {
  // A subgroup's step is its own; only the group of the whole world admits newcomers.
  const bool admits = facts.whole && *step_->lobby > facts.admitted;
  const bool mends = facts.whole && facts.broken && status.code() == Code::kPeerLost;
  if (!status.is_ok()) return mends ? Next::kAdmit : Next::kFail;
  return admits ? Next::kAdmit : Next::kPass;
}

bool StepBoundary::is_late(Instant now) const {
  // The vote has a deadline of its own.
  return step_ && now >= step_->deadline && step_->vote->done();
}

StepBoundary::PendingBoundary StepBoundary::take() {
  PendingBoundary step = std::move(*step_);
  step_.reset();
  return step;
}

HostNumbers keep_hosts_of(const std::vector<Rank>& ranks, const std::vector<int>& hosts) {
  HostNumbers kept{std::vector<int>(hosts.size(), -1), 0};
  std::map<int, int> numbers;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    const auto next = static_cast<int>(numbers.size());
    if (hosts[r] >= 0) kept.by_rank[r] = numbers.try_emplace(hosts[r], next).first->second;
  }
  kept.count = static_cast<int>(numbers.size());
  return kept;
}

}  // namespace holdfast::group

#include "device_comm/direct/work.h"

#include <algorithm>
#include <utility>

#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Collective;
using comm::OpRequest;
using device::DevicePointer;

DirectWork::DirectWork(std::shared_ptr<Staged> staged, Direct& direct,
                       const comm::Communicator& group, const OpRequest& request,
                       Direct::DirectCall extra)
    : IpcWork(std::move(staged), direct, group, request, std::move(extra),
              {1 + shape_of(request, group.rank(), group.size()).votes(),
               shape_of(request, group.rank(), group.size()).votes(),
               shape_of(request, group.rank(), group.size()).in_two()}) {}

DirectWork::~DirectWork() = default;

bool DirectWork::plan() {
  const bool rooted = comm::is_rooted(request_.collective);
  return !rooted || std::find(ranks_.begin(), ranks_.end(), request_.root) != ranks_.end();
}

Status DirectWork::run_phase(std::size_t number, bool& reached) {
  const DirectPhase phase = direct_phase(shape_, ranks_, static_cast<int>(number));
  std::vector<DevicePointer> from;
  if (phase.fold && phase.fold->bytes > 0) {
    for (const Rank rank : ranks_) {
      auto at = peer(rank, false);
      if (!at.is_ok()) return at.status();
      from.push_back(at.value() + phase.fold->at);
    }
  }
  for (const DirectFetch& fetch : phase.fetches) {
    auto at = fetch.bytes == 0 ? Result<DevicePointer>(DevicePointer{0})
                               : peer(fetch.from, fetch.of_result);
    if (!at.is_ok()) return at.status();
    from.push_back(at.value() + fetch.at);
  }
  reached = true;
  // Sizes that differ are left to the staged op, which reports them.
  for (const Rank rank : ranks_) {
    const std::uint64_t bytes = cards_[static_cast<std::size_t>(rank.value)].input.bytes;
    if (shape_.input_of(rank).value_or(bytes) != bytes) {
      return {Code::kProtocolError, "inputs of different sizes"};
    }
  }
  std::size_t next = 0;
  if (phase.fold && phase.fold->bytes > 0) {
    const auto divisor =
        request_.op == ReduceOp::kAvg ? static_cast<std::uint32_t>(ranks_.size()) : 1;
    // One address per input; the fetches' addresses come behind them.
    next = ranks_.size();
    TRY(direct_.fold(request_, result_at(0) + phase.fold->to, std::span(from).first(next),
                     phase.fold->bytes, divisor));
  }
  for (const DirectFetch& fetch : phase.fetches) {
    const DevicePointer source = from[next++];
    const DevicePointer target = result_at(fetch.block) + fetch.to;
    if (fetch.bytes == 0 || source == target) continue;
    TRY(device().copy(target, source, fetch.bytes, staged_->down()));
  }
  for (const std::size_t block : phase.clears) {
    if (shape_.output[block] == 0) continue;
    TRY(device().check(device().driver().memset_d8_async(result_at(block), 0, shape_.output[block],
                                                         staged_->down()),
                       "clearing a block"));
  }
  return Status::ok();
}

}  // namespace holdfast::device_comm

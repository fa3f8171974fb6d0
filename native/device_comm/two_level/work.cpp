#include "device_comm/two_level/work.h"

#include <algorithm>
#include <utility>

#include "base/fnv.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Collective;
using comm::OpRequest;
using device::DevicePointer;

namespace {

IpcWork::IpcChain row_of(const OpRequest& request, Rank rank) {
  const TwoLevelSteps steps = two_level_steps(request.collective).value_or(TwoLevelSteps{});
  // A root's own array is not written.
  const bool gives_all = request.collective == Collective::kBroadcast && request.root == rank;
  return {1 + steps.exchanges + steps.votes, steps.votes, steps.votes > 1 && !gives_all};
}

std::uint64_t number_of(const std::vector<Rank>& ranks) {
  Fnv1a number;
  for (const Rank rank : ranks) number.mix(static_cast<std::uint64_t>(rank.value));
  return number.value();
}

}  // namespace

TwoLevelWork::TwoLevelWork(std::shared_ptr<Staged> staged, Direct& direct,
                           const comm::Communicator& group, const OpRequest& request,
                           Direct::DirectCall extra)
    : IpcWork(std::move(staged), direct, group, request, std::move(extra),
              row_of(request, group.rank())),
      expected_(group.live_ranks()),
      script_(two_level_script(shape_, group.hosts(), expected_)) {}

TwoLevelWork::~TwoLevelWork() = default;

void TwoLevelWork::prepare_more() {
  card_.there = number_of(expected_);
  if (card_.able == 0) return;
  if (script_.host_bytes > 0) {
    auto pinned = device().take(script_.host_bytes);
    if (pinned.is_ok()) {
      host_ = pinned.value();
    } else {
      card_.ready = 0;
    }
  }
  if (script_.parts_bytes == 0) return;
  if (const auto parts = take_scratch(script_.parts_bytes)) parts_ = parts->at;
}

bool TwoLevelWork::plan() {
  const bool rooted = comm::is_rooted(request_.collective);
  if (rooted && std::find(ranks_.begin(), ranks_.end(), request_.root) == ranks_.end()) {
    return false;
  }
  const std::uint64_t number = number_of(ranks_);
  return std::all_of(ranks_.begin(), ranks_.end(), [&](Rank rank) {
    return cards_[static_cast<std::size_t>(rank.value)].there == number;
  });
}

OpRequest TwoLevelWork::step_request(std::size_t step) {
  if (is_exchange(step)) {
    OpRequest request;
    request.collective = Collective::kBarrier;
    return request;
  }
  OpRequest request = IpcWork::step_request(step);
  if (step == 0) request.step.way = comm::Way::kTwoLevel;
  return request;
}

void TwoLevelWork::fill_step(std::size_t step, OpRequest& request) {
  if (!is_exchange(step)) return;
  const TwoLevelExchange& exchange = script_.exchanges[step - 1];
  request.collective = Collective::kAllToAll;
  request.dtype = DType::kU8;
  const auto blocks = [this](const std::vector<Cut>& runs) {
    comm::BlockList list;
    for (const Cut& run : runs) {
      list.push_back({run.bytes == 0 ? nullptr : host_.data + run.at, run.bytes});
    }
    return list;
  };
  request.input = blocks(exchange.sent);
  request.output = blocks(exchange.received);
}

Status TwoLevelWork::run_phase(std::size_t number, bool& reached) {
  std::vector<std::vector<DevicePointer>> from;
  for (const TwoLevelAction& action : script_.phases[number]) {
    std::vector<DevicePointer>& all = from.emplace_back();
    for (const TwoLevelPlace& place : action.from) {
      auto at = address_of(place);
      if (!at.is_ok()) return at.status();
      all.push_back(at.value());
    }
  }
  reached = true;
  for (const TwoLevelAction& action : script_.phases[number]) {
    for (const TwoLevelPlace& place : action.from) TRY(check_size(place, action.bytes));
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TwoLevelAction& action = script_.phases[number][i];
    auto to = address_of(action.to);
    if (!to.is_ok()) return to.status();
    TRY(enqueue(action, to.value(), from[i]));
  }
  return Status::ok();
}

Result<DevicePointer> TwoLevelWork::address_of(const TwoLevelPlace& place) {
  if (place.space == TwoLevelSpace::kParts) return parts_ + place.at;
  if (place.space == TwoLevelSpace::kHost) return address(host_.data) + place.at;
  auto at = peer(place.rank, place.space == TwoLevelSpace::kResult);
  if (!at.is_ok()) return at.status();
  return at.value() + place.at;
}

// Sizes that differ are left to the staged op, which reports them.
Status TwoLevelWork::check_size(const TwoLevelPlace& place, std::uint64_t bytes) const {
  if (place.rank == rank_) return Status::ok();
  const PeerCard& card = cards_[static_cast<std::size_t>(place.rank.value)];
  const bool fits = place.space == TwoLevelSpace::kResult
                        ? place.at + bytes <= card.result.bytes
                        : shape_.input_of(place.rank).value_or(bytes) == card.input.bytes;
  return fits ? Status::ok() : Status(Code::kProtocolError, "blocks of different sizes");
}

Status TwoLevelWork::enqueue(const TwoLevelAction& action, DevicePointer to,
                             const std::vector<DevicePointer>& from) {
  if (from.empty()) {
    return device().check(device().driver().memset_d8_async(to, 0, action.bytes, staged_->down()),
                          "clearing a block");
  }
  if (from.size() == 1 && !action.last) {
    if (from[0] == to) return Status::ok();
    return device().copy(to, from[0], action.bytes, staged_->down());
  }
  const bool divides = action.last && request_.op == ReduceOp::kAvg;
  const auto divisor = divides ? static_cast<std::uint32_t>(ranks_.size()) : 1;
  return direct_.fold(request_, to, from, action.bytes, divisor);
}

void TwoLevelWork::give_memory(bool idle) {
  if (host_.data != nullptr) {
    if (idle) {
      device().give(host_);
    } else {
      device().give_after(host_, pending_events());
    }
  }
  IpcWork::give_memory(idle);
}

}  // namespace holdfast::device_comm

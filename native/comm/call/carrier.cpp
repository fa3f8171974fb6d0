#include "comm/call/carrier.h"

#include <algorithm>

#include "base/copy.h"
#include "comm/call/call.h"
#include "comm/call/request_check.h"

namespace holdfast::comm {
namespace {

// In elements.
std::uint64_t offset_of(const BlockList& blocks, Rank rank) {
  std::uint64_t offset = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rank.value); ++r) offset += blocks[r].count;
  return offset;
}

}  // namespace

bool can_be_carried(const OpRequest& request, int size) {
  if (request.codec || !request.algorithm.empty() || size == 1) return false;
  if (request.on_device) return false;  // the input may still be on its way
  const std::uint64_t bytes = elements(request.input) * dtype_bytes(request.dtype);
  if (request.collective == Collective::kReduceScatter) return bytes <= kCarriedBytes;
  return request.collective == Collective::kAllToAll && request.equal_blocks &&
         bytes * static_cast<std::uint64_t>(size) <= kCarriedBytes;
}

OpRequest carried_by(OpRequest request, Carrier& carrier, Rank self, int size) {
  const bool reduces = request.collective == Collective::kReduceScatter;
  const std::uint64_t element = dtype_bytes(request.dtype);
  const std::uint64_t count = elements(request.input);
  carrier.bytes = payload_bytes(request);
  carrier.output = request.output;
  carrier.own_element = offset_of(request.input, self);
  // The input, then what each rank gave; a sum takes the place of the input.
  carrier.data.resize(count * element * (reduces ? 1 : static_cast<std::size_t>(size) + 1));
  std::byte* at = carrier.data.data();
  for (const Block& block : request.input) {
    copy_bytes(at, block.data, block.count * element);
    at += block.count * element;
  }
  request.called = request.collective;
  request.carrier = &carrier;
  request.collective = reduces ? Collective::kAllReduce : Collective::kAllGather;
  request.input = {{carrier.data.data(), count}};
  if (reduces) {
    request.output = request.input;
    return request;
  }
  request.output.clear();
  for (int r = 0; r < size; ++r) {
    request.output.push_back({at, count});
    at += count * element;
  }
  return request;
}

void deliver(const OpRequest& carried) {
  const Carrier& carrier = *carried.carrier;
  const std::uint64_t element = dtype_bytes(carried.dtype);
  for (std::size_t i = 0; i < carrier.output.size(); ++i) {
    const Block& to = carrier.output[i];
    const std::byte* from = carried.output[i].data + carrier.own_element * element;
    copy_bytes(to.data, from, to.count * element);
  }
}

std::uint64_t called_bytes(const OpRequest& request) {
  if (request.stands_for != nullptr) {
    const Call& call = *request.stands_for;
    return std::max(call.input, call.output) * dtype_bytes(call.dtype);
  }
  return request.carrier != nullptr ? request.carrier->bytes : payload_bytes(request);
}

Carrier& CarrierPool::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return *all_.emplace_back(std::make_unique<Carrier>());
  Carrier* carrier = idle_.back();
  idle_.pop_back();
  return *carrier;
}

void CarrierPool::give(Carrier& carrier) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&carrier);
}

}  // namespace holdfast::comm

#include "comm/call/replicated.h"

#include <algorithm>

#include "base/copy.h"
#include "comm/call/call.h"
#include "comm/call/request_check.h"

namespace holdfast::comm {
namespace {

// Offset of the rank's block, in elements.
std::uint64_t offset_of(const BlockList& blocks, Rank rank) {
  std::uint64_t offset = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rank.value); ++r) offset += blocks[r].count;
  return offset;
}

}  // namespace

OpRequest replicated_by(OpRequest request, Replicated& replicated, Rank self, int size) {
  const bool reduces = request.collective == Collective::kReduceScatter;
  const std::uint64_t element = request.element_bytes();
  const std::uint64_t count = elements(request.input);
  replicated.bytes = payload_bytes(request);
  replicated.output = request.output;
  replicated.own_element = offset_of(request.input, self);
  // Memory for the input, then for each rank's contribution; a sum takes the place of the input.
  replicated.data.resize(count * element * (reduces ? 1 : static_cast<std::size_t>(size) + 1));
  std::byte* at = replicated.data.data();
  for (const Block& block : request.input) {
    copy_bytes(at, block.data, block.count * element);
    at += block.count * element;
  }
  request.step.called = request.collective;
  request.step.replicated = &replicated;
  request.collective = reduces ? Collective::kAllReduce : Collective::kAllGather;
  request.input = {{replicated.data.data(), count}};
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

void deliver(const OpRequest& sent) {
  const Replicated& replicated = *sent.step.replicated;
  const std::uint64_t element = sent.element_bytes();
  for (std::size_t i = 0; i < replicated.output.size(); ++i) {
    const Block& to = replicated.output[i];
    const std::byte* from = sent.output[i].data + replicated.own_element * element;
    copy_bytes(to.data, from, to.count * element);
  }
}

std::uint64_t called_bytes(const OpRequest& request) {
  if (request.step.stands_for != nullptr) {
    const Call& call = *request.step.stands_for;
    return std::max(call.input, call.output) * dtype_bytes(call.dtype);
  }
  return request.step.replicated != nullptr ? request.step.replicated->bytes
                                            : payload_bytes(request);
}

Replicated& ReplicatedPool::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return *all_.emplace_back(std::make_unique<Replicated>());
  Replicated* replicated = idle_.back();
  idle_.pop_back();
  return *replicated;
}

void ReplicatedPool::give(Replicated& replicated) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&replicated);
}

}  // namespace holdfast::comm

#include "device_comm/encoded/plan.h"

#include <algorithm>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/layout.h"
#include "compress/device/stages.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::Collective;
using comm::OpRequest;

namespace {

// Pieces of device memory begin at lines of its cache.
constexpr std::uint64_t kRoomAlignment = 256;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

// Elements of each chunk, as the host's schedule cuts them (comm/view/op_runs.cpp).
std::vector<Block> chunks_of(const OpRequest& request, Rank rank, std::uint32_t size,
                             std::uint32_t& pieces) {
  const bool by_output = comm::has_own_input(request.collective);
  const comm::BlockList& blocks = by_output ? request.output : request.input;
  std::uint64_t most = 0;
  for (const Block& block : blocks) most = std::max(most, block.count);
  if (!comm::has_blocks_by_rank(request.collective)) most /= size;
  pieces = static_cast<std::uint32_t>(comm::two_phase_pieces(most));
  comm::Schedule schedule;
  schedule.collective = request.collective;
  schedule.rank = rank;
  schedule.size = static_cast<int>(size);
  schedule.chunks = size * pieces;
  schedule.pieces = pieces;
  comm::Layout layout =
      make_layout(schedule, request.input, request.output, dtype_bytes(request.dtype));
  return by_output ? layout.output : layout.input;
}

}  // namespace

bool EncodedPlan::folds() const { return comm::reduces(collective); }

bool EncodedPlan::spreads() const { return folds() || collective == Collective::kAllToAll; }

bool EncodedPlan::encodes(std::size_t part) const {
  switch (collective) {
    case Collective::kBroadcast: return rank == root;
    case Collective::kAllGather: return part == self();
    case Collective::kAllToAll: return part != self();
    default: return true;
  }
}

bool EncodedPlan::encodes_block(std::size_t block) const {
  if (collective == Collective::kBroadcast) return rank == root;
  return collective != Collective::kAllToAll || block != self();
}

std::size_t EncodedPlan::input_block(std::size_t part) const {
  return comm::has_input_blocks(collective) ? part : 0;
}

std::size_t EncodedPlan::output_block(std::size_t part) const {
  return comm::has_output_blocks(collective) ? part : 0;
}

std::uint64_t EncodedPlan::own_elements() const {
  std::uint64_t count = 0;
  for (const EncodedFrame& frame : parts[self()]) count += frame.count;
  return count;
}

std::size_t EncodedPlan::frames() const {
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  return count;
}

std::uint64_t EncodedPlan::most_elements() const {
  std::uint64_t most = 0;
  for (const auto& part : parts) {
    for (const EncodedFrame& frame : part) most = std::max(most, frame.count);
  }
  return most;
}

EncodedPlan encoded_plan(const OpRequest& request, Rank rank, int size) {
  EncodedPlan plan;
  plan.collective = request.collective;
  plan.rank = rank;
  plan.root = request.root;
  plan.element_bytes = dtype_bytes(request.dtype);
  plan.parts.resize(static_cast<std::size_t>(size));
  std::uint32_t pieces = 1;
  const auto chunks = chunks_of(request, rank, static_cast<std::uint32_t>(size), pieces);
  const bool one_message = request.collective == Collective::kBroadcast;
  std::uint64_t first = 0;
  std::uint64_t at = sizeof(EncodedHead);
  for (std::uint64_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunk % pieces == 0) {
      if (!one_message) at = sizeof(EncodedHead);
      if (comm::has_blocks_by_rank(request.collective)) first = 0;
    }
    const std::uint64_t count = chunks[chunk].count;
    if (count == 0) continue;
    const std::uint64_t bytes = request.codec->encoded_bound(request.dtype, count);
    plan.parts[chunk / pieces].push_back({first, count, chunk, at, bytes});
    first += count;
    at = rounded_up(at + bytes, kEncodedAlignment);
    plan.message_bytes = std::max(plan.message_bytes, at);
  }
  plan.message_bytes = std::max(plan.message_bytes, at);
  return plan;
}

EncodedRoom encoded_room(const EncodedPlan& plan, const OpRequest& request) {
  EncodedRoom room;
  const auto take = [&](std::uint64_t& at, std::uint64_t bytes) {
    at = room.bytes;
    room.bytes += rounded_up(bytes, kRoomAlignment);
  };
  const bool keeps_residual =
      plan.collective == Collective::kAllReduce && !request.residual.empty();
  const std::uint64_t sum = plan.folds() ? plan.own_elements() * sizeof(float) : 0;
  const std::uint64_t fed = request.residual.empty() ? 0 : elements(request.input) * sizeof(float);
  const std::uint64_t stages = compress::stage_bytes(*request.codec, plan.most_elements());
  take(room.out, plan.sent() * plan.message_bytes);
  take(room.in, plan.received() * plan.message_bytes);
  take(room.sum, sum);
  take(room.decoded, keeps_residual ? sum : 0);
  take(room.residual, fed);
  take(room.encoding, stages);
  take(room.decoding, stages);
  return room;
}

}  // namespace holdfast::device_comm

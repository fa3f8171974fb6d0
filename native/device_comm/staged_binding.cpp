#include "device_comm/staged_binding.h"

#include <algorithm>

namespace holdfast::device_comm {

using comm::Block;
using comm::BlockList;
using comm::Collective;
using comm::OpRequest;

namespace {

// Pieces of the host memory of one part begin at a cache line.
constexpr std::uint64_t kAlignment = 64;

}  // namespace

std::uint64_t StagedBinding::plan(const OpRequest& request) {
  const std::uint64_t element = dtype_bytes(request.dtype);
  for (const Block& block : request.input) place(block.data, block.count * element);
  for (const Block& block : request.output) place(block.data, block.count * element);
  for (std::size_t i = 0; i < request.residual.size(); ++i) {
    place(request.residual[i], request.input[i].count * sizeof(float));
  }
  return bytes_;
}

OpRequest StagedBinding::bind(const OpRequest& request, std::byte* base) const {
  OpRequest bound = request;
  for (BlockList* blocks : {&bound.input, &bound.output}) {
    for (Block& block : *blocks) {
      if (block.count > 0) block.data = base + offset_of(block.data);
    }
  }
  for (std::size_t i = 0; i < bound.residual.size(); ++i) {
    if (bound.input[i].count == 0) continue;
    bound.residual[i] = reinterpret_cast<float*>(base + offset_of(bound.residual[i]));
  }
  return bound;
}

StagedCopies StagedBinding::copies(const OpRequest& request, std::byte* base, Rank rank) const {
  StagedCopies all;
  const std::uint64_t element = dtype_bytes(request.dtype);
  const auto add = [&](std::vector<StagedCopy>& copies, const void* device, std::uint64_t bytes) {
    if (bytes > 0) copies.push_back({address(device), base + offset_of(device), bytes});
  };
  const bool roots = request.collective == Collective::kBroadcast && request.root == rank;
  const bool receives = request.collective == Collective::kBroadcast && !roots;
  for (const Block& block : request.input) {
    if (!receives) add(all.up, block.data, block.count * element);
  }
  for (const Block& block : request.output) {
    // With a codec the root gets what the others get, too.
    if (!roots || request.codec) add(all.down, block.data, block.count * element);
  }
  for (std::size_t i = 0; i < request.residual.size(); ++i) {
    const std::uint64_t bytes = request.input[i].count * sizeof(float);
    add(all.up, request.residual[i], bytes);
    add(all.down, request.residual[i], bytes);
  }
  return all;
}

std::uint64_t StagedBinding::offset_of(const void* device) const {
  return std::find_if(places_.begin(), places_.end(),
                      [&](const StagedPlace& place) { return place.device == device; })
      ->offset;
}

void StagedBinding::place(const void* device, std::uint64_t bytes) {
  if (bytes == 0) return;
  for (const StagedPlace& known : places_) {
    if (known.device == device && known.bytes == bytes) return;
  }
  places_.push_back({device, bytes, bytes_});
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace holdfast::device_comm

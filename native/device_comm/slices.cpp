#include "device_comm/slices.h"

#include <algorithm>

#include "comm/plan/route.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::BlockList;
using comm::OpRequest;

namespace {

// Elements from `first` on, at most `count`, of each block.
OpRequest cut(const OpRequest& request, std::uint64_t first, std::uint64_t count) {
  OpRequest part = request;
  const std::uint64_t element = dtype_bytes(request.dtype);
  for (BlockList* blocks : {&part.input, &part.output}) {
    for (Block& block : *blocks) {
      const std::uint64_t skipped = std::min(first, block.count);
      if (skipped > 0) block.data += skipped * element;
      block.count = std::min(count, block.count - skipped);
    }
  }
  return part;
}

struct AddressSpan {
  std::uintptr_t begin;
  std::uintptr_t end;
};

AddressSpan span_of(const Block& block, std::uint64_t element) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
  return {begin, begin + block.count * element};
}

bool meet(const AddressSpan& a, const AddressSpan& b) { return a.begin < b.end && b.begin < a.end; }

// The addresses from the lowest to the highest one of the blocks.
AddressSpan hull(const BlockList& blocks, std::uint64_t element) {
  AddressSpan all{~std::uintptr_t{0}, 0};
  for (const Block& block : blocks) {
    if (block.count == 0) continue;
    const AddressSpan one = span_of(block, element);
    all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
  }
  return all;
}

}  // namespace

std::vector<OpRequest> slices_of(const OpRequest& request, int size, std::uint64_t slice_bytes) {
  const comm::StagedCut how = comm::staged_cut(request, size, slice_bytes);
  if (how.pieces == 1) return {request};
  std::vector<OpRequest> slices;
  for (std::uint64_t first = 0; first < how.most; first += how.step) {
    slices.push_back(cut(request, first, how.step));
  }
  return slices;
}

bool overlap(const OpRequest& request) {
  const std::uint64_t element = dtype_bytes(request.dtype);
  if (!meet(hull(request.input, element), hull(request.output, element))) return false;
  for (const Block& out : request.output) {
    for (const Block& in : request.input) {
      const bool same = in.data == out.data && in.count == out.count;
      if (!same && in.count > 0 && out.count > 0 &&
          meet(span_of(in, element), span_of(out, element))) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace holdfast::device_comm

#include "device_comm/slices.h"

#include <algorithm>

namespace holdfast::runtime {

using comm::Block;
using comm::BlockList;
using comm::Collective;
using comm::OpRequest;

namespace {

// Slices begin at a multiple of so many elements.
constexpr std::uint64_t kSliceAlignment = 1024;

// Elements of an op, as all ranks know them; none: they do not.
struct Size {
  std::uint64_t all = 0;   // of all blocks
  std::uint64_t most = 0;  // of the largest one
};

Size size_of(const BlockList& blocks) {
  Size size;
  for (const Block& block : blocks) {
    size.all += block.count;
    size.most = std::max(size.most, block.count);
  }
  return size;
}

Size common_size(const OpRequest& request, int ranks) {
  const auto each = [&](const BlockList& own) {
    if (!request.equal_blocks || own.size() != 1) return Size{};
    return Size{own[0].count * static_cast<std::uint64_t>(ranks), own[0].count};
  };
  const auto side = comm::common_side(request.collective, request.equal_blocks);
  if (side == comm::CommonSide::kNone) return {};
  const BlockList& blocks = side == comm::CommonSide::kInput ? request.input : request.output;
  // Where only the root has blocks for every rank, the others count them by their own.
  const bool by_own =
      comm::is_rooted(request.collective) && comm::has_blocks_by_rank(request.collective);
  return by_own ? each(blocks) : size_of(blocks);
}

// Elements from `first` on, `count` at most, of each block.
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

// From the lowest to the highest address.
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
  const Size common = common_size(request, size);
  const std::uint64_t bytes = common.all * dtype_bytes(request.dtype);
  if (request.atomic || request.codec || bytes <= slice_bytes) return {request};
  const std::uint64_t count = (bytes + slice_bytes - 1) / slice_bytes;
  const std::uint64_t even = (common.most + count - 1) / count;
  const std::uint64_t step = (even + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  std::vector<OpRequest> slices;
  for (std::uint64_t first = 0; first < common.most; first += step) {
    slices.push_back(cut(request, first, step));
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

}  // namespace holdfast::runtime

#include "datatype/block_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "datatype/typemap/block_cursor.h"

namespace holdfast::datatype {
namespace {

const device::KernelRow& list_row(const char* name) {
  const device::KernelRow* found = device::find_kernel(name);
  CHECK(found != nullptr);
  return *found;
}

// Where a packed byte lies, and how many follow it there.
struct PlacedRun {
  std::int64_t offset;
  std::uint64_t bytes;
};

PlacedRun run_at(const BlockListArgument& a, std::uint64_t packed) {
  const std::uint64_t in_turn = packed % a.turn_bytes;
  const std::uint64_t* const after = std::upper_bound(a.before, a.before + a.blocks + 1, in_turn);
  const auto block = static_cast<std::size_t>(after - a.before) - 1;
  const auto turn = static_cast<std::int64_t>(packed / a.turn_bytes);
  return {turn * a.stride + a.offsets[block] + static_cast<std::int64_t>(in_turn - a.before[block]),
          *after - in_turn};
}

template <class Copy>
void for_runs(const BlockListArgument& a, Copy copy) {
  const std::uint64_t bytes = a.units * a.unit_bytes;
  for (std::uint64_t done = 0; done < bytes;) {
    const PlacedRun run = run_at(a, a.first + done);
    const std::uint64_t some = std::min(run.bytes, bytes - done);
    copy(a.strided + run.offset, a.packed + done, some);
    done += some;
  }
}

}  // namespace

Result<BlockList> block_list(const TypeLayout& layout, std::int64_t count) {
  const auto all = TypeLayout::contiguous(count, layout);
  if (!all.is_ok()) return all.status();
  const NodeRef& node = all.value().node();
  BlockList list{.offsets = {}, .before = {0}, .origin = all.value().origin()};
  if (!node) return list;
  const bool is_loop = node->kind == NodeKind::kLoop;
  const NodeRef& turn = is_loop ? node->child : node;
  list.turns = is_loop ? node->count : 1;
  list.stride = is_loop ? node->stride : 0;
  if (turn->blocks > kMostListedBlocks) {
    return Status(Code::kUnsupported, "block_list: " + std::to_string(turn->blocks) +
                                          " blocks, at most " + std::to_string(kMostListedBlocks) +
                                          " are listed");
  }
  BlockCursor cursor(turn, 0);
  for (ByteBlock block; cursor.next_run(block);) {
    list.offsets.push_back(block.offset);
    list.before.push_back(list.before.back() + block.length);
  }
  return list;
}

Result<std::optional<PlacedStrided>> as_strided(const TypeLayout& layout, std::int64_t count) {
  const auto all = TypeLayout::contiguous(count, layout);
  if (!all.is_ok()) return all.status();
  PlacedStrided out{.shape = {}, .origin = all.value().origin()};
  const LayoutNode* node = all.value().node().get();
  if (node == nullptr) return std::optional(out);
  if (node->depth > kMostDims) return std::optional<PlacedStrided>();
  for (std::size_t d = kMostDims - node->depth; node->kind == NodeKind::kLoop; ++d) {
    out.shape.count[d] = node->count;
    out.shape.stride[d] = node->stride;
    node = node->child.get();
  }
  if (node->kind != NodeKind::kBlock) return std::optional<PlacedStrided>();
  out.shape.block_bytes = node->size;
  return std::optional(out);
}

BlockListArgument block_list_argument(const BlockList& list, const BlockListMemory& memory,
                                      std::uint64_t first, std::uint64_t bytes) {
  CHECK(first <= list.bytes() && bytes <= list.bytes() - first);
  std::byte* const strided = memory.base + list.origin;
  std::uint64_t all = 16 | first | bytes | reinterpret_cast<std::uintptr_t>(strided) |
                      reinterpret_cast<std::uintptr_t>(memory.packed);
  if (list.turns > 1) all |= static_cast<std::uint64_t>(list.stride);
  for (const std::int64_t offset : list.offsets) all |= static_cast<std::uint64_t>(offset);
  for (const std::uint64_t before : list.before) all |= before;
  const std::uint32_t unit = std::uint32_t{1} << std::countr_zero(all);
  return {.strided = strided,
          .packed = memory.packed,
          .offsets = memory.offsets,
          .before = memory.before,
          .blocks = list.offsets.size(),
          .turn_bytes = list.before.back(),
          .stride = list.stride,
          .first = first,
          .units = bytes / unit,
          .unit_bytes = unit};
}

const device::KernelRow& pack_list_kernel() { return list_row("holdfast_pack_list"); }
const device::KernelRow& unpack_list_kernel() { return list_row("holdfast_unpack_list"); }

void pack_list(const BlockListArgument& argument) {
  for_runs(argument, [](const std::byte* strided, std::byte* packed, std::uint64_t bytes) {
    std::memcpy(packed, strided, bytes);
  });
}

void unpack_list(const BlockListArgument& argument) {
  for_runs(argument, [](std::byte* strided, const std::byte* packed, std::uint64_t bytes) {
    std::memcpy(strided, packed, bytes);
  });
}

}  // namespace holdfast::datatype

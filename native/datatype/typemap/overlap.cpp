#include "datatype/typemap/overlap.h"

#include <algorithm>
#include <vector>

#include "datatype/typemap/block_cursor.h"

namespace holdfast::datatype {
namespace {

struct ByteReach {
  std::int64_t low;
  std::int64_t high;
};

bool apart(std::vector<ByteReach>& reaches) {
  std::ranges::sort(reaches, {}, &ByteReach::low);
  for (std::size_t i = 1; i < reaches.size(); ++i) {
    if (reaches[i].low < reaches[i - 1].high) return false;
  }
  return true;
}

bool blocks_apart(const NodeRef& node) {
  std::vector<ByteReach> reaches;
  reaches.reserve(node->blocks);
  BlockCursor cursor(node, 0);
  for (ByteBlock block; cursor.next(block);) {
    reaches.push_back({block.offset, block.offset + static_cast<std::int64_t>(block.length)});
  }
  return apart(reaches);
}

bool proven_apart(const LayoutNode& node);

// Strides in the order of their lengths, each beyond what the ones before reach.
bool loops_apart(const LayoutNode& top) {
  struct LoopDim {
    std::uint64_t stride;
    std::uint64_t count;
  };
  std::vector<LoopDim> dims;
  const LayoutNode* node = &top;
  for (; node->kind == NodeKind::kLoop; node = node->child.get()) {
    const auto stride = static_cast<std::uint64_t>(node->stride);
    dims.push_back({node->stride < 0 ? 0 - stride : stride, node->count});
  }
  if (!proven_apart(*node)) return false;
  std::ranges::sort(dims, {}, &LoopDim::stride);
  std::uint64_t reach = node->span();
  for (const LoopDim& dim : dims) {
    if (dim.stride < reach) return false;
    reach += (dim.count - 1) * dim.stride;
  }
  return true;
}

bool parts_apart(const LayoutNode& node) {
  std::vector<ByteReach> reaches;
  for (std::size_t i = 0; i < node.offsets.size(); ++i) {
    if (!proven_apart(*node.parts[i])) return false;
    reaches.push_back(
        {node.offsets[i] + node.parts[i]->low, node.offsets[i] + node.parts[i]->high});
  }
  return apart(reaches);
}

bool proven_apart(const LayoutNode& node) {
  switch (node.kind) {
    case NodeKind::kBlock: return true;
    case NodeKind::kLoop: return loops_apart(node);
    case NodeKind::kParts: return parts_apart(node);
    case NodeKind::kBlocks: break;
  }
  std::vector<ByteReach> reaches;
  for (std::size_t i = 0; i < node.offsets.size(); ++i) {
    const std::int64_t at = node.offsets[i];
    reaches.push_back({at, at + static_cast<std::int64_t>(node.length(i))});
  }
  return apart(reaches);
}

}  // namespace

bool may_name_twice(const NodeRef& node, std::uint64_t most_sorted) {
  if (!node) return false;
  // More bytes than places for them.
  if (node->size > node->span()) return true;
  if (proven_apart(*node)) return false;
  return node->blocks > most_sorted || !blocks_apart(node);
}

}  // namespace holdfast::datatype

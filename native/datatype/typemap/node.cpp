#include "datatype/typemap/node.h"

#include <algorithm>

#include "datatype/typemap/period.h"

namespace holdfast::datatype {
namespace {

bool all_equal(const std::vector<std::uint64_t>& lengths) {
  return std::ranges::all_of(lengths, [&](std::uint64_t n) { return n == lengths.front(); });
}

// Offsets begin at zero.
NodeRef raw_blocks(std::vector<std::int64_t> offsets, const std::vector<std::uint64_t>& lengths) {
  if (offsets.size() == 1) return block_node(lengths.front());
  LayoutNode node{.kind = NodeKind::kBlocks, .depth = 1, .blocks = offsets.size()};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    node.low = std::min(node.low, offsets[i]);
    node.high = std::max(node.high, offsets[i] + static_cast<std::int64_t>(lengths[i]));
    node.size += lengths[i];
  }
  if (all_equal(lengths)) {
    node.block = lengths.front();
  } else {
    node.before.reserve(offsets.size() + 1);
    node.before.push_back(0);
    for (const std::uint64_t length : lengths) node.before.push_back(node.before.back() + length);
  }
  node.offsets = std::move(offsets);
  return std::make_shared<const LayoutNode>(std::move(node));
}

// Offsets begin at zero.
NodeRef raw_parts(const std::vector<PlacedNode>& parts) {
  if (parts.size() == 1) return parts.front().node;
  LayoutNode node{.kind = NodeKind::kParts, .blocks = 0};
  node.before.push_back(0);
  for (const PlacedNode& part : parts) {
    node.offsets.push_back(part.offset);
    node.parts.push_back(part.node);
    node.low = std::min(node.low, part.offset + part.node->low);
    node.high = std::max(node.high, part.offset + part.node->high);
    node.size += part.node->size;
    node.before.push_back(node.size);
    node.blocks += part.node->blocks;
    node.depth = std::max(node.depth, part.node->depth + 1);
  }
  return std::make_shared<const LayoutNode>(std::move(node));
}

// Joins each block to the one before where that ends.
void join_neighbours(std::vector<std::int64_t>& offsets, std::vector<std::uint64_t>& lengths) {
  std::size_t last = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] == offsets[last] + static_cast<std::int64_t>(lengths[last])) {
      lengths[last] += lengths[i];
    } else {
      ++last;
      offsets[last] = offsets[i];
      lengths[last] = lengths[i];
    }
  }
  offsets.resize(last + 1);
  lengths.resize(last + 1);
}

// Rows within an irregular list of blocks (offsets begin at zero) as loops; the rest as lists.
NodeRef with_rows(std::vector<std::int64_t> offsets, const std::vector<std::uint64_t>& lengths) {
  std::vector<PlacedNode> parts;
  std::size_t done = 0;
  const auto list_until = [&](std::size_t end) {
    if (done == end) return;
    std::vector<std::int64_t> some;
    for (std::size_t i = done; i < end; ++i) some.push_back(offsets[i] - offsets[done]);
    const std::vector<std::uint64_t> their(lengths.begin() + static_cast<std::ptrdiff_t>(done),
                                           lengths.begin() + static_cast<std::ptrdiff_t>(end));
    parts.push_back({offsets[done], raw_blocks(std::move(some), their)});
  };
  for (std::size_t i = 0; i < offsets.size();) {
    const std::size_t end = row_end(offsets, lengths, i);
    if (end - i >= kLeastRow) {
      list_until(i);
      parts.push_back(
          {offsets[i], loop_node(end - i, offsets[i + 1] - offsets[i], block_node(lengths[i]))});
      done = end;
      i = end;
    } else {
      // The last block of a row may begin the next one.
      i = std::max(i + 1, end - 1);
    }
  }
  if (parts.empty()) return raw_blocks(std::move(offsets), lengths);
  list_until(offsets.size());
  return raw_parts(parts);
}

// Appends what a part is made of, where that is a list or a short loop.
void take_apart(const PlacedNode& part, bool lists, std::vector<PlacedNode>& out) {
  const LayoutNode& node = *part.node;
  const bool deep = node.depth >= kMostListDepth;
  if (node.kind == NodeKind::kLoop && node.blocks <= kMostUnrolled) {
    for (std::uint64_t i = 0; i < node.count; ++i) {
      take_apart({part.offset + static_cast<std::int64_t>(i) * node.stride, node.child}, true, out);
    }
  } else if (node.kind == NodeKind::kBlocks && lists) {
    for (std::size_t i = 0; i < node.offsets.size(); ++i) {
      out.push_back({part.offset + node.offsets[i], block_node(node.length(i))});
    }
  } else if (node.kind == NodeKind::kParts && (lists || deep)) {
    for (std::size_t i = 0; i < node.offsets.size(); ++i) {
      out.push_back({part.offset + node.offsets[i], node.parts[i]});
    }
  } else {
    out.push_back(part);
  }
}

std::vector<PlacedNode> taken_apart(const std::vector<PlacedNode>& parts) {
  std::uint64_t listed = 0;
  for (const PlacedNode& part : parts) {
    if (part.node) listed += std::max<std::size_t>(part.node->offsets.size(), 1);
  }
  std::vector<PlacedNode> out;
  for (const PlacedNode& part : parts) {
    if (part.node) take_apart(part, listed <= kMostExpanded, out);
  }
  return out;
}

// Neighbouring blocks as one list each.
std::vector<PlacedNode> with_lists(const std::vector<PlacedNode>& parts) {
  std::vector<PlacedNode> out;
  for (std::size_t i = 0; i < parts.size();) {
    std::vector<std::int64_t> offsets;
    std::vector<std::uint64_t> lengths;
    for (; i < parts.size() && parts[i].node->kind == NodeKind::kBlock; ++i) {
      offsets.push_back(parts[i].offset);
      lengths.push_back(parts[i].node->size);
    }
    if (!offsets.empty()) {
      out.push_back(blocks_node(std::move(offsets), std::move(lengths)));
    } else {
      out.push_back(parts[i++]);
    }
  }
  return out;
}

}  // namespace

NodeRef block_node(std::uint64_t size) {
  if (size == 0) return nullptr;
  return std::make_shared<const LayoutNode>(
      LayoutNode{.size = size, .high = static_cast<std::int64_t>(size)});
}

NodeRef loop_node(std::uint64_t count, std::int64_t stride, const NodeRef& child) {
  if (count == 0 || !child) return nullptr;
  if (count == 1) return child;
  if (child->kind == NodeKind::kBlock && stride == static_cast<std::int64_t>(child->size)) {
    return block_node(count * child->size);
  }
  if (child->kind == NodeKind::kLoop) {
    std::int64_t next = 0;
    if (!__builtin_mul_overflow(child->stride, static_cast<std::int64_t>(child->count), &next) &&
        next == stride) {
      return loop_node(count * child->count, child->stride, child->child);
    }
  }
  LayoutNode node{.kind = NodeKind::kLoop, .depth = child->depth + 1, .size = count * child->size};
  const std::int64_t last = static_cast<std::int64_t>(count - 1) * stride;
  node.blocks = count * child->blocks;
  node.low = std::min(child->low, last + child->low);
  node.high = std::max(child->high, last + child->high);
  node.stride = stride;
  node.count = count;
  node.child = child;
  return std::make_shared<const LayoutNode>(std::move(node));
}

PlacedNode blocks_node(std::vector<std::int64_t> offsets, std::vector<std::uint64_t> lengths) {
  if (offsets.empty()) return {};
  join_neighbours(offsets, lengths);
  const std::int64_t origin = offsets.front();
  for (std::int64_t& offset : offsets) offset -= origin;
  const std::size_t period = pattern(offsets, lengths);
  if (period == offsets.size()) return {origin, with_rows(std::move(offsets), lengths)};
  const std::uint64_t times = offsets.size() / period;
  const std::int64_t stride = offsets[period];
  offsets.resize(period);
  lengths.resize(period);
  return {origin,
          loop_node(times, stride, blocks_node(std::move(offsets), std::move(lengths)).node)};
}

PlacedNode list_node(const std::vector<PlacedNode>& given) {
  std::vector<PlacedNode> parts = with_lists(taken_apart(given));
  if (parts.empty()) return {};
  const std::int64_t origin = parts.front().offset;
  for (PlacedNode& part : parts) part.offset -= origin;
  const std::size_t period = pattern(parts);
  const std::uint64_t times = parts.size() / period;
  const std::int64_t stride = times == 1 ? 0 : parts[period].offset;
  parts.resize(period);
  return {origin, loop_node(times, stride, raw_parts(parts))};
}

bool same_form(const NodeRef& a, const NodeRef& b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->size != b->size || a->count != b->count ||
      a->stride != b->stride || a->block != b->block || a->offsets != b->offsets ||
      a->before != b->before || a->parts.size() != b->parts.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a->parts.size(); ++i) {
    if (!same_form(a->parts[i], b->parts[i])) return false;
  }
  return same_form(a->child, b->child);
}

}  // namespace holdfast::datatype

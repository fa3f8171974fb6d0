#include "datatype/layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/check.h"
#include "datatype/typemap/block_cursor.h"
#include "datatype/typemap/overlap.h"

namespace holdfast::datatype {
namespace {

constexpr auto kMostBytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Status negative(const char* call, const char* what, std::int64_t value) {
  return {Code::kConfigError, std::string(call) + ": " + what + " is " + std::to_string(value) +
                                  ", accepted are 0 and more"};
}

Status too_large(const char* call) {
  return {Code::kConfigError, std::string(call) +
                                  ": a bound, the extent or the size of the new type does not fit "
                                  "into 64 bits"};
}

Status uneven(const char* call, std::size_t blocklengths, std::size_t others) {
  return {Code::kConfigError, std::string(call) + ": " + std::to_string(blocklengths) +
                                  " blocklengths for " + std::to_string(others) +
                                  " blocks, accepted are as many"};
}

// Adds `count` times `bytes` to the size; false beyond 64 bits.
bool add_bytes(std::uint64_t& size, std::int64_t count, std::uint64_t bytes) {
  std::uint64_t more = 0;
  return !__builtin_mul_overflow(static_cast<std::uint64_t>(count), bytes, &more) &&
         !__builtin_add_overflow(size, more, &size) && size <= kMostBytes;
}

NodeRef block_of(std::int64_t count, const TypeLayout& t) {
  return loop_node(static_cast<std::uint64_t>(count), t.extent(), t.node());
}

// What the blocks of an indexed type or of a structure sum up to.
struct TypeSum {
  std::uint64_t size = 0;
  TypeBounds bounds;

  bool add(std::int64_t count, std::int64_t at, const TypeLayout& t) {
    return add_bytes(size, count, t.size()) &&
           include_repeated(bounds, t.bounds(), at, count, t.extent());
  }
};

// The blocks of an indexed type, made of a type without gaps, as a list.
PlacedNode listed(std::span<const std::int64_t> blocklengths,
                  std::span<const std::int64_t> displacements, const TypeLayout& t) {
  std::vector<std::int64_t> offsets;
  std::vector<std::uint64_t> lengths;
  offsets.reserve(displacements.size());
  lengths.reserve(displacements.size());
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    const std::int64_t count = blocklengths[blocklengths.size() == 1 ? 0 : i];
    if (count == 0) continue;
    offsets.push_back(displacements[i] + t.origin());
    lengths.push_back(static_cast<std::uint64_t>(count) * t.size());
  }
  return blocks_node(std::move(offsets), std::move(lengths));
}

// One block length for all, or one each.
Status indexed(const char* call, std::span<const std::int64_t> blocklengths,
               std::span<const std::int64_t> displacements, const TypeLayout& t, PlacedNode& placed,
               TypeSum& sum) {
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    const std::int64_t count = blocklengths[blocklengths.size() == 1 ? 0 : i];
    if (count < 0) return negative(call, "a blocklength", count);
    if (!sum.add(count, displacements[i], t)) return too_large(call);
  }
  if (sum.size == 0) return Status::ok();
  if (t.is_dense(2)) {
    placed = listed(blocklengths, displacements, t);
    return Status::ok();
  }
  std::map<std::int64_t, NodeRef> blocks;  // by length, shared
  std::vector<PlacedNode> parts;
  parts.reserve(displacements.size());
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    const std::int64_t count = blocklengths[blocklengths.size() == 1 ? 0 : i];
    if (count == 0) continue;
    NodeRef& block = blocks[count];
    if (!block) block = block_of(count, t);
    parts.push_back({displacements[i] + t.origin(), block});
  }
  placed = list_node(parts);
  return Status::ok();
}

void describe(const LayoutNode& node, int depth, std::string& out) {
  constexpr int kMostShown = 4;  // levels, and parts of a list
  if (depth == kMostShown) {
    out += "...";
    return;
  }
  const auto at = [](std::int64_t offset) { return " @" + std::to_string(offset); };
  switch (node.kind) {
    case NodeKind::kBlock: out += std::to_string(node.size); return;
    case NodeKind::kLoop:
      out += std::to_string(node.count) + " x " + std::to_string(node.stride) + " [";
      describe(*node.child, depth + 1, out);
      break;
    case NodeKind::kBlocks:
    case NodeKind::kParts:
      out += std::to_string(node.offsets.size()) + " [";
      for (std::size_t i = 0; i < node.offsets.size() && i < kMostShown; ++i) {
        if (i > 0) out += ", ";
        if (node.kind == NodeKind::kBlocks) {
          out += std::to_string(node.length(i));
        } else {
          describe(*node.parts[i], depth + 1, out);
        }
        out += at(node.offsets[i]);
      }
      if (node.offsets.size() > kMostShown) out += ", ...";
  }
  out += "]";
}

}  // namespace

TypeLayout TypeLayout::bytes(std::uint64_t n, std::uint32_t alignment) {
  CHECK(n <= kMostBytes && alignment > 0);
  if (n == 0) return {};
  TypeBounds bounds;
  bounds.any = true;
  bounds.true_ub = static_cast<std::int64_t>(n);
  bounds.end = bounds.true_ub;
  bounds.alignment = alignment;
  CHECK(fits(bounds));
  return {0, block_node(n), bounds};
}

Result<TypeLayout> TypeLayout::contiguous(std::int64_t count, const TypeLayout& t) {
  if (count < 0) return negative("contiguous", "the count", count);
  TypeSum sum;
  if (!sum.add(count, 0, t)) return too_large("contiguous");
  return TypeLayout(count == 0 ? 0 : t.origin_, block_of(count, t), sum.bounds);
}

Result<TypeLayout> TypeLayout::hvector(std::int64_t count, std::int64_t blocklength,
                                       std::int64_t stride, const TypeLayout& t) {
  if (count < 0) return negative("hvector", "the count", count);
  if (blocklength < 0) return negative("hvector", "the blocklength", blocklength);
  if (count == 0) return TypeLayout();
  TypeSum block;
  if (!block.add(blocklength, 0, t)) return too_large("hvector");
  std::uint64_t size = 0;
  TypeBounds bounds;
  if (!add_bytes(size, count, block.size) ||
      !include_repeated(bounds, block.bounds, 0, count, stride)) {
    return too_large("hvector");
  }
  NodeRef node = loop_node(static_cast<std::uint64_t>(count), stride, block_of(blocklength, t));
  const std::int64_t origin = node ? t.origin_ : 0;
  return TypeLayout(origin, std::move(node), bounds);
}

Result<TypeLayout> TypeLayout::hindexed(std::span<const std::int64_t> blocklengths,
                                        std::span<const std::int64_t> displacements,
                                        const TypeLayout& t) {
  if (blocklengths.size() != displacements.size()) {
    return uneven("hindexed", blocklengths.size(), displacements.size());
  }
  PlacedNode placed;
  TypeSum sum;
  TRY(indexed("hindexed", blocklengths, displacements, t, placed, sum));
  return TypeLayout(placed.offset, std::move(placed.node), sum.bounds);
}

Result<TypeLayout> TypeLayout::hindexed_block(std::int64_t blocklength,
                                              std::span<const std::int64_t> displacements,
                                              const TypeLayout& t) {
  PlacedNode placed;
  TypeSum sum;
  TRY(indexed("hindexed_block", {&blocklength, 1}, displacements, t, placed, sum));
  return TypeLayout(placed.offset, std::move(placed.node), sum.bounds);
}

Result<TypeLayout> TypeLayout::structure(std::span<const std::int64_t> blocklengths,
                                         std::span<const std::int64_t> displacements,
                                         std::span<const TypeLayout> types) {
  if (blocklengths.size() != displacements.size() || types.size() != displacements.size()) {
    return uneven("structure", blocklengths.size(), std::min(displacements.size(), types.size()));
  }
  TypeSum sum;
  std::vector<PlacedNode> parts;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (blocklengths[i] < 0) return negative("structure", "a blocklength", blocklengths[i]);
    if (!sum.add(blocklengths[i], displacements[i], types[i])) return too_large("structure");
    if (blocklengths[i] == 0 || !types[i].node_) continue;
    parts.push_back({displacements[i] + types[i].origin_, block_of(blocklengths[i], types[i])});
  }
  PlacedNode placed = list_node(parts);
  return TypeLayout(placed.offset, std::move(placed.node), sum.bounds);
}

Result<TypeLayout> TypeLayout::resized(const TypeLayout& t, std::int64_t lb, std::int64_t extent) {
  TypeLayout out = t;
  out.bounds_.marked = true;
  out.bounds_.lb_mark = lb;
  if (__builtin_add_overflow(lb, extent, &out.bounds_.ub_mark)) return too_large("resized");
  return out;
}

bool TypeLayout::is_dense(std::int64_t count) const {
  if (count <= 0 || !node_) return true;
  return node_->kind == NodeKind::kBlock &&
         (count == 1 || extent() == static_cast<std::int64_t>(node_->size));
}

bool TypeLayout::may_overlap(std::int64_t count) const {
  if (count <= 0 || !node_) return false;
  const auto all = contiguous(count, *this);
  return !all.is_ok() || may_name_twice(all.value().node_, kMostSorted);
}

bool operator==(const TypeLayout& a, const TypeLayout& b) {
  if (a.size() != b.size() || a.origin_ != b.origin_) return false;
  if (same_form(a.node_, b.node_)) return true;
  if (a.true_lb() != b.true_lb() || a.true_ub() != b.true_ub()) return false;
  BlockCursor one(a.node_, 0);
  BlockCursor other(b.node_, 0);
  ByteBlock x;
  ByteBlock y;
  while (one.next_run(x)) {
    if (!other.next_run(y) || !(x == y)) return false;
  }
  return true;
}

std::string text(const TypeLayout& layout) {
  if (!layout.node()) return "nothing";
  std::string out;
  describe(*layout.node(), 0, out);
  return out + " @" + std::to_string(layout.origin());
}

}  // namespace holdfast::datatype

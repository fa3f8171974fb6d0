// The normal form of a typemap's bytes: a tree of loops and lists over blocks, in the order of the
// typemap. A node's first byte is at zero, so that a list's or a layout's own offsets say where it
// is.
//
// Nodes are made by the functions below alone, which keep these rules: no node is empty; a loop has
// two turns or more; a loop that goes on where its body's loop ends is one loop; blocks that touch
// within a list are one block; a list whose pattern repeats at one stride is a loop over that
// pattern, so that rows, columns and records are found however they were listed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast::datatype {

struct LayoutNode;
// Its owners are the layouts, packers and nodes above it. Nodes are never changed.
using NodeRef = std::shared_ptr<const LayoutNode>;

enum class NodeKind : std::uint8_t {
  kBlock,   // `size` bytes
  kLoop,    // `count` times the child, `stride` apart
  kBlocks,  // a list of blocks
  kParts,   // a list of other nodes
};

struct LayoutNode {
  NodeKind kind = NodeKind::kBlock;
  std::uint32_t depth = 0;   // of nodes below
  std::uint64_t size = 0;    // packed bytes
  std::uint64_t blocks = 1;  // visited when it is walked
  std::int64_t low = 0;      // the lowest byte, and the end of the highest
  std::int64_t high = 0;
  std::int64_t stride = 0;
  std::uint64_t count = 1;
  NodeRef child{};
  // Of lists: where the parts are, and the packed bytes before each and before the end. Blocks of
  // one length have that length instead.
  std::vector<std::int64_t> offsets{};
  std::vector<std::uint64_t> before{};
  std::uint64_t block = 0;
  std::vector<NodeRef> parts{};

  std::uint64_t length(std::size_t i) const {
    return block != 0 ? block : before[i + 1] - before[i];
  }
  std::uint64_t packed_at(std::size_t i) const { return block != 0 ? block * i : before[i]; }
  std::uint64_t span() const {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  }
};

// A node at an offset; nullptr is empty.
struct PlacedNode {
  std::int64_t offset = 0;
  NodeRef node;
};

// Lists are taken apart, where a list is put into another, up to so many parts, and loops of so
// many blocks: patterns are then found across their borders, and trees stay shallow.
inline constexpr std::uint64_t kMostExpanded = 4096;
inline constexpr std::uint64_t kMostUnrolled = 16;
// Beyond this depth lists are taken apart whatever their length, so that walks by recursion end: a
// loop doubles the bytes, so that there are at most 63 of them above each other.
inline constexpr std::uint32_t kMostListDepth = 32;
// A row of so many equal blocks at one stride is a loop within an irregular list.
inline constexpr std::size_t kLeastRow = 32;

// The caller has checked that no offset or size leaves 64 bits (TypeBounds).
NodeRef block_node(std::uint64_t size);
NodeRef loop_node(std::uint64_t count, std::int64_t stride, const NodeRef& child);
PlacedNode blocks_node(std::vector<std::int64_t> offsets, std::vector<std::uint64_t> lengths);
PlacedNode list_node(const std::vector<PlacedNode>& parts);

// Whether two nodes are built alike; then they name the same bytes.
bool same_form(const NodeRef& a, const NodeRef& b);

}  // namespace holdfast::datatype

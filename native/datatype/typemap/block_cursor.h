// BlockCursor: walks the blocks of a node one by one, in order. It serves questions about layouts;
// packing has loops of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "datatype/typemap/node.h"

namespace holdfast::datatype {

struct ByteBlock {
  std::int64_t offset = 0;
  std::uint64_t length = 0;

  bool operator==(const ByteBlock&) const = default;
};

class BlockCursor {
 public:
  // The node outlives the cursor; nullptr has no blocks.
  BlockCursor(const NodeRef& node, std::int64_t offset);

  // The next block as the node lists it; false at the end.
  bool next(ByteBlock& out);
  // The next one joined with those that follow where it ends, so that the order of bytes alone
  // decides what comes out.
  bool next_run(ByteBlock& out);

 private:
  struct Visit {
    const LayoutNode* node;
    std::int64_t offset;
    std::uint64_t index;
  };
  std::vector<Visit> levels_;
  ByteBlock ahead_;
  bool has_ahead_ = false;
};

}  // namespace holdfast::datatype

#include "datatype/typemap/block_cursor.h"

namespace holdfast::datatype {

BlockCursor::BlockCursor(const NodeRef& node, std::int64_t offset) {
  if (node) levels_.push_back({node.get(), offset, 0});
}

bool BlockCursor::next(ByteBlock& out) {
  while (!levels_.empty()) {
    Visit& level = levels_.back();
    const LayoutNode& node = *level.node;
    const std::uint64_t i = level.index++;
    switch (node.kind) {
      case NodeKind::kBlock:
        out = {level.offset, node.size};
        levels_.pop_back();
        return true;
      case NodeKind::kLoop:
        if (i == node.count) {
          levels_.pop_back();
        } else {
          levels_.push_back(
              {node.child.get(), level.offset + static_cast<std::int64_t>(i) * node.stride, 0});
        }
        break;
      case NodeKind::kBlocks:
        if (i < node.offsets.size()) {
          out = {level.offset + node.offsets[i], node.length(i)};
          return true;
        }
        levels_.pop_back();
        break;
      case NodeKind::kParts:
        if (i == node.offsets.size()) {
          levels_.pop_back();
        } else {
          levels_.push_back({node.parts[i].get(), level.offset + node.offsets[i], 0});
        }
        break;
    }
  }
  return false;
}

bool BlockCursor::next_run(ByteBlock& out) {
  if (!has_ahead_ && !next(ahead_)) return false;
  out = ahead_;
  while ((has_ahead_ = next(ahead_)) &&
         ahead_.offset == out.offset + static_cast<std::int64_t>(out.length)) {
    out.length += ahead_.length;
  }
  return true;
}

}  // namespace holdfast::datatype

#include "datatype/pack/step.h"

#include <cstdlib>
#include <limits>
#include <unordered_map>

namespace holdfast::datatype {
namespace {

// Longer blocks are copied by calls whose own cost no longer matters.
constexpr std::uint64_t kLongBlock = 2048;
// Of a list of several lengths, elements in a block, on average: beyond that, their offsets would
// be as long as the blocks'.
constexpr std::uint64_t kMostElements = 16;
// Rows of so many blocks are worth a call each, where that shuffles.
constexpr std::uint64_t kLongRow = 64;

PackRecord record_of(const NodeRef& body, std::int64_t stride) {
  PackRecord record{.size = body->size, .low = body->low, .high = body->high, .stride = stride};
  BlockCursor cursor(body, 0);
  for (ByteBlock block; cursor.next(block);) record.blocks.push_back(block);
  return record;
}

bool is_row(const LayoutNode& body) {
  return body.kind == NodeKind::kLoop && body.child->kind == NodeKind::kBlock &&
         body.child->size <= kLongBlock;
}

bool has_short_blocks(const LayoutNode& body) {
  if (body.kind == NodeKind::kBlock) return body.size <= kLongBlock;
  if (body.blocks > kMostRecordBlocks) return false;
  if (body.kind != NodeKind::kBlocks) return is_row(body);
  for (std::size_t i = 0; i < body.offsets.size(); ++i) {
    if (body.length(i) > kLongBlock) return false;
  }
  return true;
}

// Chooses the steps of a tree; nodes that are met again share theirs.
class StepChooser {
 public:
  explicit StepChooser(const PackKernels& kernels) : kernels_(kernels) {}

  StepRef choose(const NodeRef& node) {
    if (!node) return nullptr;
    const auto known = chosen_.find(node);
    if (known != chosen_.end()) return known->second;
    PackStep step{.node = node};
    switch (node->kind) {
      case NodeKind::kBlock: break;
      case NodeKind::kLoop: loop(step, *node); break;
      case NodeKind::kBlocks: list(step, *node); break;
      case NodeKind::kParts:
        step.kind = PackKind::kParts;
        for (const NodeRef& part : node->parts) step.children.push_back(choose(part));
    }
    StepRef made = std::make_shared<const PackStep>(std::move(step));
    chosen_.emplace(node, made);
    return made;
  }

 private:
  void loop(PackStep& step, const LayoutNode& node) {
    const LayoutNode& body = *node.child;
    step.item = body.size;
    step.children.push_back(choose(node.child));
    step.kind = PackKind::kLoop;
    if (has_short_blocks(body)) {
      records(step, node);
      const bool shuffles = step.pack_record.shuffles || step.unpack_record.shuffles;
      if (body.kind != NodeKind::kLoop || shuffles) {
        step.kind = PackKind::kRecords;
        return;
      }
    }
    if (is_row(body) && !(body.count >= kLongRow && shuffles_rows(*step.children.front()))) {
      step.kind = PackKind::kRows;
      row_loops(step, body);
    }
  }

  void row_loops(PackStep& step, const LayoutNode& row) {
    step.pack_record.blocks = {kernels_.pack.rows(row.child->size, row.count)};
    step.unpack_record.blocks = {kernels_.unpack.rows(row.child->size, row.count)};
  }

  static bool shuffles_rows(const PackStep& row) {
    return row.pack_record.shuffles || row.unpack_record.shuffles;
  }

  void records(PackStep& step, const LayoutNode& node) {
    step.record = record_of(node.child, node.stride);
    if (is_row(*node.child)) {
      row_loops(step, *node.child);
    } else {
      for (const ByteBlock& block : step.record.blocks) {
        step.pack_record.blocks.push_back(kernels_.pack.vector(block.length));
        step.unpack_record.blocks.push_back(kernels_.unpack.vector(block.length));
      }
    }
    const std::int64_t reach = step.record.high - step.record.low;
    if (reach > kMostRecordReach || std::abs(node.stride) > kMostRecordReach) return;
    step.pack_record.shuffles = shuffle_plan(step.record, kernels_, true);
    step.unpack_record.shuffles = shuffle_plan(step.record, kernels_, false);
  }

  void list(PackStep& step, const LayoutNode& node) {
    const bool near = node.low >= -kNear && node.high <= kNear;
    if (node.block == 0) {
      step.kind = PackKind::kMixed;
      step.pack_mixed = kernels_.pack.mixed;
      step.unpack_mixed = kernels_.unpack.mixed;
      if (near) elements(step, node);
      return;
    }
    step.kind = PackKind::kList;
    step.element = node.block;
    if (near) {
      step.near.reserve(node.offsets.size());
      for (const std::int64_t at : node.offsets) step.near.push_back(static_cast<std::int32_t>(at));
    }
    list_loops(step, near);
  }

  void list_loops(PackStep& step, bool near) {
    const auto choose_loop = near ? &PackLoops::near_list : &PackLoops::far_list;
    const ListLoop gather = !near               ? nullptr
                            : step.element == 4 ? kernels_.gather4
                            : step.element == 8 ? kernels_.gather8
                                                : nullptr;
    step.pack_list = gather != nullptr ? gather : (kernels_.pack.*choose_loop)(step.element);
    step.unpack_list = (kernels_.unpack.*choose_loop)(step.element);
  }

  // Lists the elements of 4 or 8 bytes that short blocks are made of.
  void elements(PackStep& step, const LayoutNode& node) {
    std::uint64_t lengths = 0;  // the bits of all of them
    for (std::size_t i = 0; i < node.offsets.size(); ++i) lengths |= node.length(i);
    const std::uint64_t element = lengths % 8 == 0 ? 8 : lengths % 4 == 0 ? 4 : 0;
    if (element == 0 || node.size / element > kMostElements * node.offsets.size()) return;
    step.element = element;
    step.near.reserve(node.size / element);
    for (std::size_t i = 0; i < node.offsets.size(); ++i) {
      for (std::uint64_t byte = 0; byte < node.length(i); byte += element) {
        step.near.push_back(static_cast<std::int32_t>(node.offsets[i]) +
                            static_cast<std::int32_t>(byte));
      }
    }
    list_loops(step, true);
  }

  // Offsets that fit into 32 bits.
  static constexpr std::int64_t kNear = std::numeric_limits<std::int32_t>::max();

  PackKernels kernels_;
  std::unordered_map<NodeRef, StepRef> chosen_;  // by identity; only looked up
};

}  // namespace

PackPlan pack_plan(const TypeLayout& layout, const PackKernels& kernels) {
  StepChooser chooser(kernels);
  PackPlan plan{.layout = layout, .one = chooser.choose(layout.node()), .many = nullptr};
  // Two elements stand for any number: what their loop is does not depend on the count.
  plan.many = chooser.choose(loop_node(2, layout.extent(), layout.node()));
  return plan;
}

}  // namespace holdfast::datatype

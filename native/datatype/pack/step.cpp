#include "datatype/pack/step.h"

#include <limits>
#include <unordered_map>

namespace holdfast::datatype {
namespace {

// Longer blocks are copied by calls whose own cost no longer matters.
constexpr std::uint64_t kLongBlock = 2048;

// Chooses the steps of a tree; nodes that are met again share theirs.
class StepChooser {
 public:
  explicit StepChooser(CpuLevel level) : kernels_(pack_kernels(level)) {}

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
    const LayoutNode& block = body.kind == NodeKind::kLoop ? *body.child : body;
    step.item = body.size;
    step.children.push_back(choose(node.child));
    step.kind = PackKind::kLoop;
    if (block.kind != NodeKind::kBlock || block.size > kLongBlock) return;
    step.kind = PackKind::kVector;
    step.has_rows = &block != &body;
    step.pack_vector = kernels_.pack.vector(block.size);
    step.unpack_vector = kernels_.unpack.vector(block.size);
  }

  void list(PackStep& step, const LayoutNode& node) {
    if (node.block == 0) {
      step.kind = PackKind::kMixed;
      step.pack_mixed = kernels_.pack.mixed;
      step.unpack_mixed = kernels_.unpack.mixed;
      return;
    }
    step.kind = PackKind::kList;
    constexpr std::int64_t kNear = std::numeric_limits<std::int32_t>::max();
    const bool near = node.low >= -kNear && node.high <= kNear;
    if (near) {
      step.near.reserve(node.offsets.size());
      for (const std::int64_t at : node.offsets) step.near.push_back(static_cast<std::int32_t>(at));
    }
    const auto choose_loop = near ? &PackLoops::near_list : &PackLoops::far_list;
    step.pack_list = (kernels_.pack.*choose_loop)(node.block);
    step.unpack_list = (kernels_.unpack.*choose_loop)(node.block);
  }

  PackKernels kernels_;
  std::unordered_map<NodeRef, StepRef> chosen_;  // by identity; only looked up
};

}  // namespace

PackPlan pack_plan(const TypeLayout& layout, CpuLevel level) {
  StepChooser chooser(level);
  PackPlan plan{.layout = layout, .one = chooser.choose(layout.node()), .many = nullptr};
  // Two elements stand for any number: what their loop is does not depend on the count.
  plan.many = chooser.choose(loop_node(2, layout.extent(), layout.node()));
  return plan;
}

}  // namespace holdfast::datatype

// Slot memory: where the slots of a schedule lie while it is lowered, how much they hold, and what
// becomes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/engine/coding.h"
#include "comm/engine/program.h"

namespace holdfast::comm {

class SlotMemory {
 public:
  // All of it outlives this.
  SlotMemory(const FusedSchedule& fused, const Layout& layout, const Arithmetic& arithmetic,
             const Coding& coding, const std::vector<std::uint64_t>& place)
      : schedule_(fused.schedule),
        uses_(fused.uses),
        layout_(layout),
        arithmetic_(arithmetic),
        coding_(coding),
        element_(arithmetic.element_bytes()),
        place_at_(place) {}

  const Step& step(int i) const { return schedule_.steps[static_cast<std::size_t>(i)]; }

  // Whether the slot is this rank's input, which is scaled wherever it is used.
  bool is_scaled(const Slot& slot) const {
    return arithmetic_.scales() && slot.space == Space::kInput;
  }
  bool is_wide(const Slot& slot) const { return form_of(schedule_, slot) == Form::kWide; }
  bool is_lossless() const { return coding_.codec && coding_.codec->spec().lossless; }

  // The index of the frame that the slot holds, or -1.
  int frame(const Slot& slot) const {
    return form_of(schedule_, slot) == Form::kFrame ? static_cast<int>(slot.chunk) : -1;
  }

  std::byte* address(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].data;
      case Space::kOutput: return layout_.output[slot.chunk].data;
      case Space::kScratch: return scratch_ + place_at_[slot.chunk];
    }
    return nullptr;
  }

  // How many elements the slot holds, in whatever form.
  std::uint64_t count(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].count;
      case Space::kOutput: return layout_.output[slot.chunk].count;
      case Space::kScratch: return layout_.scratch[slot.chunk];
    }
    return 0;
  }

  std::uint64_t bytes(const Slot& slot) const {
    switch (form_of(schedule_, slot)) {
      case Form::kPlain: break;
      case Form::kFrame:
        // The frame of an empty chunk is empty: it has not even a header.
        return count(slot) == 0 ? 0 : coding_.codec->encoded_bound(arithmetic_.dtype, count(slot));
      case Form::kWide: return count(slot) * sizeof(float);
    }
    return count(slot) * element_;
  }

  // How a final sum becomes an average.
  bool divides_by_number() const {
    return !arithmetic_.weighing && arithmetic_.op == ReduceOp::kAvg &&
           arithmetic_.contributors > 1;
  }
  bool divides_by_weights() const {
    return arithmetic_.weighing && arithmetic_.weighing->divides();
  }

 protected:
  friend class CodeLowering;

  const Schedule& schedule_;
  const std::vector<ScratchUse>& uses_;
  const Layout& layout_;
  const Arithmetic& arithmetic_;
  const Coding& coding_;
  const std::uint64_t element_;
  const std::vector<std::uint64_t>& place_at_;  // by scratch chunk: offset in scratch memory
  std::byte* scratch_ = nullptr;
};

}  // namespace holdfast::comm

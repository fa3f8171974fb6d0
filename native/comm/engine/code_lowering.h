// Code lowering: the steps of a schedule that encode, decode or narrow chunks, bound to memory.
#pragma once

#include <cstdint>
#include <utility>

#include "comm/engine/slot_memory.h"

namespace holdfast::comm {

class CodeLowering {
 public:
  // `memory` outlives this.
  explicit CodeLowering(const SlotMemory& memory) : m_(memory) {}

  bool is_code(const Step& s) const;
  Instruction instruction(const Step& s) const;
  CodeStep code_step(const Step& s) const;

 private:
  const Step* made_here(const Step& s) const;
  void set_encode(const Step& s, CodeStep& result) const;
  void set_sum_residual(const Step& s, CodeStep& result) const;
  std::pair<std::uint32_t, std::uint64_t> place_in_input(std::uint64_t chunk) const;

  const SlotMemory& m_;
};

}  // namespace holdfast::comm

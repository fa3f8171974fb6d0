// The memory of lowerings and of their programs, kept from one to the next.
#include <algorithm>

#include "comm/engine/program.h"

namespace holdfast::comm {

// A rank of little weight would need much, and may have more weight in the next op: it takes no
// more than twice what a rank of usual weight takes. One without weight can bring nothing in.
float Arithmetic::times_in_input() const {
  if (!weighing) return static_cast<float>(contributors);
  if (weighing->scale == 0) return 0;
  const double most = 2.0 * contributors;
  return static_cast<float>(std::min(weighing->total / weighing->scale, most));
}

void Program::clear() {
  instructions.clear();
  deps.clear();
  codes.clear();
  codec.reset();
  frame_bytes.clear();
  unpacked = {};
  scratch = {};
  sends.clear();
  recvs.clear();
}

Program LoweringSpace::take() {
  if (spares.empty()) return {};
  Program program = std::move(spares.back());
  spares.pop_back();
  return program;
}

void LoweringSpace::give(Program program) {
  if (spares.size() == kMostSpares) return;
  program.clear();
  spares.push_back(std::move(program));
}

}  // namespace holdfast::comm

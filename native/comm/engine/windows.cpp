#include "comm/engine/windows.h"

#include <algorithm>

#include "comm/engine/path_room.h"

namespace holdfast::comm {
namespace {

// The receive whose bytes stream through this chunk on their way to another rank; null: none do.
const Step* streams_from(const Streams& s, std::size_t chunk) {
  const auto step = [&](int i) { return &s.schedule.steps[static_cast<std::size_t>(i)]; };
  const ScratchUse& use = s.uses[chunk];
  if (!use.passes_once() || s.schedule.scratch[chunk].form != Form::kPlain) return nullptr;
  if (step(use.consumer)->kind != StepKind::kSend) return nullptr;
  if (step(use.producer)->kind == StepKind::kRecv) return step(use.producer);
  const int fused = s.fed_by[static_cast<std::size_t>(use.producer)];
  return fused >= 0 ? step(fused) : nullptr;
}

// `most`: by how much one window may be wider than kNearRoom.
void widen(const Streams& s, std::uint64_t most, std::vector<std::uint64_t>& window) {
  for (std::size_t chunk = 0; chunk < window.size(); ++chunk) {
    if (window[chunk] == 0) continue;
    const Rank sender = streams_from(s, chunk)->peer;
    const Link& from = *(*s.links)[static_cast<std::size_t>(sender.value)];
    const std::uint64_t more = std::min(path_room(from.measured()) - kNearRoom, most);
    const std::uint64_t room = kNearRoom + more / kNearRoom * kNearRoom;
    window[chunk] = s.scratch[chunk] * s.element_bytes > room ? room : 0;
  }
}

}  // namespace

void find_windows(const Streams& s, std::vector<std::uint64_t>& window) {
  std::uint64_t streams = 0;
  for (std::size_t chunk = 0; chunk < window.size(); ++chunk) {
    if (s.scratch[chunk] * s.element_bytes <= kNearRoom) continue;
    if (streams_from(s, chunk) == nullptr) continue;
    window[chunk] = kNearRoom;
    ++streams;
  }
  if (streams > 0 && s.links != nullptr) widen(s, kMostWidening / streams, window);
}

}  // namespace holdfast::comm

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

void widen(const Streams& s, std::uint64_t streams, std::vector<std::uint64_t>& window) {
  for (std::size_t chunk = 0; chunk < window.size(); ++chunk) {
    if (window[chunk] == 0) continue;
    const Rank sender = streams_from(s, chunk)->peer;
    const std::uint64_t room = room_towards(sender, s.links, streams);
    window[chunk] = s.scratch[chunk] * s.element_bytes > room ? room : 0;
  }
}

}  // namespace

std::uint64_t room_towards(Rank peer, const std::vector<Link*>* links, std::uint64_t streams) {
  if (links == nullptr) return kNearRoom;
  const Link& to = *(*links)[static_cast<std::size_t>(peer.value)];
  const std::uint64_t more =
      std::min(path_room(to.measured()) - kNearRoom, kMostWidening / streams);
  return kNearRoom + more / kNearRoom * kNearRoom;
}

void find_windows(const Streams& s, std::vector<std::uint64_t>& window) {
  std::uint64_t streams = 0;
  for (std::size_t chunk = 0; chunk < window.size(); ++chunk) {
    if (s.scratch[chunk] * s.element_bytes <= kNearRoom) continue;
    if (streams_from(s, chunk) == nullptr) continue;
    window[chunk] = kNearRoom;
    ++streams;
  }
  if (streams > 0 && s.links != nullptr) widen(s, streams, window);
}

}  // namespace holdfast::comm

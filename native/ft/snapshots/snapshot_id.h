// Snapshot id: which snapshot. Its epoch is that of the keepers' group that made it, one more than
// any that its keepers, or the files they found, had seen: after a return to an older step, the new
// epoch's snapshots are the newer ones, whatever their steps.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

#include "ft/digest.h"

namespace holdfast::ft {

struct SnapshotId {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  constexpr auto operator<=>(const SnapshotId&) const = default;
};

inline std::string to_text(const SnapshotId& id) {
  return "step " + std::to_string(id.step) + " (epoch " + std::to_string(id.epoch) + ")";
}

// Names the contents of a whole snapshot: of each rank the hash of its body's hashes.
inline std::uint64_t snapshot_digest(const SnapshotId& id, std::span<const std::uint64_t> parts) {
  Digest digest;
  digest.mix(id.epoch);
  digest.mix(id.step);
  digest.mix(parts.size());
  for (const std::uint64_t part : parts) digest.mix(part);
  return digest.value();
}

}  // namespace holdfast::ft

#include "comm/engine/area_room.h"

#include <array>

#include "base/check.h"
#include "comm/engine/host_area.h"

namespace holdfast::comm {
namespace {

// Names of no group: a place that was never taken, or was freed with nothing behind it; and one
// that was freed, where looks go on.
constexpr std::uint64_t kEmpty = 0;
constexpr std::uint64_t kFreed = 1;
// Instead of the number of an area. And a bit beside it.
constexpr std::uint32_t kNone = 0xffff;
constexpr std::uint32_t kSeen = 0x1'0000;
static_assert(kRoomAreas < kNone);

struct LeasePlace {
  std::atomic<std::uint64_t> group;
  std::atomic<std::uint32_t> area;
};
struct LeaseTable {
  LeasePlace places[kLeasePlaces];
};

constexpr std::size_t kPage = 4096;
constexpr std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
constexpr std::size_t kTableAt = pages(sizeof(HostArea));
constexpr std::size_t kFirstAreaAt = kTableAt + pages(sizeof(LeaseTable));
constexpr std::size_t kAreaBytes = pages(sizeof(HostArea));
constexpr std::size_t kSegmentBytes = kFirstAreaAt + kRoomAreas * kAreaBytes;
constexpr const char* kPurpose = "room";

LeaseTable& table_of(const Segment& segment) {
  return *reinterpret_cast<LeaseTable*>(segment.data() + kTableAt);
}

std::size_t home(CommId group) { return static_cast<std::size_t>(group.value) % kLeasePlaces; }
std::size_t next(std::size_t place) { return (place + 1) % kLeasePlaces; }
std::size_t before(std::size_t place) { return (place + kLeasePlaces - 1) % kLeasePlaces; }
std::size_t offset_of(std::size_t area) { return kFirstAreaAt + area * kAreaBytes; }

// An area says nothing to the members of a new group: its counters may be those of a group that had
// it before, in the same view.
void clear(HostArea& area) {
  const auto zero = [](auto&... counters) {
    // relaxed: the lease that is written next announces them
    (counters.store(0, std::memory_order_relaxed), ...);
  };
  // The flat exchange has its part at the area's begin.
  auto& flat = *reinterpret_cast<FlatArea*>(&area);
  for (auto& half : flat.halves) zero(half.posted);
  for (SliceArea& lane : area.slices) {
    for (auto& half : lane.halves) {
      zero(half.begun, half.ended, half.withdrawn, half.staged, half.reduced, half.pulled);
    }
  }
}

}  // namespace

Result<Segment> AreaRoom::create() {
  const std::array<Segment::SegmentPart, 1> first{Segment::SegmentPart{0, kFirstAreaAt}};
  return Segment::create_growing(kPurpose, kSegmentBytes, first);
}

Result<Segment> AreaRoom::open(const std::string& name) {
  return Segment::open(name, kSegmentBytes);
}

bool AreaRoom::is_name_of(const std::string& name) {
  return name.find(std::string(".") + kPurpose + ".") != std::string::npos;
}

bool AreaRoom::has_room(const Segment& segment) { return segment.size() == kSegmentBytes; }

Lease AreaRoom::find(const Segment& segment, CommId group) {
  LeaseTable& table = table_of(segment);
  std::size_t at = home(group);
  for (std::size_t looks = 0; looks < kLeasePlaces; ++looks, at = next(at)) {
    LeasePlace& place = table.places[at];
    // acquire: the area's cleared counters
    const std::uint64_t found = place.group.load(std::memory_order_acquire);
    if (found == kEmpty) break;
    if (found != group.value) continue;
    const std::uint32_t area = place.area.load(std::memory_order_acquire);
    // The place may have changed hands between the two loads.
    if (place.group.load(std::memory_order_relaxed) != group.value) break;
    const bool has_seen = (area & kSeen) != 0;
    const std::uint32_t number = area & kNone;
    if (number >= kRoomAreas) return {Lease::LeaseState::kNoArea, 0, has_seen};
    return {Lease::LeaseState::kArea, offset_of(number), has_seen};
  }
  return {};
}

AreaRoom::AreaRoom(std::shared_ptr<Segment> segment, bool is_whole) : segment_(std::move(segment)) {
  CHECK(has_room(*segment_));
  free_.set();
  if (is_whole) grown_.set();
}

std::size_t AreaRoom::bytes() { return kSegmentBytes; }

Result<Lease> AreaRoom::take(CommId group) {
  CHECK(group.value > kFreed);
  if (leases_ >= kMostLeases) {
    return Status{Code::kConfigError, "more than " + std::to_string(kMostLeases) +
                                          " groups of this process are in use; close some"};
  }
  const auto area = take_area();
  LeaseTable& table = table_of(*segment_);
  std::size_t at = home(group);
  // relaxed: its own
  while (table.places[at].group.load(std::memory_order_relaxed) > kFreed) at = next(at);
  table.places[at].area.store(area ? static_cast<std::uint32_t>(*area) : kNone,
                              std::memory_order_relaxed);
  table.places[at].group.store(group.value, std::memory_order_release);
  // Others look for this lease after they have written theirs, or see it, or are seen.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ++leases_;
  if (!area) return Lease{Lease::LeaseState::kNoArea, 0, false};
  return Lease{Lease::LeaseState::kArea, offset_of(*area), false};
}

std::optional<std::size_t> AreaRoom::take_area() {
  for (std::size_t area = 0; area < kRoomAreas; ++area) {
    if (!free_[area]) continue;
    if (!grown_[area] && !segment_->grow({offset_of(area), kAreaBytes})) return std::nullopt;
    grown_.set(area);
    free_.reset(area);
    clear(*reinterpret_cast<HostArea*>(segment_->data() + offset_of(area)));
    return area;
  }
  return std::nullopt;
}

std::size_t AreaRoom::place_of(CommId group) const {
  const LeaseTable& table = table_of(*segment_);
  std::size_t at = home(group);
  // relaxed: its own
  while (table.places[at].group.load(std::memory_order_relaxed) != group.value) {
    CHECK(table.places[at].group.load(std::memory_order_relaxed) != kEmpty);
    at = next(at);
  }
  return at;
}

void AreaRoom::note_seen(CommId group) {
  std::atomic<std::uint32_t>& area = table_of(*segment_).places[place_of(group)].area;
  // release: it has read the tables before
  area.store(area.load(std::memory_order_relaxed) | kSeen, std::memory_order_release);
}

void AreaRoom::end(CommId group) {
  LeaseTable& table = table_of(*segment_);
  std::size_t at = place_of(group);
  // release: what this member read of others' areas, it has read before
  table.places[at].group.store(kFreed, std::memory_order_release);
  if (table.places[next(at)].group.load(std::memory_order_relaxed) == kEmpty) {
    // No look goes on behind these places.
    while (table.places[at].group.load(std::memory_order_relaxed) == kFreed) {
      table.places[at].group.store(kEmpty, std::memory_order_relaxed);
      at = before(at);
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  --leases_;
}

void AreaRoom::give_back(const Lease& lease) {
  if (lease.state != Lease::LeaseState::kArea) return;
  free_.set((lease.offset - kFirstAreaAt) / kAreaBytes);
}

}  // namespace holdfast::comm

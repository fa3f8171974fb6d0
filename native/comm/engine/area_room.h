// Area room: room in a process's shared segment for the areas of further groups, beside the one
// that the segment was made for, and a table that says which group has which. The other processes
// of the host have mapped the segment already, so that a group gets an area without a message: its
// owner writes the group's name into its table, and whoever wants to read the area looks there.
//
// An area is used again once no other member can still read it. Each member ends its lease when its
// own ops have ended. It looks for the others' leases after it has written its own, and an owner
// looks whether the others have ended theirs after it has ended its own, both behind full fences:
// of two members, one sees the other, so that nobody reads an area that another group got.
//
// Only the owner writes a table. What others read of it is not trusted.
// Thread: only the holder of the runtime.
// Why: docs/decisions/0138-groups-without-a-meeting.md
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/types.h"
#include "comm/transport/segment.h"

namespace holdfast::comm {

// Areas of further groups in a segment. Each takes memory when it is first used, and none is used
// where shared memory is short; groups beyond that go by messages.
inline constexpr std::size_t kRoomAreas = 16;
// Places of the table, a power of two. At most three of four are taken, so that a look is short.
inline constexpr std::size_t kLeasePlaces = 32 * 1024;
inline constexpr std::size_t kMostLeases = kLeasePlaces / 4 * 3;

// What a member's table says of a group.
struct Lease {
  enum class LeaseState : std::uint8_t {
    kAbsent,  // not yet, or not any more
    kNoArea,  // the member has no area for it
    kArea,
  };
  LeaseState state = LeaseState::kAbsent;
  std::size_t offset = 0;  // of the area, in the segment
  bool has_seen = false;   // the member knows all others' leases
};

class AreaRoom {
 public:
  // A new segment with an area at its begin, room behind it, and nothing leased.
  static Result<Segment> create();
  // As another process maps it.
  static Result<Segment> open(const std::string& name);
  // Whether a name is that of such a segment.
  static bool is_name_of(const std::string& name);
  static bool has_room(const Segment& segment);
  // What the owner of the segment says of the group.
  static Lease find(const Segment& segment, CommId group);

  // The owner's side. `segment`: from create(), or memory of bytes() that `is_whole` already.
  explicit AreaRoom(std::shared_ptr<Segment> segment, bool is_whole = false);
  static std::size_t bytes();

  // Writes the group into the table, with an area if there is one: at most one lease for each
  // group. kConfigError at kMostLeases.
  Result<Lease> take(CommId group);
  // Says that this member knows all others' leases of the group, and needs them in the tables no
  // more.
  void note_seen(CommId group);
  // Takes the group out of the table. Its area is kept until give_back().
  void end(CommId group);
  void give_back(const Lease& lease);
  // Areas that could be leased now, if there is memory for them.
  std::size_t free() const { return free_.count(); }

 private:
  std::optional<std::size_t> take_area();
  std::size_t place_of(CommId group) const;

  std::shared_ptr<Segment> segment_;  // owners: this, and the groups that use its areas
  std::bitset<kRoomAreas> free_;
  std::bitset<kRoomAreas> grown_;  // areas that have memory
  std::size_t leases_ = 0;
};

}  // namespace holdfast::comm

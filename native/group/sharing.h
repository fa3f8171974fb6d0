// Sharing: how the members of a group's view come to share memory after a late join. Each member
// makes an area of its own, offers it to all others, maps theirs, and says what it can do with
// them. The view uses what all of them can do. Every member hears that from every other, so all
// find the same; where a member was lost before all had heard it, no member could end an op that
// way.
//
// A notice says all that its sender knows, so a repeated one does no harm, and the next one makes
// good a lost one. A member that comes late asks the others to repeat theirs: their earlier notices
// may have come before it could hear them.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0116-shared-memory-after-an-arrival.md
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/engine/host_peer.h"
#include "ft/message.h"

namespace holdfast::group {

class Network;

// What the members of a view do with each other's memory, from least to most.
enum class SharedMemory : std::uint8_t {
  kUnknown,  // the members have not agreed
  kNone,
  kAreas,  // all have mapped all areas
  kReach,  // all have mapped all areas, and read each other's memory where it lies
};
inline constexpr int kSharedMemoryCount = 4;

// What rank `self` can do with `areas`, by rank of a view without gaps, its own included.
SharedMemory what_is_shared(const std::vector<comm::HostPeer>& areas, Rank self);

// Longer than any name that comm::Segment makes.
inline constexpr std::size_t kMaxAreaName = 256;

struct AreaNotice {
  std::string area;  // the sender's area; empty: it has none
  SharedMemory can = SharedMemory::kUnknown;
  bool asks = false;
  friend bool operator==(const AreaNotice&, const AreaNotice&) = default;
};

ft::Bytes encode(const AreaNotice& notice);
// kProtocolError for anything encode() does not make.
Result<AreaNotice> decode_area_notice(std::span<const std::byte> bytes);

// An area that this process has made.
struct OwnArea {
  std::string name;  // the others find the area by it
  comm::HostPeer peer;
};

class Sharing {
 public:
  // `network` outlives it.
  Sharing(CommId group, MemberId self, Network& network)
      : group_(group), self_(self), network_(network) {}

  // Begins for a view whose members, by rank and without gaps, have yet to agree.
  void begin(Epoch epoch, std::vector<MemberId> members);
  void stop();
  bool is_under_way() const { return !members_.empty(); }
  void hear(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  // What the members agreed on; nothing: some have not said yet what they can do.
  std::optional<SharedMemory> agreed() const;
  // The members that agreed() waits for.
  std::vector<MemberId> awaited() const;
  // The areas by rank, once the members have agreed on something.
  std::vector<comm::HostPeer> take_areas();

 private:
  void hear(std::size_t member, const AreaNotice& notice);
  void look();
  SharedMemory map_all();
  void say(MemberId to, bool asks);
  void say_to_all(bool asks);

  const CommId group_;
  const MemberId self_;
  Network& network_;
  Epoch epoch_;
  std::vector<MemberId> members_;                   // none: not under way
  std::size_t own_ = 0;                             // this member's rank among them
  std::vector<std::optional<AreaNotice>> notices_;  // by rank, own one included
  std::vector<comm::HostPeer> areas_;  // by rank; filled once this member has said what it can do
  comm::HostPeer own_area_;
  // For views that have not begun here: the latest notice of each member.
  std::map<MemberId, std::pair<Epoch, AreaNotice>> early_;
};

}  // namespace holdfast::group

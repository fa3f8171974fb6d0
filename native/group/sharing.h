// Sharing: how the members of a group's view come to share memory when somebody has come in. Each
// makes an area of its own and offers it to all others, maps theirs, and says what it can do with
// them. The view goes by what all of them can do, which every member hears from every other: so it
// is the same on all, or, where a member was lost before all had heard it, nobody could end an op
// that way.
//
// A notice says all that its sender knows, so that one may come twice, and one that was lost is
// made good by the next. A member that comes late asks the others to say theirs again: what they
// said before may have found nobody.
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
  kUnknown,  // they have not agreed
  kNone,
  kAreas,  // all have mapped all areas
  kReach,  // and read each other's memory where it lies
};
inline constexpr int kSharedMemoryCount = 4;

// By rank of a view without gaps, own one included.
SharedMemory what_is_shared(const std::vector<comm::HostPeer>& areas, Rank self);

// Longer than any name that comm::Segment makes.
inline constexpr std::size_t kMaxAreaName = 256;

struct AreaNotice {
  std::string area;  // the sender's; empty: it has none
  SharedMemory can = SharedMemory::kUnknown;
  bool asks = false;
  friend bool operator==(const AreaNotice&, const AreaNotice&) = default;
};

ft::Bytes encode(const AreaNotice& notice);
// kProtocolError for anything encode() does not make.
Result<AreaNotice> decode_area_notice(std::span<const std::byte> bytes);

// An area that this process has made.
struct OwnArea {
  std::string name;  // by which the others find it
  comm::HostPeer peer;
};

class Sharing {
 public:
  // `network` outlives it.
  Sharing(CommId group, MemberId self, Network& network)
      : group_(group), self_(self), network_(network) {}

  // For a view whose members, by rank and without gaps, have yet to agree.
  void begin(Epoch epoch, std::vector<MemberId> members);
  void stop();
  bool is_under_way() const { return !members_.empty(); }
  void hear(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  // Nothing: some have not said yet what they can do.
  std::optional<SharedMemory> agreed() const;
  // Whom that waits for.
  std::vector<MemberId> awaited() const;
  // By rank, when the members have agreed on something.
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
  std::vector<comm::HostPeer> areas_;               // likewise, from the own verdict on
  comm::HostPeer own_area_;
  // Of views that have not begun here: the latest notice of each member.
  std::map<MemberId, std::pair<Epoch, AreaNotice>> early_;
};

}  // namespace holdfast::group

// Route: which way a call goes, and what belongs to that: algorithm, codec, lane, pieces, how it
// ends. A pure function of the call and of what all its ranks know alike, so that all of them
// choose the same; nothing else chooses.
//
// It is asked in parts, each where a call comes by and what the part needs is known:
//
//   route_on_device()                     in call order, for the memory of a device (staged.h)
//   is_encoded_unasked(), is_planned(), ...       in call order, for all that run in the end on the
//   host route_in_view()                       when the op begins, by the view that it begins in
//
// route() is all parts in turn, for whoever wants to know what would happen.
//
// What one rank alone knows is no part of a route: whether its own thread may run an op inline, or
// whether its input lies in a pool that others can map. Those who know decide that by themselves,
// and nobody else sees it.
// Why: docs/decisions/0130-one-function-chooses-the-way.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "comm/algorithms/catalogue.h"
#include "comm/communicator.h"
#include "comm/engine/slice_exchange.h"
#include "comm/plan/plan_table.h"
#include "comm/plan/way.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {

// The largest result of an op that carries another one: with more, its bytes cost as much as the
// round that it saves.
inline constexpr std::uint64_t kCarriedBytes = 32 * 1024;
// Payload of an op that takes the lane for small ones.
inline constexpr std::uint64_t kSmallLaneBytes = 512 * 1024;
// Results up to this size are kept after their op has ended, so that it need not wait until all
// members hold theirs.
inline constexpr std::uint64_t kKeptBytes = 64 * 1024;
// The same in shared memory, where a round costs less than to copy the result.
inline constexpr std::uint64_t kKeptSliceBytes = 32 * 1024;

// How an op ends that could be cut off by a loss.
enum class OpEnding : std::uint8_t {
  kNothing,  // nobody could go on without it: no repair, or no other rank
  kSlots,    // all can read what the result is made of, and so can who lacks it
  kKept,     // each rank keeps its result a while, and serves it to who lacks it
  kRound,    // a round of words shows that all hold theirs
};

// Why a call goes as it does.
enum class Reason : std::uint8_t {
  kPredicted,      // by the cost model
  kMeasured,       // by the table of plans
  kNamed,          // by the caller
  kOption,         // by the option `algorithm`
  kEncoded,        // frames have algorithms of their own
  kSmall,          // for one host
  kOneHost,        // too large, or too uneven, for the flat exchange
  kPairReads,      // one look into the other's memory beats two copies
  kLoss,           // it goes on after one
  kDevicesReach,   // each other
  kDevicesEncode,  // before the bus
  kNoDeviceWay,    // that takes the collective, its blocks, or the group's hosts
  kDeviceSmall,    // fewer bytes than pay beyond the host
  kDisagreed,      // not all members' devices can do it
};

struct Plan {
  Way way = Way::kSchedule;
  const AlgorithmRow* algorithm = nullptr;  // kSchedule
  bool levels = false;                      // inside hosts, then between them
  const compress::Codec* codec = nullptr;   // of the request, or of the option; null: none
  std::optional<SliceLane> lane = {};       // kSlices
  // Frames that a block is cut into; kStaged: slices.
  int pieces = 1;
  OpEnding ending = OpEnding::kNothing;  // in a view
  std::optional<Collective> carried_as = {};
  Reason reason = Reason::kPredicted;
};

std::string_view ending_name(OpEnding ending);
// A word, and a sentence.
std::string_view reason_name(Reason reason);
std::string_view reason_text(Reason reason);

// What slices go through between the ranks of a view.
enum class SliceReach : std::uint8_t {
  kNothing,
  kAreas,   // shared memory
  kMemory,  // likewise, and each other's memory can be read
};

// What all members of a view know of it.
struct ViewFacts {
  int size = 1;
  // Where its ranks are; outlives the facts. Only ways over links ask.
  const topology::Fabric* fabric = nullptr;
  bool flat = false;  // all of them share areas of the flat exchange
  SliceReach slices = SliceReach::kNothing;
  bool protect = true;  // ops can be repaired when a member is lost
};

// The codec of the option `codec`.
struct CodecOption {
  std::shared_ptr<const compress::Codec> codec = nullptr;  // owners: as OpRequest's
  std::uint64_t least_bytes = 0;
};

// What all members know of the group's devices.
struct DeviceFacts {
  bool direct = false;  // ops may go past the host
  std::uint64_t direct_bytes = 0;
  bool encoded = false;  // devices may encode
  std::uint64_t encoded_bytes = 0;
  CodecOption codec = {};
  std::uint64_t slice_bytes = ~std::uint64_t{0};
  // Of all ranks of the group, vacant ones included.
  Placement place = {};
  Spread present = {};  // of those that were there at the last step boundary
  bool agreed = true;   // the devices can do what the plan asks, as far as is known
};

// The way of a call on device memory: kDirect, kTwoLevel, kEncoded or kStaged.
Plan route_on_device(const OpRequest& request, const DeviceFacts& facts);

// How a staged op is cut: `step` elements of each block at a time.
struct StagedCut {
  int pieces = 1;
  std::uint64_t step = 0;
  std::uint64_t most = 0;  // elements of the largest block
};
StagedCut staged_cut(const OpRequest& request, int size, std::uint64_t slice_bytes);

// Whether the option's codec carries a call that names none.
bool is_encoded_unasked(const OpRequest& request, const CodecOption& option);
// Whether a table of plans, and what is measured for it, chooses the algorithm.
bool is_planned(const OpRequest& request, const Placement& place);
// What the request is carried as, by a group of `size` ranks that shares no memory, and repairs.
std::optional<Collective> carried_as(const OpRequest& request, int size);

// The cost model's last answer in a view: ops mostly come again as they were.
struct LastAnswer {
  Collective collective{};
  std::uint64_t bytes = 0;
  const AlgorithmRow* row = nullptr;
};

// The part of what follows that shared memory alone decides: kFlat or kSlices; nothing: another
// way. Of any request, one that is not checked yet as well.
std::optional<Plan> route_in_memory(const OpRequest& request, const ViewFacts& view);

// The way of an op in its view, a request that is right: kFlat, kSlices, kSchedule or kRepair
// (`repair`). `last`: of the same view; or null.
Plan route_in_view(const OpRequest& request, const ViewFacts& view, bool repair = false,
                   LastAnswer* last = nullptr);

// All that the ranks of a call know alike.
struct RouteFacts {
  const DeviceFacts* devices = nullptr;  // null: the caller's memory is the host's
  CodecOption codec = {};
  const PlanTable* table = nullptr;  // null: none
  std::string_view algorithm;        // the option
  Placement place = {};
  ViewFacts view = {};
  bool repair = false;
};

// The slices of a call that is staged are routed by themselves, without the devices.
Plan route(const OpRequest& request, const RouteFacts& facts);

}  // namespace holdfast::comm

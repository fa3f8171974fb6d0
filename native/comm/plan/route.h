// Route: which way a call goes, and what that way needs: algorithm, codec, lane, pieces, how the op
// ends. A pure function of the call and of what all its ranks know alike, so that all of them
// choose the same; nothing else chooses.
//
// Its parts are called one by one, each where a call passes and the facts for that part are known:
//
//   route_on_device()      in call order, for calls on device memory (device_comm/staged.h)
//   is_encoded_unasked(),
//   is_planned(), ...      in call order, for all ops that in the end run on the host
//   route_in_view()        when the op begins, by the view that it begins in
//
// route() is all parts in turn, for callers that want to know what would happen.
//
// What only one rank knows is not part of a route: whether its own thread may run an op inline, or
// whether its input lies in a pool that others can map. Such a rank decides that alone, and no
// other rank sees it.
// Why: docs/decisions/0130-one-function-chooses-the-way.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/engine/slice_exchange.h"
#include "comm/plan/map_plans.h"
#include "comm/plan/plan_table.h"
#include "comm/plan/way.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {

// Largest result of a replicated op: above it, its bytes cost as much as the round that it saves.
inline constexpr std::uint64_t kReplicatedBytes = 32 * 1024;
// Largest payload of an op that takes the lane for small ops.
inline constexpr std::uint64_t kSmallLaneBytes = 512 * 1024;
// Results up to this size are kept after their op has ended, so that the op need not wait until all
// members hold theirs.
inline constexpr std::uint64_t kKeptBytes = 64 * 1024;
// The same limit in shared memory, where a round costs less than copying the result.
inline constexpr std::uint64_t kKeptSliceBytes = 32 * 1024;

// How an op that a loss could cut off ends.
enum class OpEnding : std::uint8_t {
  kNothing,  // nothing need be done: ops are not repaired, or there is no other rank
  kSlots,    // every rank can read what the result is made of, also one that lacks it
  kKept,     // each rank keeps its result a while, and serves it to ranks that lack it
  kRound,    // a round of messages shows that all hold their results
};

// Why a call goes as it does.
enum class Reason : std::uint8_t {
  kPredicted,      // by the cost model
  kMeasured,       // by the table of plans
  kNamed,          // by the caller
  kOption,         // by the option `algorithm`
  kEncoded,        // frames have algorithms of their own
  kSmall,          // small enough for the flat exchange on one host
  kOneHost,        // one host; too large, or too uneven, for the flat exchange
  kPairReads,      // one read of the other rank's memory beats two copies
  kLoss,           // the op goes on after a loss
  kDevicesReach,   // devices reach each other
  kDevicesEncode,  // devices encode before the bus
  kNoDeviceWay,    // no device way takes the collective, its blocks, or the group's hosts
  kDeviceSmall,    // too few bytes to pay for bypassing the host
  kDisagreed,      // not all members' devices can do it
};
inline constexpr int kReasonCount = static_cast<int>(Reason::kDisagreed) + 1;  // the last one

struct Plan {
  Way way = Way::kSchedule;
  const AlgorithmRow* algorithm = nullptr;  // kSchedule
  bool levels = false;                      // two levels: inside hosts, then between them
  const compress::Codec* codec = nullptr;   // of the request, or of the option; null: none
  std::optional<SliceLane> lane = {};       // kSlices
  // Frames that a block is cut into; for kStaged: slices.
  int pieces = 1;
  OpEnding ending = OpEnding::kNothing;  // in a view
  std::optional<Collective> replicated_as = {};
  // Of the algorithm, where it goes by trees that are planned already; of the answers that the
  // route was given.
  const std::vector<topology::PlannedTree>* trees = nullptr;
  Reason reason = Reason::kPredicted;
};

std::string_view ending_name(OpEnding ending);
// A single word, and a sentence.
std::string_view reason_name(Reason reason);
std::string_view reason_text(Reason reason);

// What slices go through between the ranks of a view.
enum class SliceReach : std::uint8_t {
  kNothing,
  kAreas,   // shared memory
  kMemory,  // shared memory, and each other's memory can be read
};

// What all members of a view know of it.
struct ViewFacts {
  int size = 1;
  // Where the view's ranks are; outlives the facts. Only ways over links use it.
  const topology::Fabric* fabric = nullptr;
  bool flat = false;  // all members share areas of the flat exchange
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
  bool direct = false;  // ops may bypass the host
  std::uint64_t direct_bytes = 0;
  bool encoded = false;  // devices may encode
  std::uint64_t encoded_bytes = 0;
  CodecOption codec = {};
  std::uint64_t slice_bytes = ~std::uint64_t{0};
  // Placement of all ranks of the group, vacant ones included.
  Placement place = {};
  Spread present = {};  // spread of the ranks that were present at the last step boundary
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

// Whether an algorithm of this name would do for the call: a call that names none takes the
// option's.
bool takes_algorithm(const OpRequest& request, std::string_view algorithm);
// Whether the option's codec encodes a call that names none.
bool is_encoded_unasked(const OpRequest& request, const CodecOption& option);
// Whether a table of plans, and what is measured for it, chooses the algorithm.
bool is_planned(const OpRequest& request, const Placement& place);
// The collective of the replicated op for the request, in a group of `size` ranks that shares no
// memory and repairs; nothing: none.
std::optional<Collective> replicated_as(const OpRequest& request, int size);

// The cost model's last answer in a view: ops are mostly repeated. And what its group has planned
// on maps; or null.
struct LastAnswer {
  Collective collective{};
  std::uint64_t bytes = 0;
  bool in_rank_order = false;
  const AlgorithmRow* row = nullptr;
  MapPlans* on_map = nullptr;
};

// The part of route_in_view() that shared memory alone decides: kFlat or kSlices; nothing: another
// way. For any request, also one that is not checked yet.
std::optional<Plan> route_in_memory(const OpRequest& request, const ViewFacts& view);

// The way of an op with a checked request in its view: kFlat, kSlices, kSchedule or, with `repair`,
// kRepair. `last`: of the same view; or null.
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

// The slices of a staged call are routed on their own, without the devices.
Plan route(const OpRequest& request, const RouteFacts& facts);

}  // namespace holdfast::comm

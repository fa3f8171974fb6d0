#include "comm/plan/route.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "comm/call/request_check.h"
#include "comm/engine/flat_exchange.h"
#include "comm/reduce/device_reduce.h"
#include "compress/device/stages.h"

namespace holdfast::comm {
namespace {

// Between two ranks, one system call costs less than two more copies of a larger input.
constexpr std::uint64_t kPairBytes = 32 * 1024;

// Slices of a staged op begin at a multiple of this many elements.
constexpr std::uint64_t kSliceAlignment = 1024;

struct ReasonRow {
  Reason reason{};
  std::string_view name;
  std::string_view text;
};

constexpr std::array kReasons{
    ReasonRow{Reason::kPredicted, "predicted", "the cost model predicts it to be fastest"},
    ReasonRow{Reason::kMeasured, "measured", "it is the fastest in the table of plans"},
    ReasonRow{Reason::kNamed, "named", "the call names its algorithm"},
    ReasonRow{Reason::kOption, "option", "the option algorithm names it"},
    ReasonRow{Reason::kEncoded, "encoded", "a call with a codec has an algorithm of its own"},
    ReasonRow{Reason::kSmall, "small", "one host, and small enough for all to read all"},
    ReasonRow{Reason::kOneHost, "one host", "one host, and too much for all to read all"},
    ReasonRow{Reason::kPairReads, "pair",
              "one host, and between two ranks one read beats two copies"},
    ReasonRow{Reason::kLoss, "loss", "a loss cut the call off, and this is left of it"},
    ReasonRow{Reason::kDevicesReach, "reach", "the devices reach each other's memory"},
    ReasonRow{Reason::kDevicesEncode, "encode", "the devices encode before the bus"},
    ReasonRow{Reason::kNoDeviceWay, "no other", "no way past the host takes such a call"},
    ReasonRow{Reason::kDeviceSmall, "small", "too few bytes for a way past the host"},
    ReasonRow{Reason::kDisagreed, "disagreed", "not all members' devices can do without the host"},
};

static_assert(kReasons.size() == kReasonCount);

constexpr std::array<std::string_view, 4> kEndings{"nothing", "slots", "kept", "round"};

const ReasonRow& row_of(Reason reason) { return kReasons[static_cast<std::size_t>(reason)]; }

bool goes_direct(const OpRequest& request) {
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kBroadcast: return true;
    case Collective::kAllToAll: return request.equal_blocks;
    default: return false;
  }
}

bool goes_in_levels(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast: return true;
    default: return false;
  }
}

// Devices make frames of one size only.
bool has_one_frame_size(const OpRequest& request) {
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast: return true;
    case Collective::kAllToAll: return request.equal_blocks;
    case Collective::kReduceScatter:
    case Collective::kAllGather: break;
    default: return false;
  }
  const bool own_input = has_own_input(request.collective);
  const std::uint64_t own = (own_input ? request.input : request.output)[0].count;
  const BlockList& all = own_input ? request.output : request.input;
  return std::all_of(all.begin(), all.end(), [&](const Block& b) { return b.count == own; });
}

// The way from device to device, by what all ranks know alike; nothing: there is none.
std::optional<Way> way_between_devices(const OpRequest& request, const DeviceFacts& facts) {
  if (!facts.direct || request.codec || !request.algorithm.empty()) return std::nullopt;
  if (request.weight) return std::nullopt;  // inputs are scaled on the host
  if (payload_bytes(request) < facts.direct_bytes) return std::nullopt;
  if (reduces(request.collective)) {
    // Devices fold in orders of their own; on the host all ways keep that of ranks, or can.
    if (request.keeps_order() || !reduces_on_device(request.dtype, request.op)) return std::nullopt;
  }
  if (facts.place.hosts > 1) {
    const bool takes = goes_in_levels(request.collective) && has_levels(facts.present);
    return takes ? std::optional(Way::kTwoLevel) : std::nullopt;
  }
  const bool takes = goes_direct(request) && facts.place.ranks > 1;
  return takes ? std::optional(Way::kDirect) : std::nullopt;
}

// The codec that devices encode the call with; null: they do not.
const compress::Codec* codec_on_devices(const OpRequest& request, const DeviceFacts& facts) {
  if (!facts.encoded || !has_one_frame_size(request) || !request.algorithm.empty()) return nullptr;
  if (request.keeps_order() || request.weight) return nullptr;
  if (facts.place.ranks < 2 || payload_bytes(request) < facts.encoded_bytes) return nullptr;
  const compress::Codec* codec = request.codec.get();
  if (is_encoded_unasked(request, facts.codec)) codec = facts.codec.codec.get();
  if (codec == nullptr || codec->spec().lossless) return nullptr;
  CHECK(codec->spec().fixed_size);
  if (!compress::has_stages(*codec).is_ok()) return nullptr;
  // Hosts with several ranks sum up first, and send their frames once.
  const bool sums_up_first = has_levels({facts.place.ranks, facts.place.hosts}) &&
                             request.collective == Collective::kAllReduce &&
                             request.residual.empty();
  return sums_up_first ? nullptr : codec;
}

Reason why_staged(const OpRequest& request, const DeviceFacts& facts) {
  const std::uint64_t bytes = payload_bytes(request);
  const bool small = (facts.direct && bytes < facts.direct_bytes) ||
                     (facts.encoded && request.codec && bytes < facts.encoded_bytes);
  if (small) return Reason::kDeviceSmall;
  return request.algorithm.empty() ? Reason::kNoDeviceWay : Reason::kNamed;
}

// Elements of an op, if all ranks know them alike; none: they do not.
struct KnownSize {
  std::uint64_t all = 0;   // of all blocks
  std::uint64_t most = 0;  // of the largest one
};

KnownSize known_size(const OpRequest& request, int ranks) {
  const auto side = common_side(request.collective, request.equal_blocks);
  if (side == CommonSide::kNone) return {};
  const BlockList& blocks = side == CommonSide::kInput ? request.input : request.output;
  // Where only the root has blocks for every rank, the others count them by their own.
  if (is_rooted(request.collective) && has_blocks_by_rank(request.collective)) {
    if (!request.equal_blocks || blocks.size() != 1) return {};
    return {blocks[0].count * static_cast<std::uint64_t>(ranks), blocks[0].count};
  }
  KnownSize size;
  for (const Block& block : blocks) {
    size.all += block.count;
    size.most = std::max(size.most, block.count);
  }
  return size;
}

bool reads_memory(const OpRequest& request, const ViewFacts& view) {
  return SliceExchange::exposes(request.collective, view.size, view.slices == SliceReach::kMemory);
}

bool reads_beat_flat(const OpRequest& request, const ViewFacts& view, std::uint64_t bytes) {
  return view.size == 2 && bytes > kPairBytes && reads_memory(request, view);
}

// Not all ranks know the sizes of blocks that differ by rank.
SliceLane lane_of(const OpRequest& request, std::uint64_t bytes) {
  const bool small = is_sized_alike(request) && bytes <= kSmallLaneBytes;
  return small ? SliceLane::kSmall : SliceLane::kBulk;
}

// Frames of a block, by what all ranks know.
int frames_of(const OpRequest& request, int size) {
  if (!request.codec || !is_sized_alike(request)) return 1;
  if (!has_blocks_by_rank(request.collective)) {
    return two_phase_pieces(request.input[0].count / static_cast<std::uint64_t>(size));
  }
  const bool by_output = has_own_input(request.collective);
  std::uint64_t most = 0;
  for (const Block& b : by_output ? request.output : request.input) most = std::max(most, b.count);
  return two_phase_pieces(most);
}

const AlgorithmRow& predicted(const OpRequest& request, const ViewFacts& view, std::uint64_t bytes,
                              LastAnswer* last) {
  const bool ordered = request.keeps_order();
  if (last != nullptr && last->row != nullptr && last->collective == request.collective &&
      last->bytes == bytes && last->in_rank_order == ordered) {
    return *last->row;
  }
  const AlgorithmRow& row = choose_algorithm({request.collective, bytes, *view.fabric, ordered});
  if (last != nullptr) *last = {request.collective, bytes, ordered, &row, last->on_map};
  return row;
}

// By what the rows cost on the view's map.
void choose_on_map(Plan& plan, const Problem& problem, LastAnswer* last) {
  if (last == nullptr || last->on_map == nullptr) {
    plan.algorithm = &choose_algorithm(problem);
    return;
  }
  const MapCandidate& best = cheapest(last->on_map->of(problem), problem.bytes);
  plan.algorithm = best.row;
  plan.trees = best.trees.get();
}

void choose_row(Plan& plan, const OpRequest& request, const ViewFacts& view, std::uint64_t bytes,
                LastAnswer* last) {
  const Rank root = is_rooted(request.collective) ? request.root : Rank{};
  const Problem problem{request.collective, bytes, *view.fabric, request.keeps_order(), root};
  if (request.codec) {
    const bool levels = view.fabric->wide_level().has_value();
    plan.algorithm = request.algorithm.empty()
                         ? &choose_encoded(request.collective, levels, !request.residual.empty())
                         : find_encoded(request.collective, request.algorithm);
    plan.pieces = frames_of(request, view.size);
    plan.reason = request.algorithm.empty() ? Reason::kEncoded : Reason::kNamed;
  } else if (request.algorithm.empty() && goes_by_map(problem)) {
    choose_on_map(plan, problem, last);
  } else if (request.algorithm.empty()) {
    plan.algorithm = &predicted(request, view, bytes, last);
  } else {
    plan.algorithm = find_algorithm(request.collective, request.algorithm);
    plan.reason = Reason::kNamed;
  }
  plan.levels = plan.algorithm->level_cost != nullptr || plan.algorithm->sums_up_in_domains;
}

// Depends on the op alone, so that it is the same on every member: all of them take part in a
// round.
OpEnding ending_of(const Plan& plan, const OpRequest& request, const ViewFacts& view,
                   std::uint64_t bytes) {
  // Where the caller's memory is exposed, the round tells when it no longer is.
  if (plan.way == Way::kSlices && reads_memory(request, view)) return OpEnding::kRound;
  if (!view.protect || view.size == 1) return OpEnding::kNothing;
  const std::uint64_t most = plan.way == Way::kSlices ? kKeptSliceBytes : kKeptBytes;
  const bool keeps = plan.way != Way::kRepair && bytes <= most && is_replicated(request.collective);
  return keeps ? OpEnding::kKept : OpEnding::kRound;
}

bool goes_in_memory(Plan& plan, const OpRequest& request, const ViewFacts& view,
                    std::uint64_t bytes) {
  const bool free = request.algorithm.empty();
  const bool may_be_flat = view.flat && (free || request.algorithm == "flat") &&
                           FlatExchange::carries(request, view.size);
  const bool pair_reads = may_be_flat && free && reads_beat_flat(request, view, bytes);
  if (may_be_flat && !pair_reads) {
    plan.way = Way::kFlat;
    plan.ending = OpEnding::kSlots;
    plan.reason = free ? Reason::kSmall : Reason::kNamed;
    return true;
  }
  if (!free || view.slices == SliceReach::kNothing ||
      !SliceExchange::carries(request, view.size, view.slices == SliceReach::kMemory)) {
    return false;
  }
  plan.way = Way::kSlices;
  plan.lane = lane_of(request, bytes);
  plan.reason = pair_reads ? Reason::kPairReads : Reason::kOneHost;
  plan.ending = ending_of(plan, request, view, bytes);
  return true;
}

// The request of the replicated op, with blocks of its sizes and no memory.
OpRequest replicated_of(const OpRequest& request, Collective replicated, int size) {
  std::uint64_t count = 0;
  for (const Block& block : request.input) count += block.count;
  OpRequest carries = request;
  carries.collective = replicated;
  carries.input = {{nullptr, count}};
  carries.output.clear();
  const int blocks = has_output_blocks(replicated) ? size : 1;
  for (int r = 0; r < blocks; ++r) carries.output.push_back({nullptr, count});
  return carries;
}

}  // namespace

std::string_view ending_name(OpEnding ending) { return kEndings[static_cast<std::size_t>(ending)]; }

std::string_view reason_name(Reason reason) { return row_of(reason).name; }

std::string_view reason_text(Reason reason) { return row_of(reason).text; }

Plan route_on_device(const OpRequest& request, const DeviceFacts& facts) {
  Plan plan;
  plan.codec = request.codec.get();
  if (const auto way = way_between_devices(request, facts)) {
    plan.way = *way;
    plan.levels = way == Way::kTwoLevel;
    plan.reason = Reason::kDevicesReach;
  } else if (const compress::Codec* codec = codec_on_devices(request, facts)) {
    plan.way = Way::kEncoded;
    plan.codec = codec;
    plan.reason = Reason::kDevicesEncode;
  } else {
    plan.way = Way::kStaged;
    plan.reason = why_staged(request, facts);
  }
  if (plan.way != Way::kStaged && !facts.agreed) {
    plan = {.way = Way::kStaged, .codec = request.codec.get(), .reason = Reason::kDisagreed};
  }
  if (plan.way == Way::kStaged) {
    plan.pieces = staged_cut(request, facts.place.ranks, facts.slice_bytes).pieces;
  }
  return plan;
}

StagedCut staged_cut(const OpRequest& request, int size, std::uint64_t slice_bytes) {
  const KnownSize known = known_size(request, size);
  const std::uint64_t bytes = known.all * request.element_bytes();
  if (request.atomic || request.codec || bytes <= slice_bytes) return {1, known.most, known.most};
  const std::uint64_t count = (bytes + slice_bytes - 1) / slice_bytes;
  const std::uint64_t even = (known.most + count - 1) / count;
  const std::uint64_t step = (even + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  return {static_cast<int>((known.most + step - 1) / step), step, known.most};
}

bool takes_algorithm(const OpRequest& request, std::string_view algorithm) {
  const AlgorithmRow* row = find_algorithm(request.collective, algorithm);
  return row != nullptr && (row->keeps_order() || !request.keeps_order());
}

bool is_encoded_unasked(const OpRequest& request, const CodecOption& option) {
  return request.codec == nullptr && option.codec != nullptr &&
         is_worth_coding(request, *option.codec, option.least_bytes);
}

bool is_planned(const OpRequest& request, const Placement& place) {
  // No measurement is for the calls of a newcomer on its way in; frames have one way.
  // A measured algorithm may fold in any order.
  if (!request.algorithm.empty() || request.how.at_entrance || request.codec) return false;
  if (request.keeps_order()) return false;
  if (!is_sized_alike(request)) return false;
  // As a replicated op it is faster than with any algorithm of its own.
  return place.shared || !replicated_as(request, place.ranks);
}

std::optional<Collective> replicated_as(const OpRequest& request, int size) {
  if (request.codec || !request.algorithm.empty() || size == 1) return std::nullopt;
  if (request.how.on_device) return std::nullopt;  // the input may still be on its way
  const bool sums = request.collective == Collective::kReduceScatter;
  const bool swaps = request.collective == Collective::kAllToAll && request.equal_blocks;
  if (!sums && !swaps) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const Block& block : request.input) bytes += block.count * request.element_bytes();
  if (swaps) bytes *= static_cast<std::uint64_t>(size);
  if (bytes > kReplicatedBytes) return std::nullopt;
  return sums ? Collective::kAllReduce : Collective::kAllGather;
}

std::optional<Plan> route_in_memory(const OpRequest& request, const ViewFacts& view) {
  Plan plan;
  return goes_in_memory(plan, request, view, payload_bytes(request)) ? std::optional(plan)
                                                                     : std::nullopt;
}

Plan route_in_view(const OpRequest& request, const ViewFacts& view, bool repair, LastAnswer* last) {
  Plan plan;
  const std::uint64_t bytes = payload_bytes(request);
  if (!repair && goes_in_memory(plan, request, view, bytes)) return plan;
  plan.codec = request.codec.get();
  if (repair) {
    plan.way = Way::kRepair;
    plan.reason = Reason::kLoss;
  } else {
    choose_row(plan, request, view, bytes, last);
  }
  plan.ending = ending_of(plan, request, view, bytes);
  return plan;
}

Plan route(const OpRequest& request, const RouteFacts& facts) {
  if (facts.devices != nullptr) return route_on_device(request, *facts.devices);
  OpRequest call = request;
  std::optional<Reason> reason;
  if (is_encoded_unasked(call, facts.codec)) call.codec = facts.codec.codec;
  if (facts.table != nullptr && is_planned(call, facts.place)) {
    const auto found = facts.table->find({call.collective, facts.place}, payload_bytes(call), true);
    if (found) reason = Reason::kMeasured;
    if (found && *found != kSharedMemory) call.algorithm = *found;
  }
  const bool by_option = call.algorithm.empty() && !call.codec && !facts.algorithm.empty() &&
                         takes_algorithm(call, facts.algorithm);
  if (by_option) {
    reason = Reason::kOption;
    call.algorithm = facts.algorithm;
  }
  std::optional<Collective> replicated;
  if (facts.view.protect && !facts.place.shared)
    replicated = replicated_as(call, facts.place.ranks);
  if (replicated) call = replicated_of(call, *replicated, facts.place.ranks);
  Plan plan = route_in_view(call, facts.view, facts.repair);
  plan.replicated_as = replicated;
  if (reason && !replicated && !facts.repair) plan.reason = *reason;
  return plan;
}

}  // namespace holdfast::comm

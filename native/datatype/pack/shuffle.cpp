#include "datatype/pack/shuffle.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace holdfast::datatype {
namespace {

constexpr std::uint64_t kMostTerms = 6;
constexpr std::uint64_t kMostChunks = 8;
constexpr unsigned char kNoByte = 0x80;

struct MovedByte {
  std::int64_t source;
  std::int64_t target;
};

std::vector<MovedByte> moves(const PackRecord& record, std::uint64_t records, bool packs) {
  std::vector<MovedByte> out;
  std::int64_t packed = 0;
  for (std::uint64_t r = 0; r < records; ++r) {
    for (const ByteBlock& block : record.blocks) {
      const std::int64_t at = static_cast<std::int64_t>(r) * record.stride + block.offset;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(block.length); ++i, ++packed) {
        out.push_back(packs ? MovedByte{at + i, packed} : MovedByte{packed, at + i});
      }
    }
  }
  return out;
}

// The windows of one vector's length that hold sorted places, each beginning at one of them.
std::vector<std::int64_t> windows(const std::vector<std::int64_t>& places, std::int64_t length) {
  std::vector<std::int64_t> out;
  for (const std::int64_t place : places) {
    if (out.empty() || place >= out.back() + length) out.push_back(place);
  }
  return out;
}

template <std::int64_t MovedByte::*kSide>
std::vector<std::int64_t> sorted(const std::vector<MovedByte>& bytes) {
  std::vector<std::int64_t> out;
  out.reserve(bytes.size());
  for (const MovedByte& byte : bytes) out.push_back(byte.*kSide);
  std::ranges::sort(out);
  return out;
}

// Fills the index of one term: where each lane's unit lies in its load.
class Indices {
 public:
  explicit Indices(const ShuffleForm& form) : form_(form) {}

  void begin(ShufflePlan& plan) const {
    const bool narrow = form_.vector == 16;
    plan.indices.insert(plan.indices.end(), form_.vector, narrow ? kNoByte : 0);
    plan.lanes.push_back(0);
  }
  void set(ShufflePlan& plan, std::uint64_t lane_byte, std::uint64_t byte) const {
    const std::uint64_t lane = lane_byte / form_.unit;
    plan.lanes.back() |= std::uint64_t{1} << lane;
    // A little-endian number as long as the unit.
    unsigned char* const index = plan.indices.data() + plan.indices.size() - form_.vector;
    index[lane * form_.unit] = static_cast<unsigned char>(byte / form_.unit);
  }

 private:
  const ShuffleForm& form_;
};

// One vector of the written side: those of `bytes` that lie in [target, target + vector).
bool add_chunk(ShufflePlan& plan, const ShuffleForm& form, const std::vector<MovedByte>& bytes,
               std::int64_t target) {
  const auto length = static_cast<std::int64_t>(form.vector);
  const Indices indices(form);
  std::vector<MovedByte> here;
  std::uint64_t keep = 0;
  for (const MovedByte& byte : bytes) {
    if (byte.target < target || byte.target >= target + length) continue;
    here.push_back(byte);
    keep |= std::uint64_t{1} << (static_cast<std::uint64_t>(byte.target - target) / form.unit);
  }
  const std::vector<std::int64_t> loads = windows(sorted<&MovedByte::source>(here), length);
  if (loads.size() > plan.terms) return false;
  plan.targets.push_back(target);
  plan.keep.push_back(keep);
  for (std::uint64_t t = 0; t < plan.terms; ++t) {
    // Terms that a chunk does not need load what it loads anyway.
    const std::int64_t load = t < loads.size() ? loads[t] : loads.front();
    plan.sources.push_back(load);
    plan.source_high = std::max(plan.source_high, load + length);
    indices.begin(plan);
    for (const MovedByte& byte : here) {
      if (t >= loads.size() || byte.source < load || byte.source >= load + length) continue;
      indices.set(plan, static_cast<std::uint64_t>(byte.target - target),
                  static_cast<std::uint64_t>(byte.source - load));
    }
  }
  return true;
}

std::optional<ShufflePlan> plan_of(const PackRecord& record, const ShuffleForm& form, bool packs,
                                   std::uint64_t records, std::uint64_t terms) {
  const auto length = static_cast<std::int64_t>(form.vector);
  const std::vector<MovedByte> bytes = moves(record, records, packs);
  const std::vector<std::int64_t> written = sorted<&MovedByte::target>(bytes);
  // Overlapping records are packed, but not unpacked, by shuffles.
  if (std::ranges::adjacent_find(written) != written.end()) return std::nullopt;
  ShufflePlan plan{.records = records, .terms = terms};
  for (const std::int64_t target : windows(written, length)) {
    if (++plan.chunks > kMostChunks || !add_chunk(plan, form, bytes, target)) return std::nullopt;
    plan.target_high = std::max(plan.target_high, target + length);
  }
  plan.loop = (packs ? form.pack : form.unpack)(plan.chunks, plan.terms);
  return plan;
}

bool is_whole(const PackRecord& record, std::uint64_t unit) {
  const auto whole = [&](auto n) { return n % static_cast<decltype(n)>(unit) == 0; };
  return whole(record.stride) && std::ranges::all_of(record.blocks, [&](const ByteBlock& block) {
           return whole(block.offset) && whole(block.length);
         });
}

// Costs per record in about cycles, as measured: permutations go one by one, and half as fast as
// narrow ones; stores of chosen bytes are slower than others; of blocks of a usual length more than
// one is loaded and stored at a time.
double cost(const ShufflePlan& plan, const ShuffleForm& form, bool packs) {
  const bool narrow = form.vector == 16;
  const double terms = (narrow ? 0.5 : 1.0) * static_cast<double>(plan.terms);
  const double store = packs ? 1 : narrow ? 1.5 : 3;
  const double more = plan.chunks == 1 ? 0 : 1;
  return static_cast<double>(plan.chunks) * (terms + store + more) /
         static_cast<double>(plan.records);
}

double cost(const PackRecord& record) {
  const double usual = record.blocks.size() == 1 ? 0.75 : 1;
  double sum = 0;
  for (const ByteBlock& block : record.blocks) {
    const bool twice = (block.length & (block.length - 1)) != 0;
    sum += block.length > 64 ? static_cast<double>(block.length) / 32 : twice ? 2 * usual : usual;
  }
  return sum;
}

// As many records as fit into one vector on the written side, one at least.
std::uint64_t most_records(const PackRecord& record, const ShuffleForm& form, bool packs) {
  if (packs) return std::max<std::uint64_t>(1, form.vector / record.size);
  const std::int64_t rest = static_cast<std::int64_t>(form.vector) - (record.high - record.low);
  if (rest < 0 || record.stride == 0) return 1;
  return 1 + static_cast<std::uint64_t>(rest / std::abs(record.stride));
}

// Where groups write, from record to record and from group to group.
struct GroupTarget {
  const std::byte* first;
  std::int64_t step;
  std::int64_t group_step;
};

// How many records to leave out so that every group begins a cache line, where that is possible: a
// vector across two lines is two stores.
std::int64_t records_before_line(const GroupTarget& target, std::uint64_t per_group) {
  constexpr std::int64_t kLine = 64;
  if (target.group_step % kLine != 0) return 0;
  const auto at = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target.first) % kLine);
  for (std::int64_t skip = 0; skip < static_cast<std::int64_t>(per_group); ++skip) {
    if ((at + skip * target.step) % kLine == 0) return skip;
  }
  return 0;
}

}  // namespace

std::shared_ptr<const ShufflePlan> shuffle_plan(const PackRecord& record,
                                                const PackKernels& kernels, bool packs) {
  constexpr double kGain = 1.25;  // what is less is within the error of these costs
  double least = cost(record) / kGain;
  std::optional<ShufflePlan> best;
  for (const ShuffleForm* form : {&kernels.narrow, &kernels.wide}) {
    if ((packs ? form->pack : form->unpack) == nullptr || !is_whole(record, form->unit)) continue;
    for (std::uint64_t records = most_records(record, *form, packs); records > 0; records /= 2) {
      for (std::uint64_t terms = 1; terms <= kMostTerms; ++terms) {
        std::optional<ShufflePlan> plan = plan_of(record, *form, packs, records, terms);
        if (!plan) continue;
        if (cost(*plan, *form, packs) < least) {
          least = cost(*plan, *form, packs);
          best = std::move(plan);
        }
        break;
      }
    }
  }
  return best ? std::make_shared<const ShufflePlan>(std::move(*best)) : nullptr;
}

ShuffledRecords shuffle_records(const ShufflePlan& plan, const PackRecord& record, bool packs,
                                std::uint64_t count, const std::byte* from, std::byte* to) {
  const auto many = static_cast<std::int64_t>(count);
  const auto per_group = static_cast<std::int64_t>(plan.records);
  const std::int64_t packed_step = per_group * static_cast<std::int64_t>(record.size);
  const std::int64_t strided_step = per_group * record.stride;
  // Vectors stay within the packed bytes of the run...
  const std::int64_t packed_high = packs ? plan.target_high : plan.source_high;
  const std::int64_t packed_room = many * static_cast<std::int64_t>(record.size) - packed_high;
  if (packed_room < 0) return {};
  std::int64_t first = 0;
  std::int64_t end = std::min(many / per_group, packed_room / packed_step + 1);
  // ...and loads below its highest strided byte; stores there are of chosen bytes.
  if (packs) {
    const std::int64_t high = std::max<std::int64_t>(0, (many - 1) * record.stride) + record.high;
    const std::int64_t room = high - plan.source_high;
    if (strided_step > 0) {
      end = room < 0 ? 0 : std::min(end, room / strided_step + 1);
    } else if (room < 0) {
      first = strided_step == 0 ? end : (room + strided_step + 1) / strided_step;
    }
  }
  if (end <= first) return {};
  const std::int64_t skip =
      records_before_line({to + (packs ? 0 : first * strided_step) + plan.targets.front(),
                           packs ? static_cast<std::int64_t>(record.size) : record.stride,
                           packs ? packed_step : strided_step},
                          plan.records);
  // Their places are taken from the end.
  if (skip != 0 && --end <= first) return {};
  const std::int64_t strided = first * strided_step + skip * record.stride;
  const std::int64_t packed = first * packed_step + skip * static_cast<std::int64_t>(record.size);
  plan.loop({from + (packs ? strided : packed), to + (packs ? packed : strided),
             static_cast<std::uint64_t>(end - first), packs ? strided_step : packed_step,
             packs ? packed_step : strided_step, plan.chunks, plan.terms, plan.targets.data(),
             plan.keep.data(), plan.sources.data(), plan.lanes.data(), plan.indices.data()});
  return {static_cast<std::uint64_t>(first) * plan.records + static_cast<std::uint64_t>(skip),
          static_cast<std::uint64_t>(end - first) * plan.records};
}

}  // namespace holdfast::datatype

#include "tables.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/plan/route.h"
#include "comm/plan/way.h"
#include "compress/codec.h"
#include "compress/device/stages.h"
#include "ft/quorum.h"
#include "group/judgement.h"
#include "health/families.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using Words = std::vector<std::string>;

// ---- codecs ----

Words names_of(const compress::CodecUses& uses) {
  Words names;
  const auto add = [&](bool used, const char* name) {
    if (used) names.emplace_back(name);
  };
  add(uses.block, "block");
  add(uses.rounding, "rounding");
  add(uses.grid, "grid");
  add(uses.sign_scale, "scale");
  add(uses.ratio, "ratio");
  add(uses.level, "level");
  add(uses.tier, "tier");
  return names;
}

// Whether a device encodes the codec as its default options have it. A build without libzstd has no
// zstd, and neither has a device.
bool has_kernels(std::string_view name) {
  const auto codec = compress::Codec::parse(name);
  return codec.is_ok() && compress::has_stages(codec.value()).is_ok();
}

// (name, lossless, takes a residual, all frames of one size, error bound, options used, dtypes,
// whether devices encode it, [(dtype, most bytes of a frame of 2^20 elements)]).
using CodecTuple = std::tuple<std::string_view, bool, bool, bool, std::string_view, Words, Words,
                              bool, std::vector<std::tuple<std::string, std::uint64_t>>>;

CodecTuple codec_row(const compress::CodecRow& row) {
  constexpr std::uint64_t kElements = 1 << 20;
  const compress::CodecSpec& spec = row.spec;
  const compress::Setup setup{spec.id, compress::default_options(spec.id), CpuLevel{}};
  Words dtypes;
  std::vector<std::tuple<std::string, std::uint64_t>> bytes;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!row.takes(dtype)) continue;
    dtypes.emplace_back(dtype_name(dtype));
    bytes.emplace_back(dtype_name(dtype), row.bound(setup, dtype, kElements));
  }
  return {spec.name,         spec.lossless,          spec.takes_residual,
          spec.fixed_size,   spec.error_bound,       names_of(spec.uses),
          std::move(dtypes), has_kernels(spec.name), std::move(bytes)};
}

std::vector<CodecTuple> codec_rows() {
  std::vector<CodecTuple> rows;
  for (const compress::CodecRow& row : compress::catalogue()) rows.push_back(codec_row(row));
  return rows;
}

// ---- algorithms and ways ----

// (name, collective, source, for calls with a codec, needs equal blocks, most bytes, works in two
// levels, is a ring, supports error feedback).
using AlgorithmTuple = std::tuple<std::string_view, std::string_view, std::string_view, bool, bool,
                                  std::optional<std::uint64_t>, bool, bool, bool>;

std::vector<AlgorithmTuple> algorithm_rows() {
  std::vector<AlgorithmTuple> rows;
  for (const bool encoded : {false, true}) {
    for (const comm::AlgorithmRow& row : encoded ? comm::encoded_catalogue() : comm::catalogue()) {
      std::optional<std::uint64_t> most;
      if (row.most_bytes != ~std::uint64_t{0}) most = row.most_bytes;
      rows.emplace_back(row.algorithm, comm::collective_name(row.collective), row.source, encoded,
                        row.blocks == comm::Blocks::kEqual, most,
                        row.level_cost != nullptr || row.sums_up_in_domains,
                        row.senders == comm::Senders::kRing, row.takes_residual);
    }
  }
  return rows;
}

// Pairs (name, what it does).
std::vector<std::tuple<std::string_view, std::string_view>> way_rows() {
  std::vector<std::tuple<std::string_view, std::string_view>> rows;
  for (const comm::WayRow& row : comm::kWays) rows.emplace_back(row.name, row.about);
  return rows;
}

// Pairs (word, sentence).
std::vector<std::tuple<std::string_view, std::string_view>> reason_rows() {
  std::vector<std::tuple<std::string_view, std::string_view>> rows;
  for (int i = 0; i < comm::kReasonCount; ++i) {
    const auto reason = static_cast<comm::Reason>(i);
    rows.emplace_back(comm::reason_name(reason), comm::reason_text(reason));
  }
  return rows;
}

// ---- metrics ----

std::string_view type_text(metrics::Type type) {
  switch (type) {
    case metrics::Type::kCounter: return "counter";
    case metrics::Type::kGauge: return "gauge";
    case metrics::Type::kHistogram: return "histogram";
    case metrics::Type::kInfo: return "info";
  }
  return "";
}

// (family, type, unit, help, labels, more) of what a rank serves, or a coordinator.
using MetricTuple = std::tuple<std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view, std::string_view>;

template <class Families>
std::vector<MetricTuple> metric_tuples(const Families& families) {
  std::vector<MetricTuple> rows;
  for (const metrics::Family* f : families) {
    rows.emplace_back(f->name, type_text(f->type), f->unit, f->help, f->labels, f->more);
  }
  return rows;
}

std::vector<MetricTuple> metric_rows(bool coordinator) {
  return coordinator ? metric_tuples(health::family::kOfCoordinators)
                     : metric_tuples(health::family::kOfRanks);
}

// ---- what a loss does to an op ----

// Of three ranks, the one in the middle is lost.
constexpr std::size_t kRanks = 3;
std::vector<Rank> all_ranks() { return {Rank{0}, Rank{1}, Rank{2}}; }
std::vector<Rank> survivors() { return {Rank{0}, Rank{2}}; }

// What callers see of an op that has this fate: "lost" (an error), "hole" (an error, or zeros where
// they are asked for), "without" (complete, and the lost rank's data is not in every part of it),
// or "complete". `ended`: nothing of it is left to begin.
std::string_view seen(const comm::OpRequest& call, const group::OpFate& fate, bool ended) {
  const bool refused =
      !ended && group::refusal(call, fate, survivors(), Status::ok(), Epoch{2}).has_value();
  if (refused) return "lost";
  if (!group::look_for_hole(call, fate, comm::OnHole::kRaise).is_ok()) return "hole";
  return fate.missing.empty() ? "complete" : "without";
}

// What a survivor reports that has the first half of every block of its result, if it is the first
// survivor, else the second; all of it; or none.
group::OpReport report_of(const comm::OpRequest& call, Rank self, const std::string& held) {
  group::OpReport report;
  report.sequence = OpSeq{1};
  report.complete = held == "all";
  const bool has_result = comm::has_result(call.collective, self == call.root);
  if (held != "halves" || !has_result || !comm::has_elements(call.collective)) return report;
  const ft::Ranges first({0, 1});
  const ft::Ranges half = self == survivors().front() ? first : first.complement();
  const bool own = call.collective == comm::Collective::kReduceScatter;
  const std::size_t blocks = comm::has_output_blocks(call.collective) ? kRanks : 1;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    report.held.push_back({own ? static_cast<std::uint32_t>(self.value) : b, half});
  }
  return report;
}

// What becomes of a collective when the rank is lost, by the functions that decide it for members
// (group/judgement.h). `held`: what each survivor has of its result when the view ends, "nothing",
// "halves" (each another half) or "all"; or "away": the rank was lost before the op began.
std::string_view fate_of(const std::string& name, int root, const std::string& held) {
  const auto collective = comm::find_collective(name);
  if (!collective) throw nb::value_error(("unknown collective: " + name).c_str());
  comm::OpRequest call;
  call.collective = *collective;
  call.root = Rank{root};
  if (held == "away") {
    return seen(call, group::fate_at_start(survivors(), kRanks, Epoch{2}), false);
  }
  group::Incident incident;
  incident.epoch = Epoch{2};
  incident.before = all_ranks();
  incident.survivors = survivors();
  for (const Rank survivor : survivors()) {
    incident.reports.emplace_back(report_of(call, survivor, held));
  }
  const group::OpFate before = group::fate_at_start(all_ranks(), kRanks, Epoch{1});
  group::OpStanding standing;
  standing.where = group::OpStanding::Where::kUnderWay;
  standing.complete = held == "all";
  standing.fate = &before;
  group::LossRules rules;
  rules.ranks = kRanks;
  const auto judged = group::judge(standing, group::question_of(call), rules, incident);
  return seen(call, judged.fate.value_or(before), judged.verdict == group::Verdict::kEndNoted);
}

// Whether the members of these ranks may decide the view after one of `view` members. `half`: who
// breaks a tie, "first" (the view's first member), "enough" (this coordinator) or "few" (nobody).
bool may_decide(std::uint64_t view, const std::vector<std::uint64_t>& staying, bool proven,
                bool recorded, const std::string& half) {
  ft::Vote vote;
  for (std::uint64_t rank = 0; rank < view; ++rank) vote.view.push_back(MemberId{rank + 1});
  for (const std::uint64_t rank : staying) vote.staying.push_back(MemberId{rank + 1});
  vote.all_proven = proven;
  vote.recorded = recorded;
  vote.half = half == "first"    ? ft::HalfOfView::kWithFirst
              : half == "enough" ? ft::HalfOfView::kEnough
                                 : ft::HalfOfView::kTooFew;
  return ft::may_decide(vote);
}

}  // namespace

void bind_tables(nb::module_& m) {
  m.def("codec_rows", codec_rows);
  m.def("algorithm_rows", algorithm_rows);
  m.def("way_rows", way_rows);
  m.def("reason_rows", reason_rows);
  m.def("metric_rows", metric_rows, "coordinator"_a);
  m.def("fate_of", fate_of, "collective"_a, "root"_a, "held"_a);
  m.def("may_decide", may_decide, "view"_a, "staying"_a, "proven"_a, "recorded"_a, "half"_a);
}

}  // namespace holdfast::bindings

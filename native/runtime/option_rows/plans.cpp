// Rows of the option table: what chooses the algorithm of a collective.
#include "base/fnv.h"
#include "comm/algorithms/catalogue.h"
#include "runtime/option_rows/rows.h"
#include "topology/link_map.h"

namespace holdfast::runtime {
namespace {

constexpr std::uint64_t kLongestMeasure = nanoseconds(std::chrono::minutes(10));

Status check_algorithm(const OptionRow& row, const Options& options) {
  if (options.algorithm.empty()) return Status::ok();
  std::string accepted(row.accepted);
  bool known = false;
  for (const comm::AlgorithmRow& algorithm : comm::catalogue()) {
    known = known || algorithm.algorithm == options.algorithm;
    if (accepted.find(algorithm.algorithm) == std::string::npos) {
      accepted += ", " + std::string(algorithm.algorithm);
    }
  }
  if (!known) return refuse_option(row, "\"" + options.algorithm + "\"", accepted);
  if (!options.tune && options.plan.empty()) return Status::ok();
  return refuse_option(row, "\"" + options.algorithm + "\" together with plan or tune",
                       "one of them: they choose the algorithm, too");
}

std::string agreed_algorithm(const Options& options, const comm::PlanTable&) {
  return options.algorithm.empty() ? "by itself" : options.algorithm;
}

Status check_plan(const OptionRow&, const Options& options) { return read_plan(options).status(); }

// A digest of the plan's text; equal plans have the same text.
std::string agreed_plan(const Options&, const comm::PlanTable& plan) {
  Fnv1a digest;
  digest.mix(plan.text());
  return plan.empty() ? "none" : std::to_string(digest.value());
}

Status check_topology(const OptionRow&, const Options& options) {
  return read_map(options).status();
}

std::string agreed_topology(const Options& options, const comm::PlanTable&) {
  const auto map = read_map(options);
  if (!map.is_ok() || map.value() == nullptr) return "";
  return std::to_string(map.value()->digest());
}

constexpr OptionRow kPlansRows[] = {
    {.name = "algorithm",
     .field = &Options::algorithm,
     .accepted = "empty (the cost model chooses)",
     .doc = "Algorithm to use wherever it has a row for the collective; empty: the cost model "
            "chooses.",
     .agreement = Agreement::kAlways,
     .check = check_algorithm,
     .agreed = agreed_algorithm},
    {.name = "plan",
     .field = &Options::plan,
     .accepted = "a file that `holdfast plan --measure` has written",
     .doc = "File with a table of plans, which says what algorithm is fastest where; empty: "
            "the cost model with its built-in constants.",
     .agreement = Agreement::kAlways,
     .check = check_plan,
     .agreed = agreed_plan},
    {.name = "topology",
     .field = &Options::topology,
     .accepted = "a file with a map of links, in JSON (docs/guide/topology.md)",
     .doc = "File with a map of the world's links, by which large all_reduce, broadcast and "
            "reduce between hosts go along weighted trees; empty: links count as alike.",
     .agreement = Agreement::kIfSet,
     .check = check_topology,
     .agreed = agreed_topology},
    {.name = "measure",
     .field = &Options::measure,
     .accepted = "more than 0, at most 600, in s; or 0 not to measure",
     .doc = "How long a group of several hosts measures its links as soon as it is complete, to "
            "agree on a map of them; of groups that Python or torch makes.",
     .agreement = Agreement::kIfSet,
     .least = 1,
     .most = kLongestMeasure,
     .or_zero = true},
    {.name = "tune",
     .field = &Options::tune,
     .accepted = "1 or 0",
     .doc = "Whether what the table of plans lacks is measured at its first use, and, with a "
            "file, written there.",
     .agreement = Agreement::kAlways},
};

}  // namespace

std::span<const OptionRow> plans_rows() { return kPlansRows; }

}  // namespace holdfast::runtime

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/cpu.h"
#include "base/dtype.h"
#include "codec.h"
#include "comm/algorithms/catalogue.h"
#include "comm/plan/plan_table.h"
#include "comm/plan/route.h"
#include "comm/transport/catalogue.h"
#include "comm/transport/frame.h"
#include "coordinator.h"
#include "group.h"
#include "health/flight_json.h"
#include "health/flight_recorder.h"
#include "raise.h"
#include "simulation.h"
#include "state/erasure.h"
#include "state/snapshots.h"
#include "tables.h"
#include "tokens.h"
#include "topology.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace holdfast;

// Rows of (name, collective, source, whether it is for calls with a codec).
std::vector<std::tuple<std::string, std::string, std::string, bool>> algorithms() {
  std::vector<std::tuple<std::string, std::string, std::string, bool>> rows;
  for (const bool encoded : {false, true}) {
    for (const comm::AlgorithmRow& row : encoded ? comm::encoded_catalogue() : comm::catalogue()) {
      rows.emplace_back(row.algorithm, comm::collective_name(row.collective), row.source, encoded);
    }
  }
  return rows;
}

comm::Collective collective_of(const std::string& name) {
  if (const auto found = comm::find_collective(name)) return *found;
  throw nb::value_error(("unknown collective: " + name).c_str());
}

// Pairs (algorithm, predicted seconds) of all algorithms that a collective could run.
std::vector<std::pair<std::string, double>> predictions(const std::string& collective, int ranks,
                                                        int hosts, bool shared, std::uint64_t bytes,
                                                        const std::string& plan) {
  const auto table = bindings::value_or_raise(comm::PlanTable::parse(plan));
  const auto fabric = bindings::value_or_raise(
      topology::Fabric::evenly(ranks, hosts, {table.link(shared), table.link(true)}));
  const comm::Problem problem{collective_of(collective), bytes, fabric};
  std::vector<std::pair<std::string, double>> found;
  for (const comm::AlgorithmRow& row : comm::catalogue()) {
    if (const auto seconds = comm::predict_seconds(row, problem)) {
      found.emplace_back(row.algorithm, *seconds);
    }
  }
  return found;
}

// The cost model's (messages, bytes on the wire, bytes reduced), for algorithms of one level.
std::optional<std::tuple<double, double, double>> cost_terms(const std::string& collective,
                                                             const std::string& algorithm,
                                                             int ranks, std::uint64_t bytes) {
  const auto* row = comm::find_algorithm(collective_of(collective), algorithm);
  if (row == nullptr || row->cost == nullptr) return std::nullopt;
  const auto terms = row->cost(ranks, bytes);
  return std::tuple(terms.messages, terms.wire_bytes, terms.reduced_bytes);
}

// Rows of (name, title, whether it works inside hosts only, whether all ranks must name it).
std::vector<std::tuple<std::string_view, std::string_view, bool, bool>> transports() {
  std::vector<std::tuple<std::string_view, std::string_view, bool, bool>> rows;
  for (const comm::TransportRow& row : comm::transports()) {
    rows.emplace_back(row.name, row.title, row.reach == comm::Reach::kHost, row.must_agree);
  }
  return rows;
}

std::string look_at_transport(const std::string& name) {
  const auto index = comm::transport_index(name);
  const Status unknown(Code::kConfigError, "transport \"" + name + "\" is none of the catalogue's");
  return bindings::value_or_raise(index ? comm::transports()[*index].look()
                                        : Result<std::string>(unknown));
}

using PlanRow = std::tuple<std::string, int, int, bool, std::uint64_t, std::string, double>;

std::vector<PlanRow> plan_rows(const std::string& plan) {
  std::vector<PlanRow> rows;
  for (const comm::PlanRow& row : bindings::value_or_raise(comm::PlanTable::parse(plan)).rows()) {
    const comm::Placement& place = row.key.place;
    rows.emplace_back(comm::collective_name(row.key.collective), place.ranks, place.hosts,
                      place.shared, row.bytes, row.algorithm, row.seconds);
  }
  return rows;
}

std::string merge_plans(const std::vector<std::string>& plans) {
  comm::PlanTable all;
  for (const std::string& plan : plans) {
    all.merge(bindings::value_or_raise(comm::PlanTable::parse(plan)));
  }
  return all.text();
}

// A call of `bytes` of payload in equal blocks, as its root makes it. Its memory is nowhere.
comm::OpRequest call_of(comm::Collective collective, int ranks, std::uint64_t bytes) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const bool by_rank = comm::has_blocks_by_rank(collective);
  const comm::CollectiveFacts& facts = comm::facts_of(collective);
  const auto blocks = [&](const comm::BlockSide& side) {
    comm::BlockList list;
    const std::size_t count = comm::block_count(side, true, ranks);
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back({nullptr, by_rank ? (bytes + n - 1) / n : bytes});
    }
    return list;
  };
  comm::OpRequest call;
  call.collective = collective;
  call.dtype = DType::kU8;
  call.input = blocks(facts.input);
  call.output = blocks(facts.output);
  call.equal_blocks = comm::has_input_blocks(collective) && comm::has_output_blocks(collective);
  return call;
}

// (way, algorithm of a schedule, what it is carried as, reason, the reason's sentence).
std::tuple<std::string_view, std::optional<std::string_view>, std::optional<std::string_view>,
           std::string_view, std::string_view>
route(const std::string& collective, int ranks, int hosts, bool shared, std::uint64_t bytes,
      const std::string& plan) {
  const auto table = bindings::value_or_raise(comm::PlanTable::parse(plan));
  const auto fabric = bindings::value_or_raise(
      topology::Fabric::evenly(ranks, hosts, {table.link(shared), table.link(true)}));
  const auto reach = shared ? comm::SliceReach::kMemory : comm::SliceReach::kNothing;
  const comm::RouteFacts facts{.table = &table,
                               .algorithm = {},
                               .place = {ranks, hosts, shared},
                               .view = {ranks, &fabric, shared, reach}};
  const comm::Plan found = comm::route(call_of(collective_of(collective), ranks, bytes), facts);
  std::optional<std::string_view> algorithm;
  if (found.algorithm != nullptr) algorithm = found.algorithm->algorithm;
  std::optional<std::string_view> carried;
  if (found.replicated_as) carried = comm::collective_name(*found.replicated_as);
  return {comm::row_of(found.way).name, algorithm, carried, comm::reason_name(found.reason),
          comm::reason_text(found.reason)};
}

// A flight record as the JSON of docs/reference/flight-record.md.
std::string flight_json(nb::bytes record) {
  const auto bytes = std::as_bytes(std::span(record.c_str(), record.size()));
  return health::flight_json(bindings::value_or_raise(health::read_flight(bytes)));
}

constexpr const char* kReadFlightDoc =
    R"(Read a flight record: the last ops of a process, living or dead.

Parameters
----------
path : str
    The file, ``holdfast-PID-MEMBER.flight`` in the folder of the option `flight_dir`, or what
    ``Group.dump_flight`` wrote.

Returns
-------
dict
    The fields of docs/reference/flight-record.md.

Raises
------
ProtocolError
    For what is no flight record, or one of another version.
OSError
    When the file cannot be read.
)";

nb::object read_flight(const std::string& path) {
  const nb::object file = nb::module_::import_("pathlib").attr("Path")(path);
  const std::string text = flight_json(nb::cast<nb::bytes>(file.attr("read_bytes")()));
  return nb::module_::import_("json").attr("loads")(text);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Native core of Holdfast. Use the holdfast package, not this module.";
  // The classes live as long as the interpreter; objects that it does not free at exit are no leaks
  // of ours.
  nb::set_leak_warnings(false);
  m.attr("compiler") = HOLDFAST_COMPILER;
  m.def("transports", transports);
  m.def("look_at_transport", look_at_transport, "name"_a);
  m.attr("protocol_version") = static_cast<int>(comm::kProtocolVersion);
  m.def("algorithms", algorithms);
  m.def("predictions", predictions, "collective"_a, "ranks"_a, "hosts"_a, "shared"_a, "bytes"_a,
        "plan"_a);
  m.def("cost_terms", cost_terms, "collective"_a, "algorithm"_a, "ranks"_a, "bytes"_a);
  m.def("route", route, "collective"_a, "ranks"_a, "hosts"_a, "shared"_a, "bytes"_a, "plan"_a);
  m.def("plan_rows", plan_rows, "plan"_a);
  m.def("merge_plans", merge_plans, "plans"_a);
  m.def("instruction_set", [] { return std::string(cpu_level_name(best_cpu_level())); });
  m.def("flight_json", flight_json, "record"_a);
  m.def("read_flight", read_flight, "path"_a,
        nb::sig("def read_flight(path: str) -> dict[str, object]"), kReadFlightDoc);
  m.def("dtypes", [] {
    std::vector<std::string> names;
    for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
    return names;
  });
  m.def("reduce_ops", [] {
    std::vector<std::string> names;
    for (int i = 0; i < static_cast<int>(ReduceOp::kUser); ++i) {
      names.emplace_back(reduce_op_name(static_cast<ReduceOp>(i)));
    }
    return names;
  });
  bindings::bind_codec(m);
  bindings::bind_group(m);
  bindings::bind_coordinator(m);
  bindings::bind_erasure(m);
  bindings::bind_tokens(m);
  bindings::bind_simulation(m);
  bindings::bind_snapshots(m);
  bindings::bind_tables(m);
  bindings::bind_topology(m);
}

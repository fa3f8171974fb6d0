#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/dtype.h"
#include "comm/algorithms/catalogue.h"
#include "comm/transport/frame.h"
#include "coordinator.h"
#include "group.h"
#include "simulation.h"

namespace nb = nanobind;

namespace {

using namespace holdfast;

std::vector<std::tuple<std::string, std::string, std::string>> algorithms() {
  std::vector<std::tuple<std::string, std::string, std::string>> rows;
  for (const comm::AlgorithmRow& row : comm::catalogue()) {
    rows.emplace_back(row.algorithm, comm::collective_name(row.collective), row.source);
  }
  return rows;
}

std::string instruction_set() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") != 0) return "AVX-512";
  if (__builtin_cpu_supports("avx2") != 0) return "AVX2";
#endif
  return "baseline";
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Native core of Holdfast. Use the holdfast package, not this module.";
  // The classes live as long as the interpreter; what it does not free at exit is no leak of ours.
  nb::set_leak_warnings(false);
  m.attr("compiler") = HOLDFAST_COMPILER;
  m.attr("protocol_version") = static_cast<int>(comm::kProtocolVersion);
  m.def("algorithms", algorithms);
  m.def("instruction_set", instruction_set);
  m.def("dtypes", [] {
    std::vector<std::string> names;
    for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
    return names;
  });
  m.def("reduce_ops", [] {
    std::vector<std::string> names;
    for (int i = 0; i < kReduceOpCount; ++i) {
      names.emplace_back(reduce_op_name(static_cast<ReduceOp>(i)));
    }
    return names;
  });
  bindings::bind_group(m);
  bindings::bind_coordinator(m);
  bindings::bind_simulation(m);
}

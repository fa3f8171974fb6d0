// Call: a collective's arguments as Python gives them, before they become a request.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::bindings {

template <class E>
std::optional<E> find_name(std::string_view name, int count, std::string_view (*name_of)(E)) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<E>(i)) == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

using Blocks = std::vector<std::pair<std::uintptr_t, std::uint64_t>>;

struct Call {
  std::string collective;
  std::string dtype;
  std::string op;
  Blocks input;
  Blocks output;
  int root;
  int peer;
  std::uint32_t tag;
  double timeout_s;  // 0: the group's
  bool atomic;
  bool at_entrance;
  bool equal_blocks;
  std::string codec;                     // its text; empty: none
  std::vector<std::uintptr_t> residual;  // one per input block; empty: none
  int priority;
  std::string on_hole;  // "raise" or "zero"; empty: the group's
  std::optional<double> weight;
};

comm::OpRequest to_request(const Call& call);

void bind_call(nanobind::module_& m);

}  // namespace holdfast::bindings

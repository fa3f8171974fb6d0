#include "call.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "raise.h"
#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using comm::OpRequest;

template <class E>
E from_name(const std::string& name, int count, std::string_view (*name_of)(E)) {
  if (const auto found = find_name(name, count, name_of)) return *found;
  throw nb::value_error(("unknown name: " + name).c_str());
}

comm::BlockList to_blocks(const Blocks& pairs) {
  comm::BlockList blocks;
  for (const auto& [address, count] : pairs) {
    blocks.push_back({reinterpret_cast<std::byte*>(address), count});
  }
  return blocks;
}

comm::OnHole hole_from_name(const std::string& name) {
  if (name == "zero") return comm::OnHole::kZero;
  if (name == "raise") return comm::OnHole::kRaise;
  throw nb::value_error(("unknown name: " + name).c_str());
}

}  // namespace

OpRequest to_request(const Call& call) {
  OpRequest request;
  request.collective = from_name(call.collective, comm::kCollectiveCount, comm::collective_name);
  request.dtype = from_name(call.dtype, kDTypeCount, dtype_name);
  request.op = from_name(call.op, kReduceOpCount, reduce_op_name);
  request.input = to_blocks(call.input);
  request.output = to_blocks(call.output);
  request.root = {call.root};
  request.peer = {call.peer};
  request.tag = call.tag;
  request.timeout = from_seconds(call.timeout_s);
  request.atomic = call.atomic;
  request.how.at_entrance = call.at_entrance;
  request.equal_blocks = call.equal_blocks;
  request.priority = call.priority;
  request.weight = call.weight;
  if (!call.on_hole.empty()) request.on_hole = hole_from_name(call.on_hole);
  for (const std::uintptr_t address : call.residual) {
    request.residual.push_back(reinterpret_cast<float*>(address));
  }
  if (call.codec.empty()) return request;
  request.codec =
      std::make_shared<compress::Codec>(value_or_raise(compress::Codec::parse(call.codec)));
  return request;
}

void bind_call(nb::module_& m) {
  nb::class_<Call>(m, "Call").def(
      "__init__",
      [](Call* self, std::string collective, std::string dtype, std::string op, Blocks input,
         Blocks output, int root, int peer, std::uint32_t tag, double timeout_s, bool atomic,
         bool at_entrance, bool equal_blocks, std::string codec,
         std::vector<std::uintptr_t> residual, int priority, std::string on_hole,
         std::optional<double> weight) {
        new (self) Call{std::move(collective),
                        std::move(dtype),
                        std::move(op),
                        std::move(input),
                        std::move(output),
                        root,
                        peer,
                        tag,
                        timeout_s,
                        atomic,
                        at_entrance,
                        equal_blocks,
                        std::move(codec),
                        std::move(residual),
                        priority,
                        std::move(on_hole),
                        weight};
      },
      "collective"_a, "dtype"_a, "op"_a, "input"_a, "output"_a, "root"_a = 0, "peer"_a = 0,
      "tag"_a = 0, "timeout_s"_a = 0.0, "atomic"_a = false, "at_entrance"_a = false,
      "equal_blocks"_a = false, "codec"_a = "", "residual"_a = std::vector<std::uintptr_t>(),
      "priority"_a = 0, "on_hole"_a = "", "weight"_a = nb::none());
}

}  // namespace holdfast::bindings

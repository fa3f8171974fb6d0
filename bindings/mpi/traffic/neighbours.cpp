#include "mpi/traffic/neighbours.h"

#include "mpi/comms/comm.h"
#include "mpi/comms/topology.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

// In a grid the same rank may be the neighbour on both sides: a block that goes forward comes from
// behind. Elsewhere blocks of the same two ranks match in the order of their lists.
bool tells_sides_apart(const Topology& topology) {
  return std::holds_alternative<Grid>(topology.shape);
}

// Sides that tags of one script can tell apart.
constexpr std::size_t kMostSides = kTagsPerScript;

std::int32_t tag_of_slot(bool sides, std::size_t slot) {
  return sides && slot < kMostSides ? static_cast<std::int32_t>(slot) : 0;
}

std::byte* pack(Script& script, Step& step, const Part& part) {
  if (bytes_of(part) == 0) return script.allocate(0);
  if (is_run(part)) {
    return static_cast<std::byte*>(part.at) + part.type->layout.true_lb();
  }
  std::byte* packed = script.allocate(bytes_of(part));
  step.packs.push_back({part.type, part.count, static_cast<std::byte*>(part.at), packed});
  return packed;
}

std::byte* unpack(Script& script, Step& step, const Part& part) {
  if (bytes_of(part) == 0) return script.allocate(0);
  if (is_run(part)) {
    return static_cast<std::byte*>(part.at) + part.type->layout.true_lb();
  }
  std::byte* packed = script.allocate(bytes_of(part));
  step.unpacks.push_back({part.type, part.count, static_cast<std::byte*>(part.at), packed});
  return packed;
}

}  // namespace

std::shared_ptr<Script> neighbour_script(Comm& comm, const char* caller, const Parts& input,
                                         const Parts& output) {
  auto script = std::make_shared<Script>(comm, caller);
  for (const Parts* parts : {&input, &output}) {
    for (const Part& part : *parts) {
      if (part.type != nullptr) script->keep(part.type);
    }
  }
  const Neighbours neighbours = neighbours_of(*comm.topology, comm.rank);
  const bool sides = tells_sides_apart(*comm.topology);
  Step& step = script->add_step();
  for (std::size_t i = 0; i < neighbours.sources.size(); ++i) {
    if (neighbours.sources[i] == kProcNull) continue;
    const Rank peer{comm.local->process(neighbours.sources[i])};
    step.messages.push_back(
        {true, peer, tag_of_slot(sides, i), unpack(*script, step, output[i]), bytes_of(output[i])});
  }
  for (std::size_t i = 0; i < neighbours.destinations.size(); ++i) {
    if (neighbours.destinations[i] == kProcNull) continue;
    const Part& part = input.size() == 1 ? input[0] : input[i];
    const Rank peer{comm.local->process(neighbours.destinations[i])};
    // What goes to the one behind comes from the one before, in its eyes.
    step.messages.push_back(
        {false, peer, tag_of_slot(sides, i ^ 1), pack(*script, step, part), bytes_of(part)});
  }
  return script;
}

}  // namespace holdfast::mpi

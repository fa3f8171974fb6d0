// Neighbour collectives: blocks that go to, and come from, the neighbours of a topology.
#pragma once

#include "mpi/traffic/collective.h"

namespace holdfast::mpi {

// `asked` has an input for each destination (or one for all of them), and an output for each
// source, in the order of neighbours_of().
std::shared_ptr<Script> neighbour_script(Comm& comm, const char* caller, const Parts& input,
                                         const Parts& output);

}  // namespace holdfast::mpi

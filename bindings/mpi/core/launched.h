// Launched: which rank of which job this process is, by the variables of whoever started it:
// `holdfast run`, or srun and mpirun, whose own variables say so. A program that nobody launched is
// alone in its world.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/store.h"

namespace holdfast::mpi {

struct Launched {
  int rank = 0;
  int size = 1;
  std::string store;  // file:///DIRECTORY, where the ranks meet; empty: there is only one
};

// kConfigError, naming the variables, where they contradict each other or name no place to meet.
Result<Launched> launched_from_environment();
// Programs that this process starts are not that rank.
void take_rank(const Launched& launched);
Result<std::unique_ptr<Store>> open_store(const Launched& launched);

}  // namespace holdfast::mpi

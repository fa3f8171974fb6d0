#include "mpi/core/predefined.h"

#include "mpi/core/registry.h"

namespace holdfast::mpi {

Registry& registry() {
  // Handles are names of objects of the process, so it has one registry. It is never ended, as
  // programs call MPI until the very end of the process.
  static Registry* const all = [] {
    auto* made = new Registry;
    predefine_types(*made);
    predefine_ops(*made);
    predefine_groups(*made);
    predefine_infos(*made);
    predefine_errhandlers(*made);
    predefine_comms(*made);
    predefine_messages(*made);
    return made;
  }();
  return *all;
}

}  // namespace holdfast::mpi

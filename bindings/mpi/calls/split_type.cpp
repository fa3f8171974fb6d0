// Splitting a communicator by what its processes share: MPI-4.1, 7.4.2.
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/comms/comm.h"
#include "mpi/core/info.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {
namespace {

// The processes of one host have one color.
int color_of_host() {
  const std::vector<int> hosts = process().world_group()->hosts();
  const auto self = static_cast<std::size_t>(process().world->rank);
  return self < hosts.size() ? hosts[self] : 0;
}

// What a guided split names: the memory that processes of a host share is the one resource that is
// told apart. MPI lets a split by any other give nothing.
bool names_shared_memory(const Info* info) {
  return info != nullptr && info->get("mpi_hw_resource_type") == "mpi_shared_memory";
}

}  // namespace

namespace body {

int Comm_split_type(Call& call, Comm* comm, int split_type, int key, Info* info, Comm*& newcomm) {
  int color = kUndefined;
  switch (split_type) {
    case kUndefined: break;
    case kSplitShared: color = color_of_host(); break;
    case kSplitHwGuided:
    case kSplitResourceGuided:
      if (names_shared_memory(info)) color = color_of_host();
      break;
    // The level below is whatever we like, and none is told apart.
    case kSplitHwUnguided: break;
    default:
      return call.fail(kErrArg, "split_type is " + std::to_string(split_type) +
                                    "; accepted: MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, "
                                    "_RESOURCE_GUIDED, MPI_UNDEFINED");
  }
  return Comm_split(call, comm, color, key, newcomm);
}

}  // namespace body
}  // namespace holdfast::mpi

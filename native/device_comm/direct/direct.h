// Direct: collectives on device memory among ranks of one host that reach each other's devices: on
// one GPU, or on GPUs with peer access. Kernels and copies read the peers' memory where it lies
// (device/peer_memory.h); each rank writes only its own. The host carries only small ops.
//
// A call is a chain of ops of the group, numbered when it is called, as all ops are:
//
//   where   an all_gather of where inputs are, behind a gate: this rank's input is there
//           now each rank reads the others' memory (direct/plan.h), phase 1
//   vote    a vote, gated on that: an all_reduce of whether it went well everywhere
//           with two phases: phase 2, and a second vote
//   last    a barrier; or, where a rank was lost or something went wrong, the whole op once more,
//           staged through the host
//
// Those ops are protected: they survive losses, and end alike for all members, with the same
// outcome. So all decide alike, by `where` and the votes, whether the data was read in one view,
// and no rank decides alone. Until the last vote has ended every input is as it was: results go to
// memory that is no rank's input. So the op can be done again, and what was read of a rank that
// died meanwhile is in no result.
//
// A group's first large op finds out whether its members reach each other
// (comm/plan/path_agreement.h). In a group over several hosts, ranks read the memory of the ranks
// on their own host (two_level/work.h).
// Why: docs/decisions/0086-device-to-device-is-a-row-of-ops.md
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/plan/path_agreement.h"
#include "comm/plan/way.h"
#include "device/loaded_kernels.h"
#include "device/peer_memory.h"
#include "device/scratch.h"
#include "device_comm/packed.h"

namespace holdfast::device_comm {

class DeviceWork;
class Staged;

class Direct final {
 public:
  // `staged` owns this object.
  explicit Direct(Staged& staged);
  // To be called in the device's context.
  ~Direct() = default;
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  // For each call whose way is kDirect or kTwoLevel if all members' devices agree, in call order.
  // Any thread, as all below, except the runtime's.
  static Result<comm::PathAgreement::PathChoice> ask(comm::Communicator& group);
  // What one call has beside its request.
  struct DirectCall {
    comm::Way way{};             // kDirect; or kTwoLevel
    std::uint64_t trial = 0;     // as PathChoice::trial
    std::vector<Packed> packed;  // arrays with gaps that the request's blocks are in
    // Keeps what the trial shows. Owners: the group, and the work.
    std::shared_ptr<comm::PathAgreement> agreement = nullptr;
  };
  // As Staged::start(). Owners of `staged`: as Staged says.
  Result<std::shared_ptr<DeviceWork>> start(std::shared_ptr<Staged> staged,
                                            comm::Communicator& group,
                                            const comm::OpRequest& request,
                                            std::span<const device::CuStream> streams,
                                            DirectCall extra);

  // For its works. In the device's context.
  device::DeviceMemoryOfPeers& peers() { return peers_; }
  device::Scratch& scratch() { return scratch_; }
  // A number of this process and device, unique among all.
  std::uint64_t owner() const { return owner_; }
  // Whether kernels can be launched here. Loads the fold kernel, so that nothing is loaded while
  // streams wait for ops. Callers' threads.
  bool prepare(const comm::OpRequest& request);
  // out = inputs folded from left to right, on our stream down; `divisor`: of an average, else 1.
  Status fold(const comm::OpRequest& request, device::DevicePointer out,
              std::span<const device::DevicePointer> inputs, std::uint64_t bytes,
              std::uint32_t divisor);

 private:
  const Staged& staged_;
  const std::uint64_t owner_;
  device::DeviceMemoryOfPeers peers_;
  device::Scratch scratch_;
  device::LoadedKernels& kernels_;    // of `staged`
  std::mutex mutex_;                  // guards ready_
  std::set<std::string_view> ready_;  // kernels that have run
};

}  // namespace holdfast::device_comm

// Direct: collectives on device memory among ranks of one host that reach each other's devices:
// on one GPU, or on GPUs with peer access. Kernels and copies read the peers' memory where it lies
// (device/peer_memory.h); each rank writes its own alone. The host carries a few words.
//
// A call is a row of ops of the group, numbered when it is called, as all ops are:
//
//   where   an all_gather of where inputs are, behind a gate: this rank's input is there
//           now each rank reads the others' memory (direct_plan.h), phase 1
//   word    an all_reduce, gated on that: whether it went well everywhere
//           with two phases: phase 2, and a second word
//   last    a barrier; or, where a rank was lost or something went wrong, the whole op once more,
//           staged through the host
//
// Those ops are protected: they survive losses, and end alike for all members, with the same
// outcome. So all decide alike whether the data was read in one view, by what `where` and the words
// say, and no decision is a rank's own. Until the last word has come every input is as it was:
// results go to memory that is nobody's input. So the op can be done again, and what was read of a
// rank that died meanwhile is in no result.
//
// Whether a group's members reach each other is found out by its first large op
// (comm/plan/path_agreement.h). In a group over several hosts ranks read the memory of those on
// their own (levels_work.h).
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
  // `staged`: its owner.
  explicit Direct(Staged& staged);
  // In the device's context.
  ~Direct() = default;
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  // For each call whose way is kDirect or kTwoLevel if all members' devices agree, in call order.
  // Any thread, as all below but the runtime's.
  static Result<comm::PathAgreement::PathChoice> ask(comm::Communicator& group);
  // Of one call.
  struct DirectCall {
    comm::Way way{};             // kDirect; or kTwoLevel
    std::uint64_t trial = 0;     // as the choice has it
    std::vector<Packed> packed;  // arrays with gaps that the request's blocks are in
    // Where what the trial shows is kept. Owners: the group, and the work.
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
  // Of this process and device, among all.
  std::uint64_t owner() const { return owner_; }
  // Whether kernels can be launched here. Loads the one that folds, so that nothing is loaded while
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

// Encoded: collectives with a codec on device memory, encoded and decoded on the device, so that
// the bus carries frames only. The engine moves bytes, and knows of no codec.
//
// A call is a chain of ops of the group (chained_work.h), with the device's work between them:
//
//   frames  behind a gate: this rank's input has been encoded, and its frames have come up. An
//           all_to_all of messages, an all_gather, or a broadcast; encoded/plan.h has them
//           all_reduce: the frames of this rank's part go down, are added up and encoded again
//   sums    all_reduce: an all_gather of those frames
//   vote    broadcast: an all_reduce of votes, for there the root alone has sent anything
//   last    a barrier; or, after a loss or trouble anywhere, the whole call once more, through the
//           host, from inputs and residuals that are as they were
//
// Every message has its sender's vote, the same to all: whether its device can do the call, and
// did. So all ranks decide alike. Once decided, the frames go down and are decoded into the output,
// and the new residual takes the place of the old one.
//
// The group's first such op finds out whether all devices can do it, and later ops now and then try
// again (comm/plan/path_agreement.h).
// Why: docs/decisions/0109-codecs-before-the-bus.md
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/plan/path_agreement.h"
#include "comm/plan/route.h"
#include "compress/device/stages.h"
#include "device/loaded_kernels.h"
#include "device/scratch.h"
#include "device_comm/packed.h"

namespace holdfast::device_comm {

class DeviceWork;
class Staged;

// What a process has set for encoded ops.
struct EncodedSettings {
  bool on = false;                // the option cuda_codec
  std::uint64_t least_bytes = 0;  // the option cuda_codec_min_bytes
  comm::CodecOption unasked = {};
};

class Encoded final {
 public:
  // `staged` owns this object.
  explicit Encoded(Staged& staged);
  // To be called in the device's context.
  ~Encoded() = default;
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;

  // For each call whose way is kEncoded if all members' devices agree, in call order. Any thread,
  // as all below, except the runtime's.
  static Result<comm::PathAgreement::PathChoice> ask(comm::Communicator& group);
  // What one call has beside its request.
  struct EncodedCall {
    std::uint64_t trial = 0;     // as PathChoice::trial
    std::vector<Packed> packed;  // arrays with gaps that the request's blocks are in
  };
  // As Staged::start(). Owners of `staged`: as Staged says.
  Result<std::shared_ptr<DeviceWork>> start(std::shared_ptr<Staged> staged,
                                            comm::Communicator& group,
                                            const comm::OpRequest& request,
                                            std::span<const device::CuStream> streams,
                                            EncodedCall extra);

  // For its works. In the device's context.
  device::Scratch& scratch() { return scratch_; }
  const device::Scratch& scratch() const { return scratch_; }
  // Whether all kernels that the request needs are there. Loads them, so that nothing is loaded
  // while streams wait for ops. Callers' threads.
  bool prepare(const comm::OpRequest& request);
  Status launch(const std::vector<compress::Stage>& stages, device::CuStream stream);
  // values /= divisor, of f32.
  Status divide(device::DevicePointer values, std::uint64_t count, std::uint32_t divisor,
                device::CuStream stream);
  // Rounds the f32 from `sum` on to elements of `dtype`.
  Status narrow(DType dtype, device::DevicePointer out, device::DevicePointer sum,
                std::uint64_t count, device::CuStream stream);
  Status take_sum_residual(float* residual, const float* sum, const float* decoded,
                           std::uint64_t count, float times, device::CuStream stream);

 private:
  device::Scratch scratch_;
  device::LoadedKernels& kernels_;  // of the owner
  std::mutex mutex_;                // guards ready_
  std::set<std::string> ready_;     // codecs and dtypes whose kernels are all there
};

}  // namespace holdfast::device_comm

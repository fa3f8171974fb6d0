// Staged: collectives on device memory, through pinned host memory. An op takes its number when it
// is called, as every op does; its input is copied up on a stream of ours after what the caller's
// stream had been given, and then opens the op's gate (comm/gate.h); when the op has ended, its
// result is copied down on another stream. The engine sees host memory only, so losses are repaired
// as ever, and device memory is written with final values, or not at all.
//
// Large ops are cut into slices (slices.h), which are ops of their own to the engine: the copy up
// of one, the exchange of another and the copy down of a third go on together.
//
// Where ranks reach each other's device memory, large ops bypass the host instead
// (direct/direct.h); with a codec, the device makes their frames (encoded/encoded.h).
//
// Host memory: one pinned byte per byte of input and output, while an op lasts. Copies: one up, one
// down.
// Why: docs/decisions/0078-staged-ops-have-a-gate.md
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "comm/communicator.h"
#include "comm/executor.h"
#include "device/device.h"
#include "device/loaded_kernels.h"
#include "device_comm/encoded/encoded.h"
#include "device_comm/virtual_blocks.h"

namespace holdfast::device_comm {

class DeviceWork;
class Direct;
class StagedWork;

struct StagedSettings {
  std::uint64_t slice_bytes = 0;   // the option cuda_slice_bytes
  bool direct = false;             // whether ops may bypass the host
  std::uint64_t direct_bytes = 0;  // the option cuda_ipc_min_bytes
  EncodedSettings encoded = {};
};

class Staged final : public std::enable_shared_from_this<Staged> {
 public:
  // The executor whose driver polls the gates when something has been copied up.
  using Waker = std::weak_ptr<comm::Executor>;

  // Owners of the device: this object and its works. `executor`: the node's.
  static Result<std::shared_ptr<Staged>> make(std::shared_ptr<device::Device> device,
                                              std::weak_ptr<comm::Executor> executor,
                                              const StagedSettings& settings);
  ~Staged();
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  device::Device& device() const { return *device_; }
  // Owners of the device: as make() says, and gates.
  const std::shared_ptr<device::Device>& device_owner() const { return device_; }
  // Streams of ours. up(): ops wait for it; down(): it waits for nothing but the device.
  device::CuStream up() const { return up_; }
  device::CuStream down() const { return down_; }
  // Null when the node is gone. Owners: the node, and the caller of this, for a moment.
  std::shared_ptr<comm::Executor> executor() const { return waker_->lock(); }
  // Makes the driver poll the gates: behind what the stream has been given, or now.
  Status wake_behind(device::CuStream stream) const;
  void wake_now() const { wake(waker_); }
  std::uint64_t slice_bytes() const { return settings_.slice_bytes; }
  // For direct and encoded ops: mapped allocations of other processes, and bytes of device memory
  // of our own.
  std::size_t peer_mappings() const;
  std::uint64_t scratch_bytes() const;
  // The device's kernels, for callers in its context.
  device::LoadedKernels& kernels() { return kernels_; }

  // Whether start() has the call bypass the host, once the group's devices are found to reach each
  // other: by what all ranks know alike. Any thread.
  bool bypasses_host(const comm::Communicator& group, const comm::OpRequest& request) const;

  // As Communicator::start(), for blocks (and a residual) that are memory of this device. The op
  // begins after all that `streams` have been given; none: its input is there. The memory must stay
  // valid until the work has ended; the result may be read once it has, or on a stream that
  // DeviceWork::wait_on() has made wait. kSystem when there is no host memory for it, kUnsupported
  // on a stream that is captured: no op has begun then. Blocks may lie in `virtual_blocks`: their
  // arrays are packed first, and unpacked behind the result. Any thread; not the runtime's.
  Result<std::shared_ptr<DeviceWork>> start(comm::Communicator& group, comm::OpRequest request,
                                            std::span<const device::CuStream> streams,
                                            std::span<const VirtualBlock> virtual_blocks = {});

 private:
  Staged(std::shared_ptr<device::Device> device, Waker* waker, const StagedSettings& settings,
         std::uint32_t processors);

  Status pack(comm::OpRequest& request, std::span<const device::CuStream> streams,
              std::span<const VirtualBlock> virtual_blocks, std::vector<Packed>& packed);
  struct Planned {
    comm::Plan plan;
    std::uint64_t trial = 0;  // number of the trial that the call makes for the group; 0: none
  };
  // Called in call order.
  Result<Planned> plan_for(comm::Communicator& group, const comm::OpRequest& request) const;
  comm::DeviceFacts facts_of(const comm::Communicator& group) const;
  Status prepare(StagedWork& work, const comm::Communicator& group, const comm::OpRequest& request,
                 std::span<const device::CuStream> streams);
  static Status begin(const std::shared_ptr<StagedWork>& work, comm::Communicator& group);
  static void wake(void* waker);

  const std::shared_ptr<device::Device> device_;
  Waker* const waker_;  // never freed
  const StagedSettings settings_;
  device::LoadedKernels kernels_;
  device::CuStream up_;
  device::CuStream down_;
  std::unique_ptr<Direct> direct_;    // nothing: no op bypasses the host
  std::unique_ptr<Encoded> encoded_;  // nothing: the host encodes
};

}  // namespace holdfast::device_comm

// Ops on CUDA tensors. torch's streams are used through c10's device-generic interface only, so
// that a module compiled against a torch for CPUs works with one for CUDA.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <span>

#include "comm/communicator.h"
#include "device_comm/virtual_blocks.h"
#include "runtime/node.h"

namespace holdfast::torch_backend {

// Starts an op on tensors of this device, after all work enqueued on the calling thread's current
// stream. `virtual_blocks`: those of the op's blocks that have gaps. kUnsupported when `node` is
// null, because the group has none.
Result<std::shared_ptr<comm::Work>> start_on_device(
    runtime::Node* node, comm::Communicator& group, comm::OpRequest request, c10::Device device,
    std::span<const device_comm::VirtualBlock> virtual_blocks);

// Makes the calling thread's current stream, on the op's device, wait for the op, and the host
// until nothing is left for it to do. Returns the error of an op that has failed; false when the op
// is not on a device, so that its caller has to wait.
Result<bool> current_stream_waits(comm::Work& work);

}  // namespace holdfast::torch_backend

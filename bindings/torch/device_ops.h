// Ops on CUDA tensors. torch's streams are used through c10's device-generic interface only, so
// that a module compiled against a torch for CPUs works with one for CUDA.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <vector>

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

// Makes the calling thread's current stream, on the op's device, wait for the op. False when the op
// is not on a device, so that its caller has to wait.
Result<bool> current_stream_waits(comm::Work& work);

// A stream of torch's pool that waits for all of these ops. Returns nullopt, and makes no stream
// wait, when the ops are not on one device, when streams cannot wait, and when an op may fail
// without ending its group (rooted ops, messages), so that no later op would report it.
std::optional<c10::Stream> stream_behind(const std::vector<std::shared_ptr<comm::Work>>& ops);

}  // namespace holdfast::torch_backend

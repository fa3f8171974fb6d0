// Ops on CUDA tensors. torch's streams are reached through c10's device-generic interface only, so
// that a module that was compiled beside a torch for CPUs serves one for CUDA.
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

// Starts an op on tensors of this device, after what the calling thread's current stream has been
// given. `virtual_blocks`: what of its blocks has gaps. `node`: null where the group has none:
// kUnsupported.
Result<std::shared_ptr<comm::Work>> start_on_device(
    runtime::Node* node, comm::Communicator& group, comm::OpRequest request, c10::Device device,
    std::span<const runtime::VirtualBlock> virtual_blocks);

// Makes the calling thread's current stream, on the device of the op, wait for it. False: the op is
// not on a device, and its caller has to wait.
Result<bool> current_stream_waits(comm::Work& work);

// A stream of torch's pool that waits for all of these ops; nothing, and no stream that waits:
// where they are not on one device, where streams cannot wait, and where an op may fail that ends
// nothing but itself (rooted ones, messages), so that nobody would hear of it.
std::optional<c10::Stream> stream_behind(const std::vector<std::shared_ptr<comm::Work>>& ops);

}  // namespace holdfast::torch_backend

// Ops on CUDA tensors. torch's streams are reached through c10's device-generic interface only, so
// that a module that was compiled beside a torch for CPUs serves one for CUDA.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "comm/communicator.h"
#include "runtime/node.h"
#include "runtime/stand_ins.h"

namespace holdfast::torch_backend {

// Starts an op on tensors of this device, after what the calling thread's current stream has been
// given. `stand_ins`: what of its blocks has gaps. `node`: null where the group has none:
// kUnsupported.
Result<std::shared_ptr<comm::Work>> start_on_device(runtime::Node* node, comm::Communicator& group,
                                                    comm::OpRequest request, c10::Device device,
                                                    std::span<const runtime::StandIn> stand_ins);

// Makes the calling thread's current stream, on the device of the op, wait for it. False: the op is
// not on a device, and its caller has to wait.
Result<bool> current_stream_waits(comm::Work& work);

}  // namespace holdfast::torch_backend

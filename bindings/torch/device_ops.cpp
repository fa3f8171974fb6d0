#include "device_ops.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device_comm/device_work.h"

namespace holdfast::torch_backend {
namespace {

device::CuStream current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl streams(device.type());
  void* handle = streams.getStream(device).native_handle();
  // Handle 0 is the legacy default stream, which has a handle of its own in the driver.
  return handle == nullptr ? device::legacy_stream() : device::CuStream{handle};
}

}  // namespace

Result<std::shared_ptr<comm::Work>> start_on_device(
    runtime::Node* node, comm::Communicator& group, comm::OpRequest request, c10::Device device,
    std::span<const device_comm::VirtualBlock> virtual_blocks) {
  if (node == nullptr) {
    return Status(Code::kUnsupported,
                  std::string(comm::collective_name(request.collective)) + " on " + device.str() +
                      ": a process group over a holdfast.Group takes CPU tensors only; use "
                      "init_process_group(\"holdfast\")");
  }
  auto staged = node->staged(device.index());
  if (!staged.is_ok()) return staged.status();
  const device::CuStream stream = current_stream(device);
  auto work = staged.value()->start(group, std::move(request), {&stream, 1}, virtual_blocks);
  if (!work.is_ok()) return work.status();
  return std::shared_ptr<comm::Work>(std::move(work).value());
}

Result<bool> current_stream_waits(comm::Work& work) {
  auto* staged = dynamic_cast<device_comm::DeviceWork*>(&work);
  if (staged == nullptr) return false;
  // torch copies to pageable memory with locks of the driver held, which our calls need.
  TRY(staged->wait_enqueued());
  const auto ordinal = static_cast<c10::DeviceIndex>(staged->device().ordinal());
  TRY(staged->wait_on(current_stream({c10::DeviceType::CUDA, ordinal})));
  return true;
}

}  // namespace holdfast::torch_backend

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

// Whether an op is repaired after a loss, so that only the end of the group makes it fail.
bool fails_with_its_group(comm::Collective collective) {
  return comm::has_elements(collective) && !comm::is_rooted(collective) &&
         !comm::is_point_to_point(collective);
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
  const auto ordinal = static_cast<c10::DeviceIndex>(staged->device().ordinal());
  TRY(staged->wait_on(current_stream({c10::DeviceType::CUDA, ordinal})));
  return true;
}

std::optional<c10::Stream> stream_behind(const std::vector<std::shared_ptr<comm::Work>>& ops) {
  std::vector<device_comm::DeviceWork*> works;
  for (const auto& op : ops) {
    auto* work = dynamic_cast<device_comm::DeviceWork*>(op.get());
    const bool fits = work != nullptr && work->device().streams_wait() &&
                      fails_with_its_group(work->collective()) &&
                      (works.empty() || &works.front()->device() == &work->device());
    // An op that has ended may have failed, and then reports it at once.
    if (!fits || work->done()) return std::nullopt;
    works.push_back(work);
  }
  if (works.empty()) return std::nullopt;
  const c10::Device device(c10::DeviceType::CUDA,
                           static_cast<c10::DeviceIndex>(works.front()->device().ordinal()));
  const c10::Stream behind =
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  for (device_comm::DeviceWork* work : works) {
    if (!work->wait_on(device::CuStream{behind.native_handle()}).is_ok()) return std::nullopt;
  }
  return behind;
}

}  // namespace holdfast::torch_backend

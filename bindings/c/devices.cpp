// Device memory in the C interface: handles of a group for a device and a stream, waits of streams,
// and memory for programs that have no CUDA at hand.
#include <algorithm>

#include "base/copy.h"
#include "device/device_address.h"
#include "device_comm/device_work.h"
#include "handles.h"

using namespace holdfast;
using device::CuStream;
using device::Device;
using device::DevicePointer;
using device_comm::Staged;

namespace {

// Limit of the pinned piece that copies between device and pageable memory go through.
constexpr std::uint64_t kMostPiece = 8U << 20;

std::vector<CuStream> streams_of(void* stream) {
  if (stream == HF_NO_STREAM) return {};
  return {CuStream{stream}};
}

Status check_stream(void* stream) {
  if (stream != HF_NO_STREAM) return Status::ok();
  return {Code::kConfigError,
          "stream HF_NO_STREAM; accepted: NULL (the legacy default stream), 1, 2 or a stream"};
}

// The ordinal of the device that owns `memory`; -1 when the driver knows none.
std::int32_t device_of(const device::CudaDriver& driver, const void* memory) {
  using device::PointerAttribute;
  unsigned type = 0;
  int ordinal = HF_HOST_MEMORY;
  const bool known =
      driver.pointer_get_attribute(&type, PointerAttribute::kMemoryType,
                                   device::number_of(memory)) == device::Cu::kSuccess &&
      type == device::kMemoryTypeDevice &&
      driver.pointer_get_attribute(&ordinal, PointerAttribute::kDevice,
                                   device::number_of(memory)) == device::Cu::kSuccess;
  return known ? ordinal : HF_HOST_MEMORY;
}

// Runs `body` with the device, in the device's context.
template <class Body>
hf_status on_device(hf_node* node, std::int32_t ordinal, const Body& body) {
  return c::guarded([&]() -> Status {
    if (node == nullptr) return c::missing("node");
    auto staged = node->node->staged(ordinal);
    if (!staged.is_ok()) return staged.status();
    Device& device = staged.value()->device();
    const Device::Current current(device);
    TRY(current.status());
    return body(device);
  });
}

struct Copy {
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};

// Copies between pageable host memory and the device through a pinned piece.
Status copy_piecewise(Device& device, const Copy& copy, CuStream stream) {
  const device::CudaDriver& d = device.driver();
  const bool up = device_of(d, copy.to) >= 0;
  const bool down = device_of(d, copy.from) >= 0;
  const auto wait = [&] { return device.check(d.stream_synchronize(stream), "copying"); };
  if (up && down) {
    TRY(device.copy(device::number_of(copy.to), device::number_of(copy.from), copy.bytes, stream));
    return wait();
  }
  if (!up && !down) {
    return {Code::kConfigError,
            "hf_device_copy: neither end is memory of a device; accepted: one end, or both"};
  }
  auto piece = device.take(std::min(copy.bytes, kMostPiece));
  if (!piece.is_ok()) return piece.status();
  const DevicePointer between = device::number_of(piece.value().data);
  Status status;
  for (std::uint64_t at = 0; at < copy.bytes && status.is_ok(); at += kMostPiece) {
    const std::uint64_t bytes = std::min(kMostPiece, copy.bytes - at);
    if (up) copy_bytes(piece.value().data, copy.from + at, bytes);
    status = up ? device.copy(device::number_of(copy.to) + at, between, bytes, stream)
                : device.copy(between, device::number_of(copy.from) + at, bytes, stream);
    if (status.is_ok()) status = wait();
    if (status.is_ok() && down) copy_bytes(copy.to + at, piece.value().data, bytes);
  }
  device.give(piece.value());
  return status;
}

}  // namespace

hf_status hf_device_of(hf_node* node, const void* memory, int32_t* device) {
  return c::guarded([&]() -> Status {
    if (node == nullptr || device == nullptr) return c::missing("node or device");
    auto driver = node->node->cuda_driver();
    if (!driver.is_ok()) return driver.status();
    *device = device_of(*driver.value(), memory);
    return Status::ok();
  });
}

hf_status hf_group_on_device(hf_group* group, int32_t device, void* stream, hf_group** on_device) {
  return c::guarded([&]() -> Status {
    if (group == nullptr || on_device == nullptr) return c::missing("group or on_device");
    const auto node = group->node.lock();
    if (node == nullptr) {
      return {Code::kNotMember, "the group's node is freed; accepted: a group whose node lives"};
    }
    auto staged = node->staged(device);
    if (!staged.is_ok()) return staged.status();
    *on_device = new hf_group{group->group, group->transports, group->node,
                              std::move(staged).value(), streams_of(stream)};
    return Status::ok();
  });
}

hf_status hf_work_wait_on(hf_work* work, void* stream) {
  return c::guarded([&]() -> Status {
    if (work == nullptr) return c::missing("work");
    TRY(check_stream(stream));
    const auto native = std::dynamic_pointer_cast<device_comm::DeviceWork>(work->work);
    if (native == nullptr) {
      return {Code::kConfigError,
              "an op on host memory; accepted: hf_work_wait(), or an op on a GPU's memory"};
    }
    return native->wait_on(CuStream{stream});
  });
}

hf_status hf_device_allocate(hf_node* node, int32_t device, size_t bytes, void** memory) {
  return on_device(node, device, [&](Device& on) -> Status {
    if (memory == nullptr) return c::missing("memory");
    DevicePointer at = 0;
    TRY(on.check(on.driver().mem_alloc(&at, std::max<std::size_t>(bytes, 1)),
                 "allocating " + std::to_string(bytes) + " bytes of device memory"));
    *memory = device::pointer_to(at);
    return Status::ok();
  });
}

hf_status hf_device_release(hf_node* node, int32_t device, void* memory) {
  if (memory == nullptr) return c::record(Status::ok());
  return on_device(node, device, [&](Device& on) {
    return on.check(on.driver().mem_free(device::number_of(memory)), "freeing device memory");
  });
}

hf_status hf_device_copy(hf_node* node, int32_t device, void* to, const void* from, size_t bytes,
                         void* stream) {
  return on_device(node, device, [&](Device& on) -> Status {
    TRY(check_stream(stream));
    if (bytes == 0) return Status::ok();
    if (to == nullptr || from == nullptr) return c::missing("to or from");
    return copy_piecewise(on,
                          {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes},
                          CuStream{stream});
  });
}

hf_status hf_stream_create(hf_node* node, int32_t device, void** stream) {
  return on_device(node, device, [&](Device& on) -> Status {
    if (stream == nullptr) return c::missing("stream");
    CuStream made;
    TRY(on.check(on.driver().stream_create_with_priority(&made, device::kStreamNonBlocking, 0),
                 "making a stream"));
    *stream = made.value;
    return Status::ok();
  });
}

hf_status hf_stream_release(hf_node* node, int32_t device, void* stream) {
  return on_device(node, device, [&](Device& on) {
    return on.check(on.driver().stream_destroy(CuStream{stream}), "freeing a stream");
  });
}

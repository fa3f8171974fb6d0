#include "staged.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/copy.h"
#include "call.h"
#include "device/kernel.h"
#include "device_comm/device_work.h"
#include "device_comm/devices.h"
#include "gil.h"
#include "raise.h"
#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using device::CuStream;
using device::Device;
using device::DevicePointer;
using device_comm::DeviceWork;
using device_comm::Staged;
using device_comm::VirtualBlock;
using runtime::Node;

CuStream stream_at(std::uintptr_t handle) {
  return {reinterpret_cast<void*>(handle)};  // NOLINT(performance-no-int-to-ptr)
}

std::vector<CuStream> streams_at(const std::vector<std::uintptr_t>& handles) {
  std::vector<CuStream> streams;
  streams.reserve(handles.size());
  for (const std::uintptr_t handle : handles) streams.push_back(stream_at(handle));
  return streams;
}

// A runtime::VirtualBlock as (address, the array's first element, bytes per element, counts,
// strides, whether it is written).
using Gap = std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t, std::vector<std::uint64_t>,
                       std::vector<std::int64_t>, bool>;
using Gaps = std::vector<Gap>;

std::vector<VirtualBlock> virtual_blocks_of(const Gaps& gaps) {
  std::vector<VirtualBlock> all;
  for (const auto& [at, first, bytes, count, stride, written] : gaps) {
    if (count.size() != stride.size()) throw nb::value_error("as many strides as dimensions");
    all.push_back({at, {first, {bytes, count, stride}}, written});
  }
  return all;
}

std::shared_ptr<DeviceWork> begin(Staged& staged, comm::Communicator& group, const Call& call,
                                  const std::vector<std::uintptr_t>& streams, const Gaps& gaps) {
  Result<std::shared_ptr<DeviceWork>> started = Status(Code::kAborted, "not started");
  comm::OpRequest request = to_request(call);
  const std::vector<VirtualBlock> virtual_blocks = virtual_blocks_of(gaps);
  {
    const GilReleased released;
    started = staged.start(group, std::move(request), streams_at(streams), virtual_blocks);
  }
  return value_or_raise(std::move(started));
}

PyWork start_staged(Staged& staged, comm::Communicator& group, const Call& call, nb::object keep,
                    const std::vector<std::uintptr_t>& streams, const Gaps& gaps) {
  return {begin(staged, group, call, streams, gaps), std::move(keep)};
}

PyWork run_staged(Staged& staged, comm::Communicator& group, const Call& call,
                  const std::vector<std::uintptr_t>& streams, const Gaps& gaps) {
  const auto work = begin(staged, group, call, streams, gaps);
  wait_to_end(group, *work);
  return {work, nb::none()};
}

// The ordinal of the device that owns the address; -1: none.
int device_of(Node& node, std::uintptr_t address) {
  const auto driver = value_or_raise(node.cuda_driver());
  unsigned type = 0;
  int ordinal = -1;
  using device::PointerAttribute;
  const bool known = driver->pointer_get_attribute(&type, PointerAttribute::kMemoryType, address) ==
                         device::Cu::kSuccess &&
                     type == device::kMemoryTypeDevice &&
                     driver->pointer_get_attribute(&ordinal, PointerAttribute::kDevice, address) ==
                         device::Cu::kSuccess;
  return known ? ordinal : -1;
}

std::shared_ptr<Staged> staged_of(Node& node, int ordinal) {
  Result<std::shared_ptr<Staged>> staged = Status(Code::kAborted, "not opened");
  {
    const GilReleased released;
    staged = node.staged(ordinal);
  }
  return value_or_raise(std::move(staged));
}

// Returns (version, names of the devices) of the driver that the option cuda_driver names.
std::tuple<int, std::vector<std::string>> cuda_devices(const std::string& driver) {
  device_comm::Devices devices({driver, {}}, nullptr, nullptr);
  const auto table = value_or_raise(devices.driver());
  int version = 0;
  int count = 0;
  raise_if(device::check(*table, table->driver_get_version(&version), "asking for its version"));
  raise_if(device::check(*table, table->device_get_count(&count), "counting the CUDA devices"));
  std::vector<std::string> names;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    constexpr int kMostName = 256;
    char name[kMostName] = {};
    device::DeviceId id = 0;
    raise_if(device::check(*table, table->device_get(&id, ordinal), "opening a device"));
    raise_if(device::check(*table, table->device_get_name(name, kMostName, id), "asking its name"));
    names.emplace_back(name);
  }
  return {version, std::move(names)};
}

// Names of this build's kernel images.
std::vector<std::string> kernel_images() {
  std::vector<std::string> names;
  for (const device::KernelImage& image : device::kernel_images()) names.emplace_back(image.name);
  return names;
}

// Memory of a device, for tests and examples without a framework.
class DeviceMemory {
 public:
  // `shared`: allocated outside pools, so that other processes can map it.
  DeviceMemory(std::shared_ptr<Staged> staged, std::uint64_t bytes, bool shared)
      : staged_(std::move(staged)), bytes_(bytes), shared_(shared) {
    const Device::Current current(device());
    raise_if(current.status());
    const std::uint64_t wanted = std::max<std::uint64_t>(bytes, 1);
    if (shared) {
      raise_if(device().check(device().driver().mem_alloc(&at_, wanted), "allocating memory"));
    } else {
      at_ = value_or_raise(device().allocate(wanted, {}));
    }
  }
  ~DeviceMemory() {
    const Device::Current current(device());
    // Errors are ignored: on a lost device the memory is gone.
    if (shared_) {
      device().driver().mem_free(at_);
    } else {
      [[maybe_unused]] const Status freed = device().release(at_, {});
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DevicePointer at() const { return at_; }

  void write(const nb::bytes& from, std::uintptr_t stream) {
    if (from.size() != bytes_) throw nb::value_error("as many bytes as the memory has");
    const auto* data = from.c_str();
    through_pinned(stream, [&](std::byte* pinned, CuStream on) {
      copy_bytes(pinned, data, bytes_);
      return device().copy(at_, reinterpret_cast<DevicePointer>(pinned), bytes_, on);
    });
  }
  // Waits until the copy is done.
  void copy_from(const DeviceMemory& other, std::uintptr_t stream) {
    if (other.bytes_ != bytes_) throw nb::value_error("as many bytes as the memory has");
    Status status;
    {
      const GilReleased released;
      const Device::Current current(device());
      status = current.status();
      if (status.is_ok()) status = device().copy(at_, other.at_, bytes_, stream_at(stream));
      if (status.is_ok()) {
        status = device().check(device().driver().stream_synchronize(stream_at(stream)),
                                "copying for Python");
      }
    }
    raise_if(status);
  }
  nb::bytes read(std::uintptr_t stream) {
    std::vector<std::byte> values(bytes_);
    through_pinned(
        stream,
        [&](std::byte* pinned, CuStream on) {
          return device().copy(reinterpret_cast<DevicePointer>(pinned), at_, bytes_, on);
        },
        values.data());
    return nb::bytes(values.data(), values.size());
  }

 private:
  Device& device() const { return staged_->device(); }

  // `out`: where the pinned memory is copied to at the end; may be null.
  template <class Enqueue>
  void through_pinned(std::uintptr_t stream, const Enqueue& enqueue, std::byte* out = nullptr) {
    Status status;
    {
      const GilReleased released;
      status = copy(stream_at(stream), enqueue, out);
    }
    raise_if(status);
  }

  template <class Enqueue>
  Status copy(CuStream stream, const Enqueue& enqueue, std::byte* out) {
    const Device::Current current(device());
    TRY(current.status());
    auto piece = device().take(bytes_);
    if (!piece.is_ok()) return piece.status();
    Status status = enqueue(piece.value().data, stream);
    if (status.is_ok()) {
      status = device().check(device().driver().stream_synchronize(stream), "copying for Python");
    }
    if (status.is_ok() && out != nullptr) copy_bytes(out, piece.value().data, bytes_);
    device().give(piece.value());
    return status;
  }

  const std::shared_ptr<Staged> staged_;
  const std::uint64_t bytes_;
  const bool shared_;
  DevicePointer at_ = 0;
};

std::uintptr_t make_stream(Staged& staged) {
  const Device::Current current(staged.device());
  raise_if(current.status());
  const CuStream stream = value_or_raise(staged.device().make_stream());
  return reinterpret_cast<std::uintptr_t>(stream.value);
}

void wait_on(const PyWork& work, std::uintptr_t stream) {
  const auto staged = std::dynamic_pointer_cast<DeviceWork>(work.native());
  if (staged == nullptr) {
    raise_if({Code::kConfigError, "an op on host memory; accepted: wait(), or an op on a GPU's"});
  }
  Status status;
  {
    const GilReleased released;
    status = staged->wait_on(stream_at(stream));
  }
  raise_if(status);
}

}  // namespace

void bind_staged(nb::module_& m, nb::class_<Node>& node) {
  nb::class_<Staged>(m, "Staged")
      .def("start", start_staged, "group"_a, "call"_a, "keep"_a, "streams"_a, "gaps"_a)
      .def("run", run_staged, "group"_a, "call"_a, "streams"_a, "gaps"_a)
      .def_prop_ro("ordinal", [](const Staged& s) { return s.device().ordinal(); })
      .def_prop_ro("pinned_bytes", [](const Staged& s) { return s.device().pinned_bytes(); })
      .def_prop_ro("peer_mappings", &Staged::peer_mappings)
      .def_prop_ro("scratch_bytes", &Staged::scratch_bytes)
      .def("make_stream", make_stream);
  nb::class_<DeviceMemory>(m, "DeviceMemory")
      .def(nb::init<std::shared_ptr<Staged>, std::uint64_t, bool>(), "staged"_a, "bytes"_a,
           "shared"_a = false)
      .def_prop_ro("address", &DeviceMemory::at)
      .def("write", &DeviceMemory::write, "values"_a, "stream"_a = 0)
      .def("copy_from", &DeviceMemory::copy_from, "other"_a, "stream"_a = 0)
      .def("read", &DeviceMemory::read, "stream"_a = 0);
  node.def("staged", staged_of, "device"_a).def("device_of", device_of, "address"_a);
  m.def("cuda_devices", cuda_devices, "driver"_a = "");
  m.def("kernel_images", kernel_images);
  m.def("wait_on", wait_on, "work"_a, "stream"_a);
}

}  // namespace holdfast::bindings

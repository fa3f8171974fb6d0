#include "device_state.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "device_comm/device_state.h"
#include "gil.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using device::Device;
using device::HashChunk;
using device_comm::DeviceState;
using device_comm::Staged;

// A piece of the device's pinned memory, which returns to its pool with the last reference.
class PinnedPiece {
 public:
  PinnedPiece(std::shared_ptr<Staged> staged, std::uint64_t bytes) : staged_(std::move(staged)) {
    Result<device::Pinned> taken = Status(Code::kAborted, "not taken");
    {
      const GilReleased released;
      const Device::Current current(staged_->device());
      taken = current.status().is_ok() ? staged_->device().take(bytes) : current.status();
    }
    memory_ = value_or_raise(std::move(taken));
  }
  ~PinnedPiece() {
    if (memory_.data != nullptr) staged_->device().give(memory_);
  }
  PinnedPiece(const PinnedPiece&) = delete;
  PinnedPiece& operator=(const PinnedPiece&) = delete;

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_.data); }
  // The address of `offset`; checks that `bytes` follow it.
  std::byte* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > memory_.bytes || bytes > memory_.bytes - offset) {
      throw nb::value_error("more bytes than were pinned");
    }
    return memory_.data + offset;
  }

 private:
  const std::shared_ptr<Staged> staged_;
  device::Pinned memory_;
};

template <class Call>
void without_gil(const Call& call) {
  Status status;
  {
    const GilReleased released;
    status = call();
  }
  raise_if(status);
}

class PyDeviceState {
 public:
  explicit PyDeviceState(std::shared_ptr<Staged> staged)
      : state_(value_or_raise(DeviceState::make(std::move(staged)))) {}
  ~PyDeviceState() {
    const GilReleased released;
    state_.reset();
  }
  PyDeviceState(const PyDeviceState&) = delete;
  PyDeviceState& operator=(const PyDeviceState&) = delete;

  void follow(std::uintptr_t stream) {
    raise_if(state_->follow({reinterpret_cast<void*>(stream)}));  // NOLINT
  }
  nb::bytes hash(const std::vector<std::pair<std::uintptr_t, std::uint64_t>>& chunks) {
    std::vector<HashChunk> list;
    list.reserve(chunks.size());
    for (const auto& [at, bytes] : chunks) {
      list.push_back({reinterpret_cast<const std::byte*>(at), bytes});  // NOLINT
    }
    std::vector<device::DigestBytes> digests(list.size());
    without_gil([&] { return state_->hash(list, digests); });
    return nb::bytes(digests.data(), digests.size() * device::kDigestBytes);
  }
  void down(const PinnedPiece& to, std::uintptr_t from, std::uint64_t bytes) {
    std::byte* const pinned = to.at(0, bytes);
    without_gil([&] { return state_->down(pinned, from, bytes); });
  }
  void up(std::uintptr_t to, const PinnedPiece& from, std::uint64_t offset, std::uint64_t bytes) {
    const std::byte* const pinned = from.at(offset, bytes);
    without_gil([&] { return state_->up(to, pinned, bytes); });
  }
  std::uintptr_t pack(std::uintptr_t first, std::uint64_t element_bytes,
                      std::vector<std::uint64_t> count, std::vector<std::int64_t> stride) {
    if (count.size() != stride.size()) throw nb::value_error("as many strides as dimensions");
    const device_comm::GappedArray array{first,
                                         {element_bytes, std::move(count), std::move(stride)}};
    std::uintptr_t at = 0;
    without_gil([&] {
      auto packed = state_->pack(array);
      if (packed.is_ok()) at = packed.value();
      return packed.status();
    });
    return at;
  }
  void unpack() {
    without_gil([&] { return state_->unpack(); });
  }

 private:
  std::unique_ptr<DeviceState> state_;
};

}  // namespace

void bind_device_state(nb::module_& m) {
  nb::class_<PinnedPiece>(m, "PinnedPiece")
      .def(nb::init<std::shared_ptr<Staged>, std::uint64_t>(), "staged"_a, "bytes"_a)
      .def_prop_ro("address", &PinnedPiece::address);
  nb::class_<PyDeviceState>(m, "DeviceState")
      .def(nb::init<std::shared_ptr<Staged>>(), "staged"_a)
      .def("follow", &PyDeviceState::follow, "stream"_a)
      .def("hash", &PyDeviceState::hash, "chunks"_a)
      .def("down", &PyDeviceState::down, "to"_a, "source"_a, "bytes"_a)
      .def("up", &PyDeviceState::up, "to"_a, "source"_a, "offset"_a, "bytes"_a)
      .def("pack", &PyDeviceState::pack, "first"_a, "element_bytes"_a, "count"_a, "stride"_a)
      .def("unpack", &PyDeviceState::unpack);
}

}  // namespace holdfast::bindings

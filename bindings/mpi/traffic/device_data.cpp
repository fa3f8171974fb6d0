#include "mpi/traffic/device_data.h"

#include <algorithm>
#include <vector>

#include "base/copy.h"
#include "device/device_address.h"
#include "mpi/core/process.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

using device_comm::DeviceLayout;
using device_comm::DeviceReader;
using device_comm::DeviceWriter;
using device_comm::ElementsOnDevice;

using LayoutOnDevice = Result<std::shared_ptr<const DeviceLayout>>;

LayoutOnDevice layout_on(int ordinal, const Datatype& type, std::int64_t count) {
  auto staged = process().node().staged(ordinal);
  if (!staged.is_ok()) return staged.status();
  const device::Device::Current current(staged.value()->device());
  TRY(current.status());
  return type.on_device.get(staged.value(), type.layout, count);
}

// A packed form, as elements.
LayoutOnDevice bytes_on(int ordinal, std::uint64_t bytes) {
  auto staged = process().node().staged(ordinal);
  if (!staged.is_ok()) return staged.status();
  const device::Device::Current current(staged.value()->device());
  TRY(current.status());
  return DeviceLayout::make(std::move(staged).value(), datatype::TypeLayout::bytes(bytes), 1, {});
}

Result<std::unique_ptr<DeviceReader>> reader_of(LayoutOnDevice layout, const void* at) {
  if (!layout.is_ok()) return layout.status();
  return DeviceReader::make({std::move(layout).value(), device::number_of(at)});
}
Result<std::unique_ptr<DeviceWriter>> writer_of(LayoutOnDevice layout, void* at) {
  if (!layout.is_ok()) return layout.status();
  return DeviceWriter::make({std::move(layout).value(), device::number_of(at)});
}

// Where data of any kind of memory goes by way of the host, so many bytes at a time.
template <class Read, class Write>
holdfast::Status pump(std::uint64_t bytes, const Read& read, const Write& write) {
  std::vector<std::byte> between(std::min(bytes, device_comm::kPieceBytes));
  for (std::uint64_t at = 0; at < bytes;) {
    const auto part = std::span(between).first(std::min<std::uint64_t>(bytes - at, between.size()));
    TRY(read(at, part));
    TRY(write(at, std::span<const std::byte>(part)));
    at += part.size();
  }
  return holdfast::Status::ok();
}

enum class Way : std::uint8_t { kPack, kUnpack };

// Both are memory of one device, which moves all of it.
holdfast::Status move_on(int ordinal, const Datatype& type, std::int64_t count, const void* at,
                         const std::byte* packed, Way way) {
  auto layout = layout_on(ordinal, type, count);
  if (!layout.is_ok()) return layout.status();
  const DeviceLayout& form = *layout.value();
  device::Device& on = form.device();
  const device::Device::Current current(on);
  TRY(current.status());
  const device::DevicePointer base = device::number_of(at);
  const device::DevicePointer run = device::number_of(packed);
  TRY(form.check(base));
  TRY(on.check_memory(run, form.bytes(), "a packed buffer"));
  const device::CuStream stream = form.staged().up();
  TRY(way == Way::kPack ? form.pack(base, {0, form.bytes()}, run, stream)
                        : form.unpack(base, {0, form.bytes()}, run, stream));
  return on.check(on.driver().stream_synchronize(stream), "packing");
}

// `from`, `to`: the devices of the two memories; nothing: the host.
holdfast::Status pack_between(std::optional<int> from, std::optional<int> to, const Datatype& type,
                              std::int64_t count, const void* at, std::byte* packed) {
  if (from == to) return move_on(*from, type, count, at, packed, Way::kPack);
  const std::uint64_t bytes = type.bytes_of(count);
  std::unique_ptr<DeviceReader> reader;
  if (from) {
    auto made = mpi::reader_of(*from, type, count, at);
    if (!made.is_ok()) return made.status();
    reader = std::move(made).value();
    if (!to) return reader->read(0, {packed, bytes});
  }
  auto writer = writer_of(bytes_on(*to, bytes), packed);
  if (!writer.is_ok()) return writer.status();
  const auto write = [&](std::uint64_t offset, std::span<const std::byte> part) {
    return writer.value()->write(offset, part);
  };
  if (reader) {
    TRY(pump(
        bytes, [&](auto offset, auto part) { return reader->read(offset, part); }, write));
  } else {
    const datatype::Packer packer = type.packer(count);
    const auto read = [&](std::uint64_t offset, std::span<std::byte> part) {
      packer.pack(static_cast<const std::byte*>(at), offset, part);
      return holdfast::Status::ok();
    };
    TRY(pump(bytes, read, write));
  }
  return writer.value()->finish();
}

holdfast::Status unpack_between(std::optional<int> from, std::optional<int> to,
                                const Datatype& type, std::int64_t count, const std::byte* packed,
                                void* at) {
  if (from == to) return move_on(*to, type, count, at, packed, Way::kUnpack);
  const std::uint64_t bytes = type.bytes_of(count);
  std::unique_ptr<DeviceWriter> writer;
  if (to) {
    auto made = mpi::writer_of(*to, type, count, at);
    if (!made.is_ok()) return made.status();
    writer = std::move(made).value();
    if (!from) {
      TRY(writer->write(0, {packed, bytes}));
      return writer->finish();
    }
  }
  auto reader = reader_of(bytes_on(*from, bytes), packed);
  if (!reader.is_ok()) return reader.status();
  const auto read = [&](std::uint64_t offset, std::span<std::byte> part) {
    return reader.value()->read(offset, part);
  };
  if (writer) {
    TRY(pump(bytes, read, [&](auto offset, auto part) { return writer->write(offset, part); }));
    return writer->finish();
  }
  const datatype::Packer packer = type.packer(count);
  return pump(bytes, read, [&](std::uint64_t offset, std::span<const std::byte> part) {
    packer.unpack(part, offset, static_cast<std::byte*>(at));
    return holdfast::Status::ok();
  });
}

}  // namespace

std::optional<int> device_of(const Datatype& type, std::int64_t count, const void* at) {
  if (count == 0 || type.layout.size() == 0) return std::nullopt;
  return process().devices.device_of(static_cast<const std::byte*>(at) + type.layout.origin());
}

Result<std::unique_ptr<DeviceReader>> reader_of(int device, const Datatype& type,
                                                std::int64_t count, const void* at) {
  return reader_of(layout_on(device, type, count), at);
}

Result<std::unique_ptr<DeviceWriter>> writer_of(int device, const Datatype& type,
                                                std::int64_t count, void* at) {
  return writer_of(layout_on(device, type, count), at);
}

Failure pack_elements(const Datatype& type, std::int64_t count, const void* at, std::byte* to) {
  const std::uint64_t bytes = type.bytes_of(count);
  if (bytes == 0) return {};
  const auto owner = device_of(type, count, at);
  const auto taker = process().devices.device_of(to);
  if (owner || taker) return failure_of(pack_between(owner, taker, type, count, at, to));
  type.packer(count).pack(static_cast<const std::byte*>(at), 0, {to, bytes});
  return {};
}

Failure unpack_elements(const Datatype& type, std::int64_t count, const std::byte* from, void* at) {
  const std::uint64_t bytes = type.bytes_of(count);
  if (bytes == 0) return {};
  const auto owner = device_of(type, count, at);
  const auto giver = process().devices.device_of(from);
  if (owner || giver) return failure_of(unpack_between(giver, owner, type, count, from, at));
  type.packer(count).unpack({from, bytes}, 0, static_cast<std::byte*>(at));
  return {};
}

Failure copy_from(const std::byte* at, std::span<std::byte> to) {
  const auto owner = process().devices.device_of(at);
  if (!owner) {
    copy_bytes(to.data(), at, to.size());
    return {};
  }
  auto reader = reader_of(bytes_on(*owner, to.size()), at);
  return failure_of(reader.is_ok() ? reader.value()->read(0, to) : reader.status());
}

Failure copy_to(std::byte* at, std::span<const std::byte> from) {
  const auto owner = process().devices.device_of(at);
  if (!owner) {
    copy_bytes(at, from.data(), from.size());
    return {};
  }
  auto writer = writer_of(bytes_on(*owner, from.size()), at);
  if (!writer.is_ok()) return failure_of(writer.status());
  static_cast<void>(writer.value()->write(0, from));
  return failure_of(writer.value()->finish());
}

}  // namespace holdfast::mpi

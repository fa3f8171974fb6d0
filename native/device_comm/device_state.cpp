#include "device_comm/device_state.h"

#include <algorithm>
#include <cstring>

#include "device/device_address.h"

namespace holdfast::device_comm {

using device::Device;
using device::DevicePointer;
using device::DigestBytes;
using device::HashChunk;

namespace {

// Chunks hashed at once: their sums, for chunks of 1 MiB, take 16 MiB of the device.
constexpr std::size_t kChunksAtOnce = 256;

}  // namespace

// Memory on the device: chunks, digests and sums, one behind the other; chunks and digests in
// pinned memory, too.
struct DeviceState::HashRoom {
  std::byte* pinned;
  DevicePointer device;
  std::uint64_t blocks;  // of the longest chunk
};

Result<std::unique_ptr<DeviceState>> DeviceState::make(std::shared_ptr<Staged> staged) {
  Device& device = staged->device();
  const Device::Current current(device);
  TRY(current.status());
  // The constructor is private: make_unique cannot call it.
  std::unique_ptr<DeviceState> made(new DeviceState(std::move(staged)));
  for (device::CuStream* stream : {&made->own_, &made->down_}) {
    auto opened = device.make_stream();
    if (!opened.is_ok()) return opened.status();
    *stream = opened.value();
  }
  return made;
}

DeviceState::~DeviceState() {
  Device& device = staged_->device();
  const Device::Current current(device);
  // A lost device has taken its memory along, whatever these calls return.
  for (const Packed& packed : packed_) {
    [[maybe_unused]] const Status freed = packed.release(device, own_);
  }
  for (const device::CuStream stream : {own_, down_}) {
    if (stream.value == nullptr) continue;
    device.driver().stream_synchronize(stream);
    device.driver().stream_destroy(stream);
  }
}

Status DeviceState::wait(device::CuStream stream, std::string_view what) const {
  const Device& device = staged_->device();
  return device.check(device.driver().stream_synchronize(stream), what);
}

Status DeviceState::follow(device::CuStream stream) {
  Device& device = staged_->device();
  const Device::Current current(device);
  TRY(current.status());
  TRY(device.check_capture(stream, "a sync of state"));
  TRY(device.order(stream, own_));
  return device.order(stream, down_);
}

Status DeviceState::hash(std::span<const HashChunk> chunks, std::span<DigestBytes> digests) {
  const Device::Current current(staged_->device());
  TRY(current.status());
  for (const HashChunk& chunk : chunks) {
    if (chunk.bytes == 0) continue;
    TRY(staged_->device().check_memory(device::number_of(chunk.data), chunk.bytes,
                                       "a chunk of state"));
  }
  for (std::size_t first = 0; first < chunks.size(); first += kChunksAtOnce) {
    const std::size_t count = std::min(kChunksAtOnce, chunks.size() - first);
    TRY(hash_some(chunks.subspan(first, count), digests.subspan(first, count)));
  }
  return Status::ok();
}

Status DeviceState::hash_some(std::span<const HashChunk> chunks, std::span<DigestBytes> digests) {
  Device& device = staged_->device();
  const std::uint64_t longest = std::ranges::max_element(chunks, {}, &HashChunk::bytes)->bytes;
  HashRoom room{nullptr, 0, device::most_hash_blocks(longest)};
  auto pinned = device.take(chunks.size_bytes() + digests.size_bytes());
  if (!pinned.is_ok()) return pinned.status();
  auto memory = device.allocate(chunks.size_bytes() + digests.size_bytes() +
                                    device::hash_workspace_bytes(chunks.size(), room.blocks),
                                own_);
  if (!memory.is_ok()) {
    device.give(pinned.value());
    return memory.status();
  }
  room.pinned = pinned.value().data;
  room.device = memory.value();
  const Status hashed = hash_in(room, chunks);
  // All enqueued work ends before the room is freed.
  const Status ended = wait(own_, "hashing state");
  if (hashed.is_ok() && ended.is_ok()) {
    std::memcpy(digests.data(), room.pinned + chunks.size_bytes(), digests.size_bytes());
  }
  Status freed = device.release(room.device, own_);
  device.give(pinned.value());
  TRY(hashed);
  TRY(ended);
  return freed;
}

Status DeviceState::hash_in(const HashRoom& room, std::span<const HashChunk> chunks) const {
  const Device& device = staged_->device();
  const std::uint64_t list = chunks.size_bytes();
  const std::uint64_t all_digests = chunks.size() * device::kDigestBytes;
  std::memcpy(room.pinned, chunks.data(), list);
  TRY(device.copy(room.device, device::number_of(room.pinned), list, own_));
  const DevicePointer digests = room.device + list;
  const device::HashArgument argument{
      .chunks = reinterpret_cast<const HashChunk*>(device::pointer_to(room.device)),
      .count = chunks.size(),
      .blocks = room.blocks,
      .sums = reinterpret_cast<std::uint64_t*>(device::pointer_to(digests + all_digests)),
      .digests = device::pointer_to(digests)};
  const std::uint64_t warps = argument.count * argument.blocks;
  device::LoadedKernels& kernels = staged_->kernels();
  if (warps > 0) {
    TRY(kernels.launch(device::hash_blocks_kernel(), 32 * warps, &argument, own_));
  }
  TRY(kernels.launch(device::hash_chunks_kernel(), 32 * argument.count, &argument, own_));
  return device.copy(device::number_of(room.pinned + list), digests, all_digests, own_);
}

Status DeviceState::down(std::byte* pinned, DevicePointer from, std::uint64_t bytes) {
  const Device::Current current(staged_->device());
  TRY(current.status());
  TRY(staged_->device().copy(device::number_of(pinned), from, bytes, down_));
  return wait(down_, "copying state down");
}

Status DeviceState::up(DevicePointer to, const std::byte* pinned, std::uint64_t bytes) {
  const Device::Current current(staged_->device());
  TRY(current.status());
  TRY(staged_->device().copy(to, device::number_of(pinned), bytes, own_));
  return wait(own_, "copying state up");
}

Result<DevicePointer> DeviceState::pack(const GappedArray& array) {
  Device& device = staged_->device();
  const Device::Current current(device);
  TRY(current.status());
  auto packed = Packed::make(staged_, array, true, own_);
  if (!packed.is_ok()) return packed.status();
  packed_.push_back(std::move(packed).value());
  TRY(packed_.back().pack(staged_->kernels(), own_));
  TRY(device.order(own_, down_));
  return packed_.back().at();
}

Status DeviceState::unpack() {
  const Device::Current current(staged_->device());
  TRY(current.status());
  for (const Packed& packed : packed_) TRY(packed.unpack(staged_->kernels(), own_));
  return wait(own_, "unpacking state");
}

}  // namespace holdfast::device_comm

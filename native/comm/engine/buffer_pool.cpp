#include "comm/engine/buffer_pool.h"

#include <algorithm>
#include <bit>

namespace holdfast::comm {
namespace {

constexpr std::size_t kBufferAlignment = 64;

}  // namespace

std::byte* BufferPool::Buffer::data() const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
  return memory.get() + (kBufferAlignment - address % kBufferAlignment) % kBufferAlignment;
}

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  const auto fits = [&](const Buffer& b) {
    return b.capacity >= bytes && b.capacity <= 4 * std::bit_ceil(bytes);
  };
  const auto found = std::find_if(idle_.begin(), idle_.end(), fits);
  if (found != idle_.end()) {
    Buffer buffer = std::move(*found);
    idle_bytes_ -= buffer.capacity;
    *found = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  const std::size_t capacity = std::bit_ceil(bytes);
  // Uninitialised on purpose: every byte is written before it is read.
  return {std::unique_ptr<std::byte[]>(new std::byte[capacity + kBufferAlignment]), capacity};
}

void BufferPool::give(Buffer buffer) {
  if (buffer.capacity == 0 || idle_bytes_ + buffer.capacity > kMaxIdleBytes) return;
  idle_bytes_ += buffer.capacity;
  idle_.push_back(std::move(buffer));
}

}  // namespace holdfast::comm

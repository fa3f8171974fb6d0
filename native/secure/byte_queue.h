// Bytes that are added at one end and taken at the other, in one piece of memory: what is to be
// sent, and what was received. Unlike a vector it does not write zeros before its bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace holdfast::secure {

// One thread at a time.
class ByteQueue {
 public:
  std::span<const std::byte> front() const { return {memory_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }

  // Room behind the last byte, at least `least` bytes; `added` says how many were written there.
  std::span<std::byte> room(std::size_t least) {
    if (capacity_ - end_ < least) make_room(least);
    return {memory_.get() + end_, capacity_ - end_};
  }
  void added(std::size_t size) { end_ += size; }
  void add(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
    added(bytes.size());
  }

  // Forgets the first `size` bytes. An empty queue keeps its memory up to a bound, for the next.
  void drop(std::size_t size) {
    begin_ += std::min(size, end_ - begin_);
    if (begin_ < end_) return;
    begin_ = end_ = 0;
    if (capacity_ <= kKept) return;
    memory_.reset();
    capacity_ = 0;
  }

 private:
  // Fresh pages cost as much as encrypting them. Who hands over smaller pieces keeps less.
  static constexpr std::size_t kKept = std::size_t{2} << 20;

  void make_room(std::size_t least) {
    const std::size_t size = end_ - begin_;
    if (capacity_ - size < least || begin_ < capacity_ / 2) {
      const std::size_t larger = std::max(size + least, 2 * size);
      auto memory = std::make_unique_for_overwrite<std::byte[]>(larger);
      if (size > 0) std::memcpy(memory.get(), memory_.get() + begin_, size);
      memory_ = std::move(memory);
      capacity_ = larger;
    } else {
      std::memmove(memory_.get(), memory_.get() + begin_, size);
    }
    begin_ = 0;
    end_ = size;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace holdfast::secure

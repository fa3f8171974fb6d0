// Runs rows of the kernels' catalogue: on the emulator, and on a GPU where there is one. The same
// tests for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "device/kernel.h"

namespace holdfast::device {

// Memory that kernels reach, exactly so long that a sanitizer sees what goes beyond it; `offset`
// bytes off a vector's alignment.
class Memory {
 public:
  explicit Memory(std::size_t bytes, std::size_t offset = 0)
      : size_(bytes),
        offset_(offset),
        bytes_(new (std::align_val_t{16}) std::byte[bytes + offset]) {
    std::memset(bytes_.get(), 0x5a, bytes + offset);
  }
  Memory(const std::vector<std::byte>& from, std::size_t offset) : Memory(from.size(), offset) {
    if (!from.empty()) std::memcpy(data(), from.data(), from.size());
  }

  std::byte* data() const { return bytes_.get() + offset_; }
  std::size_t size() const { return size_; }
  std::vector<std::byte> copy() const { return {data(), data() + size_}; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { operator delete[](bytes, std::align_val_t{16}); }
  };
  std::size_t size_;
  std::size_t offset_;
  std::unique_ptr<std::byte[], Free> bytes_;
};

template <class Argument>
void run(const KernelRow& row, std::uint32_t blocks, const Argument& argument) {
  REQUIRE(sizeof argument == row.argument_bytes);
  row.emulate({blocks, kThreads}, &argument);
}

}  // namespace holdfast::device

// Buffer pool: scratch memory of ops, kept between ops so that the hot path neither allocates nor
// takes page faults. Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast::comm {

class BufferPool {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
    // First cache-line boundary in memory; capacity counts from here.
    std::byte* data() const;
  };

  Buffer take(std::size_t bytes);
  void give(Buffer buffer);

 private:
  // Idle memory beyond this many bytes goes back to the system.
  static constexpr std::size_t kMaxIdleBytes = 256 << 20;
  std::vector<Buffer> idle_;
  std::size_t idle_bytes_ = 0;
};

}  // namespace holdfast::comm

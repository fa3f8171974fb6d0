// Recycler: memory of short-lived objects, kept for the next objects of about the same size, so
// that objects made for every op cost no allocation once the highest number in flight has been
// reached. Objects that are too large for it come from the system. Any thread.
// Why: docs/decisions/0062-kept-for-the-next-op.md
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace holdfast {

class Recycler {
 public:
  // In bytes; larger objects are rare.
  static constexpr std::size_t kLargest = 2048;

  Recycler() = default;
  Recycler(const Recycler&) = delete;
  Recycler& operator=(const Recycler&) = delete;
  ~Recycler() {
    for (Idle* idle : idle_) {
      while (idle != nullptr) ::operator delete(std::exchange(idle, idle->next));
    }
  }

  // Memory aligned as by operator new.
  void* take(std::size_t bytes) {
    if (bytes > kLargest) return ::operator new(bytes);
    {
      const std::lock_guard lock(mutex_);
      Idle*& idle = idle_[size_class(bytes)];
      if (idle != nullptr) return std::exchange(idle, idle->next);
    }
    return ::operator new((size_class(bytes) + 1) * kStep);
  }

  // `bytes`: as given to take().
  void give(void* memory, std::size_t bytes) {
    if (bytes > kLargest) return ::operator delete(memory);
    const std::lock_guard lock(mutex_);
    Idle*& idle = idle_[size_class(bytes)];
    idle = new (memory) Idle{idle};
  }

 private:
  struct Idle {
    Idle* next;
  };
  static constexpr std::size_t kStep = 64;
  static std::size_t size_class(std::size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / kStep; }

  std::mutex mutex_;  // guards idle_
  std::array<Idle*, kLargest / kStep> idle_{};
};

// An allocator for allocate_shared. Owners of the recycler: its maker, and every object from it.
template <class T>
class RecyclingAllocator {
 public:
  using value_type = T;
  explicit RecyclingAllocator(std::shared_ptr<Recycler> recycler)
      : recycler_(std::move(recycler)) {}
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>& other) : recycler_(other.recycler()) {}

  T* allocate(std::size_t count) { return static_cast<T*>(recycler_->take(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { recycler_->give(memory, count * sizeof(T)); }

  const std::shared_ptr<Recycler>& recycler() const { return recycler_; }
  template <class U>
  friend bool operator==(const RecyclingAllocator& a, const RecyclingAllocator<U>& b) {
    return a.recycler() == b.recycler();
  }

 private:
  std::shared_ptr<Recycler> recycler_;
};

}  // namespace holdfast

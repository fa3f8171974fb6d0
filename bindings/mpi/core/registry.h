// Registry: all objects of the process, by kind and number. Making and freeing take a lock;
// looking up does not, so entry points may do it at every call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/check.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

// Objects of a kind: handles of ABIs whose handles are integers have 26 bits for a number.
inline constexpr std::int32_t kMostObjects = 1 << 26;
inline constexpr std::int32_t kSlotsPerPage = 1 << 12;
// A number is given again only after this many others, so that a stale handle is seen for long.
inline constexpr std::size_t kNumbersHeldBack = 256;

class Registry {
 public:
  Registry() = default;
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Makes an object of T (T::kKind) with a number of its own; null: too many of its kind.
  template <class T, class... Args>
  T* make(Args&&... args) {
    void* memory = take(T::kKind, sizeof(T));
    if (memory == nullptr) return nullptr;
    T* object = new (memory) T(std::forward<Args>(args)...);
    admit(*object);
    return object;
  }
  // As make(), for what the program has no handle of: hand_out() gives it one.
  template <class T, class... Args>
  T* make_own(Args&&... args) {
    T* object = make<T>(std::forward<Args>(args)...);
    if (object != nullptr) object->handles.store(0, std::memory_order_relaxed);
    return object;
  }
  // As make(), with this number, which is below kFirstMade, for what MPI predefines.
  template <class T, class... Args>
  T* predefine(std::int32_t number, Args&&... args) {
    T* object = new (::operator new(sizeof(T))) T(std::forward<Args>(args)...);
    object->predefined = true;
    enter(*object, number);
    return object;
  }
  // Null: there is none.
  Object* find(Kind kind, std::int32_t number) const {
    if (number < 0 || number >= kMostObjects) return nullptr;
    const OfKind& of = kinds_[index(kind)];
    const Page* page =
        of.pages[static_cast<std::size_t>(number / kSlotsPerPage)].load(std::memory_order_acquire);
    if (page == nullptr) return nullptr;
    return page->slots[static_cast<std::size_t>(number % kSlotsPerPage)].load(
        std::memory_order_acquire);
  }

  template <class T>
  static T* use(T* object) {
    if (object != nullptr) object->uses.fetch_add(1, std::memory_order_relaxed);
    return object;
  }
  // Drops a use; the last one ends the object. Predefined objects stay.
  template <class T>
  void drop(T* object) {
    if (object == nullptr || object->predefined) return;
    if (object->uses.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    leave(*object);
    object->~T();
    give_back(object, T::kKind);
  }
  // Gives the program a handle more, and with it a use.
  template <class T>
  T* hand_out(T* object) {
    if (object == nullptr || object->predefined) return object;
    use(object);
    if (object->handles.fetch_add(1, std::memory_order_acq_rel) == 0) show(*object);
    return object;
  }
  // The program has freed a handle, and with it a use. With the last one the object is no longer
  // found, whatever else uses it: the handle may still lie somewhere in the program.
  template <class T>
  void take_back(T* object) {
    if (object == nullptr || object->predefined) return;
    if (object->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) hide(*object);
    drop(object);
  }
  // As take_back(), and the use stays.
  template <class T>
  void take_handle(T* object) {
    object->handles.fetch_sub(1, std::memory_order_acq_rel);
    hide(*object);
  }
  // Objects that programs made and have not freed.
  std::size_t count(Kind kind) const;

 private:
  struct Page {
    std::array<std::atomic<Object*>, kSlotsPerPage> slots{};
  };
  struct OfKind {
    std::mutex mutex;  // guards all below but the pages, which readers read
    std::array<std::atomic<Page*>, kMostObjects / kSlotsPerPage> pages{};
    std::deque<std::int32_t> free_numbers;
    std::deque<void*> free_memory;  // of one size: that of the kind's class
    std::int32_t next_number = kFirstMade;
    std::size_t made = 0;
  };
  static std::size_t index(Kind kind) {
    const std::uint32_t at =
        static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(Kind::kComm);
    CHECK(at < kKinds);
    return at;
  }
  void* take(Kind kind, std::size_t bytes);
  void give_back(void* memory, Kind kind);
  void admit(Object& object);
  void enter(Object& object, std::int32_t number);
  void show(Object& object);
  void hide(Object& object);
  void leave(Object& object);

  std::array<OfKind, kKinds> kinds_;
};

}  // namespace holdfast::mpi

#include "mpi/core/registry.h"

namespace holdfast::mpi {

Registry::~Registry() {
  for (OfKind& of : kinds_) {
    for (auto& page : of.pages) delete page.load(std::memory_order_relaxed);
  }
}

void* Registry::take(Kind kind, std::size_t bytes) {
  OfKind& of = kinds_[index(kind)];
  const std::lock_guard lock(of.mutex);
  if (of.free_numbers.size() <= kNumbersHeldBack && of.next_number == kMostObjects) return nullptr;
  if (of.free_memory.size() <= kNumbersHeldBack) return ::operator new(bytes);
  void* memory = of.free_memory.front();
  of.free_memory.pop_front();
  return memory;
}

void Registry::give_back(void* memory, Kind kind) {
  // The object's destructor has run; its first words say so to whoever follows a stale handle.
  auto* object = new (memory) Object(Kind::kFreed);
  object->self = object;
  OfKind& of = kinds_[index(kind)];
  const std::lock_guard lock(of.mutex);
  of.free_memory.push_back(memory);
}

void Registry::admit(Object& object) {
  OfKind& of = kinds_[index(object.kind)];
  std::int32_t number = 0;
  {
    const std::lock_guard lock(of.mutex);
    if (of.free_numbers.size() > kNumbersHeldBack || of.next_number == kMostObjects) {
      number = of.free_numbers.front();
      of.free_numbers.pop_front();
    } else {
      number = of.next_number++;
    }
    ++of.made;
  }
  enter(object, number);
}

void Registry::enter(Object& object, std::int32_t number) {
  OfKind& of = kinds_[index(object.kind)];
  object.number = number;
  auto& slot = of.pages[static_cast<std::size_t>(number / kSlotsPerPage)];
  Page* page = slot.load(std::memory_order_acquire);
  if (page == nullptr) {
    const std::lock_guard lock(of.mutex);
    page = slot.load(std::memory_order_acquire);
    if (page == nullptr) slot.store(page = new Page, std::memory_order_release);
  }
  page->slots[static_cast<std::size_t>(number % kSlotsPerPage)].store(&object,
                                                                      std::memory_order_release);
}

void Registry::show(Object& object) {
  // Release: who finds it by its address, or by its number, sees the object.
  std::atomic_ref(object.self).store(&object, std::memory_order_release);
  enter(object, object.number);
}

void Registry::hide(Object& object) {
  OfKind& of = kinds_[index(object.kind)];
  std::atomic_ref(object.self).store(nullptr, std::memory_order_release);
  Page* page = of.pages[static_cast<std::size_t>(object.number / kSlotsPerPage)].load(
      std::memory_order_acquire);
  page->slots[static_cast<std::size_t>(object.number % kSlotsPerPage)].store(
      nullptr, std::memory_order_release);
}

void Registry::leave(Object& object) {
  OfKind& of = kinds_[index(object.kind)];
  hide(object);
  const std::lock_guard lock(of.mutex);
  of.free_numbers.push_back(object.number);
  --of.made;
}

std::size_t Registry::count(Kind kind) const {
  const OfKind& of = kinds_[index(kind)];
  return of.made;
}

}  // namespace holdfast::mpi

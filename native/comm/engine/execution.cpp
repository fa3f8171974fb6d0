#include "comm/engine/execution.h"

#include <new>

namespace holdfast::comm {
namespace {

// Precedes every object in memory, so that delete knows where the memory came from.
struct alignas(std::max_align_t) Origin {
  Recycler* recycler;  // null: allocated by the system
  std::size_t bytes;
};

void* place(void* memory, const Origin& origin) { return new (memory) Origin(origin) + 1; }

}  // namespace

void* Execution::operator new(std::size_t bytes, Recycler& recycler) {
  bytes += sizeof(Origin);
  return place(recycler.take(bytes), {&recycler, bytes});
}

void* Execution::operator new(std::size_t bytes) {
  bytes += sizeof(Origin);
  return place(::operator new(bytes), {nullptr, bytes});
}

void Execution::operator delete(void* memory) {
  auto* origin = static_cast<Origin*>(memory) - 1;
  if (origin->recycler == nullptr) return ::operator delete(origin);
  origin->recycler->give(origin, origin->bytes);
}

// Called when a constructor throws.
void Execution::operator delete(void* memory, Recycler&) { operator delete(memory); }

}  // namespace holdfast::comm

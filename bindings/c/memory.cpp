// Memory of the pool for the C interface. In front of each piece lies a reference to its pool.
#include <cstdint>
#include <new>

#include "handles.h"

using namespace holdfast;

namespace {

using Owner = std::shared_ptr<comm::MemoryPool>;
// The pool's alignment.
constexpr std::size_t kOwnerBytes = 64;
static_assert(sizeof(Owner) <= kOwnerBytes);

}  // namespace

hf_status hf_allocate(hf_node* node, size_t bytes, void** memory) {
  return c::guarded([&]() -> Status {
    if (node == nullptr || memory == nullptr) return c::missing("node or memory");
    const auto pool = node->node->pool();
    const bool fits = bytes <= SIZE_MAX - kOwnerBytes;
    std::byte* data = fits ? pool->allocate(bytes + kOwnerBytes) : nullptr;
    if (data == nullptr) {
      return {Code::kSystem, "no memory left for " + std::to_string(bytes) + " bytes"};
    }
    new (data) Owner(pool);
    *memory = data + kOwnerBytes;
    return Status::ok();
  });
}

void hf_release(void* memory) {
  if (memory == nullptr) return;
  std::byte* data = static_cast<std::byte*>(memory) - kOwnerBytes;
  auto* owner = std::launder(reinterpret_cast<Owner*>(data));
  const Owner pool = std::move(*owner);
  owner->~Owner();
  pool->release(data);
}

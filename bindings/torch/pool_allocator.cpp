#include "pool_allocator.h"

#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>

#include "raise.h"

namespace holdfast::torch_backend {
namespace {

struct Held {
  std::shared_ptr<comm::MemoryPool> pool;
  std::byte* data;
};

class PoolAllocator final : public c10::Allocator {
 public:
  explicit PoolAllocator(std::shared_ptr<comm::MemoryPool> pool) : pool_(std::move(pool)) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    std::byte* data = pool_->allocate(bytes);
    if (data == nullptr) {
      raise({Code::kSystem, "no memory left for a tensor of " + std::to_string(bytes) + " bytes"});
    }
    const auto give_back = [](void* pointer) {
      const std::unique_ptr<Held> held(static_cast<Held*>(pointer));
      held->pool->release(held->data);
    };
    return {data, new Held{pool_, data}, give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  const std::shared_ptr<comm::MemoryPool> pool_;  // owners: see Node::pool()
};

}  // namespace

std::shared_ptr<c10::Allocator> make_allocator(std::shared_ptr<comm::MemoryPool> pool) {
  return std::make_shared<PoolAllocator>(std::move(pool));
}

at::Tensor allocate_tensor(c10::Allocator& allocator, std::int64_t elements,
                           const at::TensorOptions& options) {
  if (elements < 0 || !options.device().is_cpu()) {
    raise({Code::kConfigError, "a tensor of " + std::to_string(elements) + " elements on " +
                                   options.device().str() + "; accepted: 0 and more, on the CPU"});
  }
  const std::size_t bytes = static_cast<std::size_t>(elements) * options.dtype().itemsize();
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, allocator.allocate(bytes));
  return at::empty({0}, options).set_(storage, 0, {elements}, {1});
}

}  // namespace holdfast::torch_backend

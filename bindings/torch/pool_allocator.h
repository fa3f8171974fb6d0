// The memory pool as an allocator of torch: the other ranks of the host read its tensors in place.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>

#include "comm/transport/pool.h"

namespace holdfast::torch_backend {

// Allocates CPU memory of the pool. Tensors keep the pool alive, and may outlive the allocator.
std::shared_ptr<c10::Allocator> make_allocator(std::shared_ptr<comm::MemoryPool> pool);

// A tensor of one dimension, uninitialised. Throws when there is no memory, or for another device.
at::Tensor allocate_tensor(c10::Allocator& allocator, std::int64_t elements,
                           const at::TensorOptions& options);

}  // namespace holdfast::torch_backend

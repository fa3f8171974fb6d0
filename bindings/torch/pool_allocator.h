// torch's face of the memory pool: tensors that the other ranks of the host read where they lie.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>

#include "comm/transport/pool.h"

namespace holdfast::torch_backend {

// CPU memory of the pool. Tensors keep the pool; they may outlive the allocator.
std::shared_ptr<c10::Allocator> make_allocator(std::shared_ptr<comm::MemoryPool> pool);

// Of one dimension, uninitialised. Throws when there is no memory, or for another device.
at::Tensor allocate_tensor(c10::Allocator& allocator, std::int64_t elements,
                           const at::TensorOptions& options);

}  // namespace holdfast::torch_backend

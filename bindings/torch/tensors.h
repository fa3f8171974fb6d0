// Tensors as blocks: reads from torch tensors what the runtime needs, and refuses unsupported ones.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "comm/schedule/layout.h"
#include "device_comm/virtual_blocks.h"

namespace holdfast::torch_backend {

// The tensors of one op: keeps them alive, gives non-contiguous ones a contiguous copy, and copies
// results back.
class Tensors {
 public:
  // `op` names the collective in errors.
  explicit Tensors(std::string op) : op_(std::move(op)) {}

  // The block of a tensor's elements. Throws for sparse tensors, other devices, mixed dtypes and
  // devices, and for an output on a CUDA device that is a conjugated or negated view: its copy back
  // would come after the streams that wait for the op. Non-contiguous outputs on CUDA devices are
  // packed and unpacked as part of the op.
  comm::Block input(const at::Tensor& tensor);
  comm::Block output(const at::Tensor& tensor);
  // The block of a tensor that is read and written in place.
  comm::Block both(const at::Tensor& tensor) { return output(tensor); }

  // The op's dtype: any dtype can be moved, as bytes, but only known ones can be reduced.
  DType moved() const { return moves_bytes_ ? DType::kU8 : dtype_; }
  DType reduced() const;
  // The device of all tensors; the CPU when there are none.
  c10::Device device() const { return device_; }
  // The outputs on a CUDA device that are not contiguous.
  const std::vector<device_comm::VirtualBlock>& virtual_blocks() const { return virtual_blocks_; }
  // Copies results back; call it after the op.
  void store_results();
  // Adds a step that store_results() runs, besides copying back.
  void when_stored(std::function<void()> then) { then_ = std::move(then); }

  // Cuts a block into `count` equal blocks, or into blocks of the tensor's rows.
  std::vector<comm::Block> equal(const comm::Block& whole, int count) const;
  std::vector<comm::Block> rows(const comm::Block& whole, const at::Tensor& tensor, int count,
                                const std::vector<int64_t>& splits) const;

 private:
  comm::Block block(const at::Tensor& contiguous);
  comm::Block gapped(const at::Tensor& tensor);
  void check(const at::Tensor& tensor);

  std::string op_;
  bool started_ = false;
  bool moves_bytes_ = false;
  at::ScalarType scalar_type_ = at::kFloat;
  DType dtype_ = DType::kF32;
  c10::Device device_ = at::kCPU;
  std::vector<at::Tensor> held_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // (caller's, contiguous copy)
  std::vector<device_comm::VirtualBlock> virtual_blocks_;
  std::function<void()> then_;
};

}  // namespace holdfast::torch_backend

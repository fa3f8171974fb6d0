#include "tensors.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/InferenceMode.h>

#include "raise.h"

namespace holdfast::torch_backend {
namespace {

std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool: return DType::kBool;
    case at::kByte: return DType::kU8;
    case at::kChar: return DType::kI8;
    case at::kUInt16: return DType::kU16;
    case at::kShort: return DType::kI16;
    case at::kUInt32: return DType::kU32;
    case at::kInt: return DType::kI32;
    case at::kUInt64: return DType::kU64;
    case at::kLong: return DType::kI64;
    case at::kHalf: return DType::kF16;
    case at::kBFloat16: return DType::kBF16;
    case at::kFloat8_e4m3fn: return DType::kF8E4M3;
    case at::kFloat8_e5m2: return DType::kF8E5M2;
    case at::kFloat: return DType::kF32;
    case at::kDouble: return DType::kF64;
    case at::kComplexFloat: return DType::kC64;
    case at::kComplexDouble: return DType::kC128;
    default: return std::nullopt;
  }
}

// The tensor itself if its memory holds its values in order, else such a copy: a tensor may have
// strides, or flags that conjugate or negate its values when read.
at::Tensor plain(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

// Whether a tensor has elements but no memory: it wraps other tensors, or its storage was freed.
// torch then reports the address 0 plus the offset of the view.
bool has_no_memory(const at::Tensor& tensor) {
  try {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
    const auto offset = static_cast<std::uint64_t>(tensor.storage_offset()) * tensor.element_size();
    return address == offset && tensor.numel() > 0;
  } catch (const c10::Error&) {  // some kinds of tensors throw
    return true;
  }
}

}  // namespace

void Tensors::check(const at::Tensor& tensor) {
  if (!tensor.defined()) raise({Code::kConfigError, op_ + ": an undefined tensor"});
  const bool near = tensor.device().is_cpu() || tensor.device().is_cuda();
  if (!near || tensor.layout() != at::kStrided) {
    raise({Code::kUnsupported, op_ + ": a " + c10::str(tensor.layout()) + " tensor on " +
                                   tensor.device().str() +
                                   "; accepted: dense (strided) tensors on cpu or cuda"});
  }
  if (has_no_memory(tensor)) {
    raise({Code::kConfigError, op_ + ": a tensor that has no memory of its own: it stands for " +
                                   "others, as a DTensor does, or its storage was freed; " +
                                   "accepted: plain tensors; of a DTensor its local part, " +
                                   "to_local()"});
  }
  if (started_ && tensor.device() != device_) {
    raise({Code::kConfigError, op_ + ": tensors on " + device_.str() + " and " +
                                   tensor.device().str() + " in one call; accepted: one device"});
  }
  if (started_ && tensor.scalar_type() != scalar_type_) {
    raise({Code::kConfigError, op_ + ": tensors of " + c10::str(scalar_type_) + " and " +
                                   c10::str(tensor.scalar_type()) + " in one call"});
  }
  if (started_) return;
  started_ = true;
  device_ = tensor.device();
  scalar_type_ = tensor.scalar_type();
  const std::optional<DType> known = dtype_of(scalar_type_);
  moves_bytes_ = !known.has_value();
  dtype_ = known.value_or(DType::kU8);
}

DType Tensors::reduced() const {
  if (moves_bytes_) {
    raise({Code::kUnsupported,
           op_ + ": dtype " + c10::str(scalar_type_) + " can be moved but not reduced"});
  }
  return dtype_;
}

comm::Block Tensors::block(const at::Tensor& contiguous) {
  held_.push_back(contiguous);
  const auto elements = static_cast<std::uint64_t>(contiguous.numel());
  const std::uint64_t count = moves_bytes_ ? elements * contiguous.element_size() : elements;
  return {static_cast<std::byte*>(contiguous.data_ptr()), count};
}

comm::Block Tensors::input(const at::Tensor& tensor) {
  check(tensor);
  return block(plain(tensor));
}

comm::Block Tensors::output(const at::Tensor& tensor) {
  check(tensor);
  const bool as_read = !tensor.is_conj() && !tensor.is_neg();
  if (as_read && tensor.is_contiguous()) return block(tensor);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    raise({Code::kConfigError, op_ + ": an output of which several elements are one memory (" +
                                   "expanded?); pass a clone()"});
  }
  if (device_.is_cuda()) return gapped(tensor);
  copies_.emplace_back(tensor, plain(tensor));
  return block(copies_.back().second);
}

comm::Block Tensors::gapped(const at::Tensor& tensor) {
  if (tensor.is_conj() || tensor.is_neg()) {
    raise({Code::kUnsupported, op_ + ": an output on " + device_.str() +
                                   " that is a conjugated or negated view; accepted: its " +
                                   "resolve_conj() or resolve_neg()"});
  }
  held_.push_back(tensor);
  const auto bytes = static_cast<std::uint64_t>(tensor.element_size());
  device_comm::VirtualBlock one{
      device_comm::virtual_block_address(virtual_blocks_.size()),
      {reinterpret_cast<device::DevicePointer>(tensor.data_ptr()), {bytes, {}, {}}},
      true};
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    one.array.shape.count.push_back(static_cast<std::uint64_t>(tensor.size(d)));
    one.array.shape.stride.push_back(tensor.stride(d) * static_cast<std::int64_t>(bytes));
  }
  const auto elements = static_cast<std::uint64_t>(tensor.numel());
  virtual_blocks_.push_back(std::move(one));
  return {
      reinterpret_cast<std::byte*>(virtual_blocks_.back().at),  // NOLINT(performance-no-int-to-ptr)
      moves_bytes_ ? elements * bytes : elements};
}

void Tensors::store_results() {
  if (const auto then = std::exchange(then_, nullptr)) then();
  if (copies_.empty()) return;
  // The copies are hidden from autograd, and allowed when the caller's tensors were made in this
  // mode.
  const c10::InferenceMode no_autograd;
  for (auto& [original, copy] : copies_) original.copy_(copy);
  copies_.clear();
}

std::vector<comm::Block> Tensors::equal(const comm::Block& whole, int count) const {
  const auto n = static_cast<std::uint64_t>(count);
  if (whole.count % n != 0) {
    raise({Code::kConfigError, op_ + ": " + std::to_string(whole.count) + " elements are not " +
                                   std::to_string(count) + " equal blocks"});
  }
  const std::uint64_t each = whole.count / n;
  std::vector<comm::Block> blocks;
  for (std::uint64_t i = 0; i < n; ++i) {
    blocks.push_back({whole.data + i * each * dtype_bytes(moved()), each});
  }
  return blocks;
}

std::vector<comm::Block> Tensors::rows(const comm::Block& whole, const at::Tensor& tensor,
                                       int count, const std::vector<int64_t>& splits) const {
  if (splits.empty()) return equal(whole, count);
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  int64_t sum = 0;
  for (const int64_t split : splits) sum += split < 0 ? rows + 1 : split;
  if (splits.size() != static_cast<std::size_t>(count) || sum != rows) {
    raise({Code::kConfigError, op_ + ": split sizes " + c10::str(at::IntArrayRef(splits)) +
                                   "; accepted: " + std::to_string(count) +
                                   " numbers >= 0 that add up to the first dimension, " +
                                   std::to_string(rows)});
  }
  const std::uint64_t row = rows == 0 ? 0 : whole.count / static_cast<std::uint64_t>(rows);
  std::vector<comm::Block> blocks;
  std::byte* at = whole.data;
  for (const int64_t split : splits) {
    const std::uint64_t elements = static_cast<std::uint64_t>(split) * row;
    blocks.push_back({at, elements});
    at += elements * dtype_bytes(moved());
  }
  return blocks;
}

}  // namespace holdfast::torch_backend

// Plain arrays: NumPy arrays and CPU tensors of torch that are one run of elements in this
// machine's byte order. They are inspected natively, because inspection in Python costs a small op
// more than moving its data. Any other object takes the path through holdfast.comm.requests, with
// its checks and copies.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace holdfast::bindings {

class PlainArray {
 public:
  // nullopt when `object` is not plain. `written`: whether the op writes the array.
  static std::optional<PlainArray> of(nanobind::handle object, bool written);

  PlainArray(PlainArray&& other) noexcept;
  PlainArray& operator=(PlainArray&&) = delete;
  ~PlainArray();

  DType dtype() const { return dtype_; }
  std::byte* data() const { return data_; }
  std::uint64_t count() const { return count_; }

 private:
  PlainArray(void* data, std::uint64_t count, DType dtype)
      : data_(static_cast<std::byte*>(data)), count_(count), dtype_(dtype) {}
  static std::optional<PlainArray> of_numpy(nanobind::handle array, bool written);
  static std::optional<PlainArray> of_torch(nanobind::handle tensor);

  std::byte* data_;
  std::uint64_t count_;
  DType dtype_;
  Py_buffer view_{};  // keeps NumPy's memory; obj is null for torch
};

}  // namespace holdfast::bindings

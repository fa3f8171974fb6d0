// Plain arrays: NumPy arrays and CPU tensors of torch that are one run of elements of this
// machine's. They are looked at natively: Python's look costs a small op more than moving its data.
// Whatever else a caller passes is none of these, and takes the way through holdfast.comm.requests,
// with its checks and copies.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace holdfast::bindings {

class PlainArray {
 public:
  // `written`: whether the op writes it.
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
  Py_buffer view_{};  // NumPy's promise that the memory stays; obj is null where there is none
};

}  // namespace holdfast::bindings

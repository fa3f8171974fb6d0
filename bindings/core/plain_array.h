// Plain arrays: NumPy arrays that are one run of elements of this machine's. They are looked at
// without Python's help, which costs a small op more than moving its data. Whatever else a caller
// passes is none of these, and takes the way through holdfast.comm.requests, with its checks and
// copies.
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
  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  std::uint64_t count() const {
    return static_cast<std::uint64_t>(view_.len) / dtype_bytes(dtype_);
  }

 private:
  PlainArray(const Py_buffer& view, DType dtype) : view_(view), dtype_(dtype) {}

  Py_buffer view_;  // obj is null when another one has taken over
  DType dtype_;
};

}  // namespace holdfast::bindings

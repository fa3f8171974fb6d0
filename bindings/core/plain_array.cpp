#include "plain_array.h"

#include <string_view>

namespace nb = nanobind;

namespace holdfast::bindings {
namespace {

bool is_numpy(nb::handle object) {
  // Lives as long as the interpreter.
  static PyObject* const type =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(type)) != 0;
}

DType whole(bool is_signed, Py_ssize_t bytes) {
  switch (bytes) {
    case 1: return is_signed ? DType::kI8 : DType::kU8;
    case 2: return is_signed ? DType::kI16 : DType::kU16;
    case 4: return is_signed ? DType::kI32 : DType::kU32;
    default: return is_signed ? DType::kI64 : DType::kU64;
  }
}

// Of the codes of Python's struct module; none for another byte order.
std::optional<DType> dtype_of(std::string_view format, Py_ssize_t bytes) {
  if (format == "Zf") return DType::kC64;
  if (format == "Zd") return DType::kC128;
  if (format.size() != 1) return std::nullopt;
  switch (format[0]) {
    case '?': return DType::kBool;
    case 'e': return DType::kF16;
    case 'f': return DType::kF32;
    case 'd': return DType::kF64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return whole(true, bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return whole(false, bytes);
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<PlainArray> PlainArray::of(nb::handle object, bool written) {
  if (!is_numpy(object)) return std::nullopt;
  Py_buffer view;
  const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto dtype = dtype_of(view.format == nullptr ? "B" : view.format, view.itemsize);
  if (!dtype) {
    PyBuffer_Release(&view);
    return std::nullopt;
  }
  return PlainArray(view, *dtype);
}

PlainArray::PlainArray(PlainArray&& other) noexcept : view_(other.view_), dtype_(other.dtype_) {
  other.view_.obj = nullptr;
}

PlainArray::~PlainArray() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace holdfast::bindings

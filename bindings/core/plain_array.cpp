#include "plain_array.h"

#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace holdfast::bindings {
namespace {

// Looks up a type; the reference lives as long as the interpreter.
PyTypeObject* type_named(const char* module, const char* name) {
  nb::object type = nb::module_::import_(module).attr(name);
  return reinterpret_cast<PyTypeObject*>(type.release().ptr());
}

DType whole(bool is_signed, Py_ssize_t bytes) {
  switch (bytes) {
    case 1: return is_signed ? DType::kI8 : DType::kU8;
    case 2: return is_signed ? DType::kI16 : DType::kU16;
    case 4: return is_signed ? DType::kI32 : DType::kU32;
    default: return is_signed ? DType::kI64 : DType::kU64;
  }
}

// The dtype of a format code of Python's struct module; nullopt for another byte order.
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

// torch's types; each of its dtypes is one Python object.
struct Torch {
  PyTypeObject* tensor = type_named("torch", "Tensor");
  nb::handle strided = nb::object(nb::module_::import_("torch").attr("strided")).release();
  std::vector<std::pair<PyObject*, DType>> dtypes;

  Torch() {
    constexpr std::pair<const char*, DType> kNames[] = {
        {"bool", DType::kBool},
        {"uint8", DType::kU8},
        {"int8", DType::kI8},
        {"uint16", DType::kU16},
        {"int16", DType::kI16},
        {"uint32", DType::kU32},
        {"int32", DType::kI32},
        {"uint64", DType::kU64},
        {"int64", DType::kI64},
        {"float16", DType::kF16},
        {"bfloat16", DType::kBF16},
        {"float8_e4m3fn", DType::kF8E4M3},
        {"float8_e5m2", DType::kF8E5M2},
        {"float32", DType::kF32},
        {"float64", DType::kF64},
        {"complex64", DType::kC64},
        {"complex128", DType::kC128},
    };
    const nb::module_ torch = nb::module_::import_("torch");
    for (const auto& [name, dtype] : kNames) {
      if (!nb::hasattr(torch, name)) continue;
      dtypes.emplace_back(nb::object(torch.attr(name)).release().ptr(), dtype);
    }
  }
};

// Null as long as torch is not imported: then there are no tensors.
const Torch* torch() {
  static const Torch* known = nullptr;
  if (known != nullptr) return known;
  PyObject* modules = PyImport_GetModuleDict();
  if (PyDict_GetItemString(modules, "torch") == nullptr) return nullptr;
  known = new Torch();
  return known;
}

// Heaps and mappings of position-independent programs lie above this address, so that most tensors
// need no further check.
constexpr std::uintptr_t kHeaps = std::uintptr_t{1} << 44;

bool is_offset_alone(nb::handle tensor, std::uintptr_t address) {
  return address == nb::cast<std::uintptr_t>(tensor.attr("storage_offset")()) *
                        nb::cast<std::uintptr_t>(tensor.attr("element_size")());
}

bool says(nb::handle tensor, const char* method) { return nb::cast<bool>(tensor.attr(method)()); }

}  // namespace

std::optional<PlainArray> PlainArray::of_numpy(nb::handle array, bool written) {
  Py_buffer view;
  const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto dtype = dtype_of(view.format == nullptr ? "B" : view.format, view.itemsize);
  if (!dtype) {
    PyBuffer_Release(&view);
    return std::nullopt;
  }
  PlainArray result(view.buf, static_cast<std::uint64_t>(view.len / view.itemsize), *dtype);
  result.view_ = view;
  return result;
}

std::optional<PlainArray> PlainArray::of_torch(nb::handle tensor) {
  try {
    const bool plain =
        nb::cast<bool>(tensor.attr("is_cpu")) && tensor.attr("layout").is(torch()->strided) &&
        says(tensor, "is_contiguous") && !says(tensor, "is_conj") && !says(tensor, "is_neg");
    if (!plain) return std::nullopt;
    const nb::object wanted = tensor.attr("dtype");
    for (const auto& [object, dtype] : torch()->dtypes) {
      if (object != wanted.ptr()) continue;
      const auto address = nb::cast<std::uintptr_t>(tensor.attr("data_ptr")());
      // A tensor without memory (a wrapper of others) reports address 0 plus the offset of its
      // view.
      if (address < kHeaps && is_offset_alone(tensor, address)) return std::nullopt;
      return PlainArray(reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
                        nb::cast<std::uint64_t>(tensor.attr("numel")()), dtype);
    }
  } catch (const nb::python_error&) {
    // The tensor may be of a subclass without memory of its own.
  } catch (const nb::cast_error&) {
    // The same holds when a value has an unexpected type.
  }
  return std::nullopt;
}

std::optional<PlainArray> PlainArray::of(nb::handle object, bool written) {
  static PyTypeObject* numpy = nullptr;  // no guarded initialisation: an import may drop the GIL
  if (numpy == nullptr) numpy = type_named("numpy", "ndarray");
  if (PyObject_TypeCheck(object.ptr(), numpy) != 0) return of_numpy(object, written);
  const Torch* known = torch();
  if (known == nullptr || PyObject_TypeCheck(object.ptr(), known->tensor) == 0) return std::nullopt;
  return of_torch(object);
}

PlainArray::PlainArray(PlainArray&& other) noexcept
    : data_(other.data_), count_(other.count_), dtype_(other.dtype_), view_(other.view_) {
  other.view_.obj = nullptr;
}

PlainArray::~PlainArray() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace holdfast::bindings

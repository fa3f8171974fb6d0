#include "device_comm/host_table.h"

#include <nanobind/stl/shared_ptr.h>

#include "gil.h"
#include "host_table.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using device::CuStream;
using device_comm::HostTable;
using device_comm::Staged;

CuStream table_stream(std::uintptr_t handle) {
  return {reinterpret_cast<void*>(handle)};  // NOLINT(performance-no-int-to-ptr)
}

// A HostTable that keeps alive the object whose memory it is.
class PyHostTable {
 public:
  PyHostTable(std::shared_ptr<Staged> staged, nb::object keep, std::uintptr_t address,
              std::uint64_t rows, std::uint64_t row_bytes)
      : keep_(std::move(keep)) {
    Result<std::unique_ptr<HostTable>> made = Status(Code::kAborted, "not made");
    {
      const GilReleased released;
      made = HostTable::make(std::move(staged),
                             reinterpret_cast<std::byte*>(address),  // NOLINT
                             rows, row_bytes);
    }
    table_ = value_or_raise(std::move(made));
  }

  void gather(std::uintptr_t index, std::uint64_t count, std::uintptr_t out,
              std::uintptr_t stream) {
    raise_if(table_->gather(index, count, out, table_stream(stream)));
  }
  void order(std::uintptr_t first, std::uintptr_t second) {
    raise_if(table_->order(table_stream(first), table_stream(second)));
  }
  std::uintptr_t stream() const { return reinterpret_cast<std::uintptr_t>(table_->stream().value); }
  bool take_wrong_index() { return table_->take_wrong_index(); }

 private:
  nb::object keep_;
  std::unique_ptr<HostTable> table_;
};

}  // namespace

void bind_host_table(nb::module_& m) {
  nb::class_<PyHostTable>(m, "HostTable")
      .def(nb::init<std::shared_ptr<Staged>, nb::object, std::uintptr_t, std::uint64_t,
                    std::uint64_t>(),
           "staged"_a, "keep"_a, "address"_a, "rows"_a, "row_bytes"_a)
      .def("gather", &PyHostTable::gather, "index"_a, "count"_a, "out"_a, "stream"_a)
      .def("order", &PyHostTable::order, "first"_a, "second"_a)
      .def_prop_ro("stream", &PyHostTable::stream)
      .def("take_wrong_index", &PyHostTable::take_wrong_index);
}

}  // namespace holdfast::bindings

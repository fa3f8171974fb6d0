// What can be asked of datatypes, and done with them: MPI-4.1, 5.1.5 to 5.1.13, 7.7 and 7.8.
#include <string>

#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/calls/made.h"
#include "mpi/core/predefined.h"
#include "mpi/core/process.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

namespace {

// A class that MPI-5's header has beside MPI's own.
constexpr int kClassLogical = 191;

int refuse_predefined(Call& call, const char* argument, const Datatype& type) {
  if (!type.predefined) return kSuccess;
  return call.fail(kErrType, std::string(argument) + " is " + text_of(type) +
                                 ", accepted are datatypes that the program made");
}

// A type whose arguments were counts of 64 bits can be asked by the twins alone.
int refuse_narrow(Call& call, const Datatype& type) {
  if (call.is_wide() || !type.contents.wide) return kSuccess;
  return call.fail(kErrType,
                   "datatype was made by a function for large counts, accepted are others; the "
                   "twin of this function, whose name ends in _c, takes both");
}

int check_room(Call& call, const char* argument, std::int64_t room, std::size_t needed) {
  if (room >= 0 && static_cast<std::size_t>(room) >= needed) return kSuccess;
  return call.fail(kErrArg, std::string(argument) + " is " + std::to_string(room) +
                                ", accepted are numbers from " + std::to_string(needed) +
                                ", as MPI_Type_get_envelope says");
}

template <class T>
void put(const OutInts& out, const std::vector<T>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) out.set(i, values[i]);
}

}  // namespace

namespace body {

int Type_commit(Call&, Datatype*& datatype) {
  // The kernels are chosen now, and not in the first message.
  if (!datatype->committed.load(std::memory_order_acquire)) {
    static_cast<void>(datatype->packer(1));
    datatype->committed.store(true, std::memory_order_release);
  }
  return kSuccess;
}

int Type_free(Call& call, Datatype*& datatype) {
  int code = refuse_predefined(call, "datatype", *datatype);
  if (code != kSuccess) return code;
  if (datatype->handles.load(std::memory_order_acquire) == 1) {
    code = delete_attributes(call, *datatype, datatype->attributes);
    if (code != kSuccess) return code;
  }
  process().registry.take_back(datatype);
  datatype = nullptr;
  return kSuccess;
}

int Type_size(Call& call, Datatype* datatype, std::int64_t& size) {
  size = narrowed(call, datatype->layout.size());
  return kSuccess;
}

int Type_size_x(Call&, Datatype* datatype, std::int64_t& size) {
  size = static_cast<std::int64_t>(datatype->layout.size());
  return kSuccess;
}

int Type_get_extent(Call&, Datatype* datatype, std::int64_t& lb, std::int64_t& extent) {
  lb = datatype->layout.lb();
  extent = datatype->layout.extent();
  return kSuccess;
}

int Type_get_extent_x(Call& call, Datatype* datatype, std::int64_t& lb, std::int64_t& extent) {
  return Type_get_extent(call, datatype, lb, extent);
}

int Type_get_true_extent(Call&, Datatype* datatype, std::int64_t& true_lb,
                         std::int64_t& true_extent) {
  true_lb = datatype->layout.true_lb();
  true_extent = datatype->layout.true_extent();
  return kSuccess;
}

int Type_get_true_extent_x(Call& call, Datatype* datatype, std::int64_t& true_lb,
                           std::int64_t& true_extent) {
  return Type_get_true_extent(call, datatype, true_lb, true_extent);
}

int Type_get_envelope(Call& call, Datatype* datatype, std::int64_t& num_integers,
                      std::int64_t& num_addresses, std::int64_t& num_large_counts,
                      std::int64_t& num_datatypes, int& combiner) {
  const int code = refuse_narrow(call, *datatype);
  if (code != kSuccess) return code;
  const Contents& contents = datatype->contents;
  num_integers = static_cast<std::int64_t>(contents.integers.size());
  num_addresses = static_cast<std::int64_t>(contents.addresses.size());
  num_large_counts = static_cast<std::int64_t>(contents.counts.size());
  num_datatypes = static_cast<std::int64_t>(contents.types.size());
  combiner = contents.combiner;
  return kSuccess;
}

int Type_get_contents(Call& call, Datatype* datatype, std::int64_t max_integers,
                      std::int64_t max_addresses, std::int64_t max_large_counts,
                      std::int64_t max_datatypes, const OutInts& array_of_integers,
                      const OutInts& array_of_addresses, const OutInts& array_of_large_counts,
                      const Handles<Datatype>& array_of_datatypes) {
  const Contents& contents = datatype->contents;
  if (contents.combiner == kCombinerNamed) {
    return call.fail(kErrType, "datatype is " + text_of(*datatype) +
                                   ", accepted are datatypes that the program made");
  }
  int code = refuse_narrow(call, *datatype);
  if (code == kSuccess) {
    code = check_room(call, "max_integers", max_integers, contents.integers.size());
  }
  if (code == kSuccess) {
    code = check_room(call, "max_addresses", max_addresses, contents.addresses.size());
  }
  if (code == kSuccess && call.is_wide()) {
    code = check_room(call, "max_large_counts", max_large_counts, contents.counts.size());
  }
  if (code == kSuccess) {
    code = check_room(call, "max_datatypes", max_datatypes, contents.types.size());
  }
  if (code != kSuccess) return code;
  const auto many = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  Checks checks(call);
  checks.array("array_of_integers", array_of_integers, many(contents.integers));
  checks.array("array_of_addresses", array_of_addresses, many(contents.addresses));
  checks.array("array_of_datatypes", array_of_datatypes, many(contents.types));
  if (checks.failed()) return checks.code();
  put(array_of_integers, contents.integers);
  put(array_of_addresses, contents.addresses);
  if (call.is_wide()) put(array_of_large_counts, contents.counts);
  for (std::size_t i = 0; i < contents.types.size(); ++i) {
    // The program frees what it gets, unless MPI predefines it.
    array_of_datatypes.set(i, process().registry.hand_out(contents.types[i]));
  }
  return kSuccess;
}

int Type_match_size(Call& call, int typeclass, int size, Datatype*& datatype) {
  struct Match {
    int typeclass;
    int size;
    std::int32_t number;
  };
  static constexpr Match kMatches[] = {
      {kClassInteger, 1, kTypeInteger1}, {kClassInteger, 2, kTypeInteger2},
      {kClassInteger, 4, kTypeInteger4}, {kClassInteger, 8, kTypeInteger8},
      {kClassReal, 2, kTypeReal2},       {kClassReal, 4, kTypeReal4},
      {kClassReal, 8, kTypeReal8},       {kClassComplex, 4, kTypeComplex4},
      {kClassComplex, 8, kTypeComplex8}, {kClassComplex, 16, kTypeComplex16},
      {kClassLogical, 1, kTypeLogical1}, {kClassLogical, 2, kTypeLogical2},
      {kClassLogical, 4, kTypeLogical4}, {kClassLogical, 8, kTypeLogical8},
  };
  bool known = false;
  std::string sizes;
  for (const Match& match : kMatches) {
    if (match.typeclass != typeclass) continue;
    known = true;
    sizes += " " + std::to_string(match.size);
    if (match.size != size) continue;
    datatype = by_number<Datatype>(match.number);
    return kSuccess;
  }
  if (!known) {
    return call.fail(kErrArg, "typeclass is " + std::to_string(typeclass) +
                                  ", accepted are MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, "
                                  "MPI_TYPECLASS_COMPLEX and, where there is one, "
                                  "MPI_TYPECLASS_LOGICAL");
  }
  return call.fail(kErrArg, "size is " + std::to_string(size) +
                                ", accepted are in that class, in bytes:" + sizes);
}

int Type_set_name(Call& call, Datatype* datatype, std::string_view type_name) {
  if (type_name.data() == nullptr) return call.fail(kErrArg, "type_name is a null pointer");
  // Longer names are cut off (MPI-4.1, 7.8).
  const auto most = static_cast<std::size_t>(call.abi().limits.object_name) - 1;
  datatype->set_name(std::string(type_name.substr(0, most)));
  return kSuccess;
}

int Type_get_name(Call&, Datatype* datatype, const TextOut& type_name) {
  type_name.set(datatype == nullptr ? "MPI_DATATYPE_NULL" : datatype->name());
  return kSuccess;
}

int Type_set_attr(Call& call, Datatype* datatype, int type_keyval, void* attribute_val) {
  return set_attribute(call, *datatype, datatype->attributes, type_keyval, attribute_val);
}

int Type_get_attr(Call& call, Datatype* datatype, int type_keyval, void** attribute_val,
                  bool& flag) {
  return get_attribute(call, *datatype, datatype->attributes, type_keyval, attribute_val, &flag);
}

int Type_delete_attr(Call& call, Datatype* datatype, int type_keyval) {
  return delete_attribute(call, *datatype, datatype->attributes, type_keyval);
}

}  // namespace body
}  // namespace holdfast::mpi

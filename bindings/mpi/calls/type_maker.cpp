#include "mpi/calls/type_maker.h"

#include "mpi/calls/made.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

void TypeMaker::count(std::int64_t value) {
  if (contents_.wide) {
    contents_.counts.push_back(value);
  } else {
    contents_.integers.push_back(static_cast<int>(value));
  }
}

void TypeMaker::counts(const std::vector<std::int64_t>& values) {
  for (const std::int64_t value : values) count(value);
}

void TypeMaker::displacement(std::int64_t value) {
  (contents_.wide ? contents_.counts : contents_.addresses).push_back(value);
}

void TypeMaker::displacements(const std::vector<std::int64_t>& values) {
  for (const std::int64_t value : values) displacement(value);
}

int TypeMaker::finish(Result<datatype::TypeLayout> layout, ElementList elements,
                      Datatype*& newtype) {
  if (!layout.is_ok()) return call_.fail(kErrArg, layout.status().message());
  if (depth_of(contents_.types) > Datatype::kMostNested) {
    return call_.fail(kErrType, "a type is nested " + std::to_string(Datatype::kMostNested) +
                                    " types deep already, and no type can be deeper");
  }
  auto* made = process().registry.make<Datatype>(std::move(layout).value(), std::move(elements),
                                                 std::move(contents_));
  return give_made(call_, made, "datatypes", newtype);
}

int take(Call& call, const char* argument, const IntArray& array, std::int64_t n,
         std::vector<std::int64_t>& values) {
  if (n > 0 && array.is_null()) {
    return call.fail(kErrArg, std::string(argument) +
                                  " is a null pointer, accepted are arrays of " +
                                  std::to_string(n) + " numbers");
  }
  values.resize(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = array[i];
  return kSuccess;
}

int refuse_negative(Call& call, int code, const std::string& argument, std::int64_t value) {
  if (value >= 0) return kSuccess;
  return call.fail(code,
                   argument + " is " + std::to_string(value) + ", accepted are numbers from 0");
}

int take_lengths(Call& call, const char* argument, const IntArray& array, std::int64_t n,
                 std::vector<std::int64_t>& values) {
  int code = take(call, argument, array, n, values);
  for (std::size_t i = 0; code == kSuccess && i < values.size(); ++i) {
    if (values[i] >= 0) continue;
    code = refuse_negative(call, kErrArg, std::string(argument) + "[" + std::to_string(i) + "]",
                           values[i]);
  }
  return code;
}

int scale(Call& call, const char* argument, std::int64_t unit, std::vector<std::int64_t>& values) {
  for (std::int64_t& value : values) {
    if (!__builtin_mul_overflow(value, unit, &value)) continue;
    return call.fail(kErrArg, std::string(argument) + " has a number that times the extent of " +
                                  "oldtype, " + std::to_string(unit) + ", leaves 64 bits");
  }
  return kSuccess;
}

}  // namespace holdfast::mpi

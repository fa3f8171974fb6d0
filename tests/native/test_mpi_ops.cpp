// Reduction operations of MPI: what they are defined on, and what they compute.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/core/predefined.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"
#include "mpi_abi.h"

using namespace holdfast::mpi;
using holdfast::DType;
using holdfast::ReduceOp;

namespace {

Datatype* type(std::int32_t number) {
  return static_cast<Datatype*>(process().registry.find(Kind::kType, number));
}
Op* op(std::int32_t number) { return static_cast<Op*>(process().registry.find(Kind::kOp, number)); }

bool is_allowed(std::int32_t of, std::int32_t on) {
  return reduction_problem(*op(of), *type(on)).empty();
}

struct DoubleInt {
  double value;
  int index;
};

}  // namespace

TEST_CASE("operations are defined as MPI's table says") {
  for (const std::int32_t number : {kTypeInt, kTypeLong, kTypeUint8T, kTypeAint, kTypeSignedChar}) {
    for (const std::int32_t any : {kOpSum, kOpMax, kOpLand, kOpBxor, kOpProd, kOpLor}) {
      CHECK(is_allowed(any, number));
    }
    CHECK(!is_allowed(kOpMaxloc, number));
  }
  for (const std::int32_t number : {kTypeFloat, kTypeDouble, kTypeLongDouble, kTypeReal}) {
    CHECK(is_allowed(kOpSum, number));
    CHECK(is_allowed(kOpMin, number));
    CHECK(!is_allowed(kOpBand, number));
    CHECK(!is_allowed(kOpLand, number));
  }
  for (const std::int32_t number : {kTypeCDoubleComplex, kTypeCLongDoubleComplex, kTypeComplex}) {
    CHECK(is_allowed(kOpProd, number));
    CHECK(!is_allowed(kOpMax, number));
  }
  CHECK(is_allowed(kOpLxor, kTypeCBool));
  CHECK(is_allowed(kOpLor, kTypeLogical));
  CHECK(!is_allowed(kOpSum, kTypeCBool));
  CHECK(is_allowed(kOpBor, kTypeByte));
  CHECK(!is_allowed(kOpSum, kTypeByte));
  CHECK(is_allowed(kOpSum, kTypeChar));  // as other MPIs let programs do
  CHECK(is_allowed(kOpLand, kTypeChar));
  CHECK(!is_allowed(kOpSum, kTypeCharacter));
  CHECK(!is_allowed(kOpSum, kTypeWchar));
  CHECK(is_allowed(kOpBor, kTypeInteger));
  CHECK(!is_allowed(kOpLor, kTypeInteger));
  CHECK(is_allowed(kOpMinloc, kTypeDoubleInt));
  CHECK(is_allowed(kOpMaxloc, kTypeTwoReal));
  CHECK(!is_allowed(kOpSum, kTypeTwoInt));
  CHECK(!is_allowed(kOpReplace, kTypeInt));

  TestCall refused;
  float values[2] = {};
  CHECK(body::Reduce_local(refused, values, values + 1, 1, type(kTypeFloat), op(kOpBand)) ==
        kErrOp);
  CHECK(says(refused, "MPI_BAND", "MPI_FLOAT", "integers and MPI_BYTE"));
}

TEST_CASE("every allowed operation is done by a kernel, or on packed pairs") {
  for (const BasicType& row : basic_types()) {
    for (std::int32_t number = kOpSum; number <= kOpMaxloc; ++number) {
      if (op(number) == nullptr || !is_allowed(number, row.number)) continue;
      const auto native = native_reduction(*op(number), *type(row.number));
      REQUIRE(native.has_value());
      CHECK(holdfast::dtype_bytes(native->dtype) == row.bytes);
    }
  }
  CHECK(native_reduction(*op(kOpMaxloc), *type(kTypeTwoInt))->dtype == DType::kI32I32);
  CHECK(!native_reduction(*op(kOpMaxloc), *type(kTypeDoubleInt)).has_value());
}

TEST_CASE("numbers are combined in place") {
  TestCall call;
  const int in[] = {5, -2, 7};
  int inout[] = {1, 2, 3};
  CHECK(body::Reduce_local(call, in, inout, 3, type(kTypeInt), op(kOpSum)) == kSuccess);
  CHECK(std::vector<int>(inout, inout + 3) == std::vector<int>{6, 0, 10});
  CHECK(body::Reduce_local(call, in, inout, 3, type(kTypeInt), op(kOpLand)) == kSuccess);
  CHECK(std::vector<int>(inout, inout + 3) == std::vector<int>{1, 0, 1});
  const bool yes[] = {true, false};
  bool both[] = {true, true};
  CHECK(body::Reduce_local(call, yes, both, 2, type(kTypeCBool), op(kOpLxor)) == kSuccess);
  CHECK(!both[0]);
  CHECK(both[1]);
  const long double some[] = {2.5L};
  long double more[] = {4.0L};
  CHECK(body::Reduce_local(call, some, more, 1, type(kTypeLongDouble), op(kOpProd)) == kSuccess);
  CHECK(more[0] == 10.0L);
  Datatype* copy = nullptr;
  REQUIRE(body::Type_dup(call, type(kTypeLongDouble), copy) == kSuccess);
  CHECK(body::Reduce_local(call, some, more, 1, copy, op(kOpMax)) == kSuccess);
  TestCall negative;
  CHECK(body::Reduce_local(negative, in, inout, -1, type(kTypeInt), op(kOpSum)) == kErrCount);
}

TEST_CASE("pairs: the extreme value wins, of equal ones the lower index") {
  TestCall call;
  const DoubleInt in[] = {{3.0, 1}, {2.0, 4}, {1.0, 0}, {NAN, 2}};
  DoubleInt inout[] = {{2.0, 0}, {2.0, 6}, {5.0, 3}, {9.0, 1}};
  CHECK(body::Reduce_local(call, in, inout, 4, type(kTypeDoubleInt), op(kOpMaxloc)) == kSuccess);
  CHECK(inout[0].value == 3.0);
  CHECK(inout[0].index == 1);
  CHECK(inout[1].index == 4);
  CHECK(inout[2].index == 3);
  CHECK(std::isnan(inout[3].value));

  // The same, packed: what collectives do.
  const auto user = user_reduction(*op(kOpMinloc), *type(kTypeDoubleInt));
  CHECK(user->element_bytes == 12);
  CHECK(user->commutative);
  std::byte left[24];
  std::byte right[24];
  type(kTypeDoubleInt)->packer(2).pack(reinterpret_cast<const std::byte*>(in), 0, left);
  type(kTypeDoubleInt)->packer(2).pack(reinterpret_cast<const std::byte*>(inout), 0, right);
  user->apply(left, right, 2);
  DoubleInt out[2];
  type(kTypeDoubleInt)->packer(2).unpack(right, 0, reinterpret_cast<std::byte*>(out));
  CHECK(out[0].index == 1);
  CHECK(out[1].value == 2.0);
  CHECK(out[1].index == 4);

  const float reals[] = {1.0f, 7.0f};
  float other[] = {1.0f, 3.0f};
  CHECK(body::Reduce_local(call, reals, other, 1, type(kTypeTwoReal), op(kOpMinloc)) == kSuccess);
  CHECK(other[1] == 3.0f);
}

namespace {

// Subtracts the first number of each element of its type: not commutative.
void subtract(const void* in, void* inout, std::int64_t count, Object* object) {
  const std::int64_t extent = static_cast<Datatype*>(object)->layout.extent();
  for (std::int64_t i = 0; i < count; ++i) {
    int left = 0;
    int right = 0;
    std::memcpy(&left, static_cast<const char*>(in) + i * extent, sizeof left);
    auto* at = static_cast<char*>(inout) + i * extent;
    std::memcpy(&right, at, sizeof right);
    right = left - right;
    std::memcpy(at, &right, sizeof right);
  }
}

}  // namespace

TEST_CASE("a function of the program sees elements as its memory has them") {
  TestCall call;
  Op* made = nullptr;
  REQUIRE(body::Op_create(call, function(subtract), false, made) == kSuccess);
  bool commutes = true;
  CHECK(body::Op_commutative(call, made, commutes) == kSuccess);
  CHECK(!commutes);
  Datatype* gaps = nullptr;
  REQUIRE(body::Type_vector(call, 2, 1, 3, type(kTypeInt), gaps) == kSuccess);
  REQUIRE(body::Type_commit(call, gaps) == kSuccess);
  constexpr std::uint64_t kCount = 40'000;  // several chunks
  std::vector<int> left(2 * kCount);
  std::vector<int> right(2 * kCount);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = static_cast<int>(i);
    right[i] = static_cast<int>(3 * i);
  }
  const auto user = user_reduction(*made, *gaps);
  CHECK(user->element_bytes == 8);
  CHECK(!user->commutative);
  CHECK(made->uses == 2);
  user->apply(left.data(), right.data(), kCount);
  bool good = true;
  for (std::size_t i = 0; i < left.size(); i += 2) {
    good =
        good && right[i] == -2 * static_cast<int>(i) && right[i + 1] == 3 * static_cast<int>(i + 1);
  }
  CHECK(good);

  int memory[2][4] = {{10, 0, 0, 7}, {4, 1, 2, 9}};
  CHECK(body::Reduce_local(call, memory[0], memory[1], 1, gaps, made) == kSuccess);
  CHECK(memory[1][0] == 6);
  CHECK(memory[1][3] == 9);
  Op* freed = made;
  CHECK(body::Op_free(call, freed) == kSuccess);
  CHECK(freed == nullptr);
  TestCall refused;
  Op* own = op(kOpSum);
  CHECK(body::Op_free(refused, own) == kErrOp);
  CHECK(says(refused, "MPI_SUM"));
}

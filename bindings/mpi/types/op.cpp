#include "mpi/types/op.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "comm/reduce/kernels.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"
#include "mpi/types/pairs.h"

namespace holdfast::mpi {

namespace {

using What = Op::What;

struct OpRow {
  std::int32_t number;
  const char* name;
  ReduceOp native;
  const char* accepted;
};

constexpr const char* kOrdered = "integers and floating-point types";
constexpr const char* kNumbers = "integers, floating-point and complex types";
constexpr const char* kTruths = "C's integers and logical types";
constexpr const char* kBits = "integers and MPI_BYTE";
constexpr const char* kPairTypes = "pairs of a value and an index";
constexpr const char* kNothing = "no type, as it is for accumulating in windows";

// By What.
constexpr OpRow kOpRows[] = {
    {kOpMax, "MPI_MAX", ReduceOp::kMax, kOrdered},
    {kOpMin, "MPI_MIN", ReduceOp::kMin, kOrdered},
    {kOpSum, "MPI_SUM", ReduceOp::kSum, kNumbers},
    {kOpProd, "MPI_PROD", ReduceOp::kProduct, kNumbers},
    {kOpLand, "MPI_LAND", ReduceOp::kLand, kTruths},
    {kOpBand, "MPI_BAND", ReduceOp::kBand, kBits},
    {kOpLor, "MPI_LOR", ReduceOp::kLor, kTruths},
    {kOpBor, "MPI_BOR", ReduceOp::kBor, kBits},
    {kOpLxor, "MPI_LXOR", ReduceOp::kLxor, kTruths},
    {kOpBxor, "MPI_BXOR", ReduceOp::kBxor, kBits},
    {kOpMaxloc, "MPI_MAXLOC", ReduceOp::kMaxLoc, kPairTypes},
    {kOpMinloc, "MPI_MINLOC", ReduceOp::kMinLoc, kPairTypes},
    {kOpReplace, "MPI_REPLACE", ReduceOp::kUser, kNothing},
    {kOpNoOp, "MPI_NO_OP", ReduceOp::kUser, kNothing},
};
static_assert(std::size(kOpRows) == static_cast<std::size_t>(What::kUser));

const OpRow& row_of(const Op& op) { return kOpRows[static_cast<std::size_t>(op.what)]; }

// A duplicate of one of MPI's types is as good as that type.
const Datatype& origin(const Datatype& type) {
  const Datatype* at = &type;
  while (at->contents.combiner == kCombinerDup) at = at->contents.types[0];
  return *at;
}

// The standard keeps MPI_CHAR for text; programs reduce it all the same, and other MPIs let them.
bool is_char(const BasicType& type) { return type.number == kTypeChar; }

bool is_defined(const Op& op, const BasicType& type) {
  const bool integer = type.kind == ElementKind::kSigned || type.kind == ElementKind::kUnsigned ||
                       type.kind == ElementKind::kAddress || is_char(type);
  const bool real = type.kind == ElementKind::kFloat || type.kind == ElementKind::kBrainFloat;
  switch (op.what) {
    case What::kMax:
    case What::kMin: return integer || real;
    case What::kSum:
    case What::kProduct: return integer || real || type.kind == ElementKind::kComplex;
    case What::kLand:
    case What::kLor:
    case What::kLxor:
      return (integer && !type.fortran) || type.kind == ElementKind::kLogical ||
             type.kind == ElementKind::kBool;
    case What::kBand:
    case What::kBor:
    case What::kBxor: return integer || type.kind == ElementKind::kByte;
    default: return false;
  }
}

std::optional<DType> by_size(std::uint8_t bytes, DType one, DType two, DType four, DType eight) {
  switch (bytes) {
    case 1: return one;
    case 2: return two;
    case 4: return four;
    case 8: return eight;
    default: return std::nullopt;
  }
}

std::optional<DType> dtype_of(const BasicType& type) {
  if (is_char(type)) return std::is_signed_v<char> ? DType::kI8 : DType::kU8;
  switch (type.kind) {
    case ElementKind::kSigned:
    case ElementKind::kAddress:
    case ElementKind::kLogical:
      return by_size(type.bytes, DType::kI8, DType::kI16, DType::kI32, DType::kI64);
    case ElementKind::kUnsigned:
      return by_size(type.bytes, DType::kU8, DType::kU16, DType::kU32, DType::kU64);
    case ElementKind::kFloat:
      if (type.bytes == sizeof(long double)) return DType::kLongDouble;
      if (type.bytes == 2) return DType::kF16;
      return type.bytes == 4 ? DType::kF32 : DType::kF64;
    case ElementKind::kBrainFloat: return DType::kBF16;
    case ElementKind::kComplex:
      if (type.bytes == 2 * sizeof(long double)) return DType::kLongComplex;
      if (type.bytes == 4) return std::nullopt;  // of two halves
      return type.bytes == 8 ? DType::kC64 : DType::kC128;
    case ElementKind::kBool: return DType::kBool;
    case ElementKind::kByte: return DType::kU8;
    default: return std::nullopt;
  }
}

std::optional<DType> dtype_of(const PairType& type) {
  switch (type.number) {
    case kTypeFloatInt: return DType::kF32I32;
    case kTypeDoubleInt: return DType::kF64I32;
    case kTypeLongInt: return DType::kI64I32;
    case kTypeTwoInt:
    case kTypeTwoInteger: return DType::kI32I32;
    case kTypeShortInt: return DType::kI16I32;
    case kTypeLongDoubleInt: return DType::kLongDoubleI32;
    default: return std::nullopt;  // of two floating-point numbers
  }
}

// Of elements as they lie in the program's memory, gaps within pairs included.
std::optional<NativeReduction> native_in_memory(const Op& op, const Datatype& type) {
  if (op.what >= What::kReplace) return std::nullopt;
  const auto dtype = type.basic != nullptr  ? dtype_of(*type.basic)
                     : type.pair != nullptr ? dtype_of(*type.pair)
                                            : std::nullopt;
  if (!dtype.has_value() || !reduce_defined(*dtype, row_of(op).native)) return std::nullopt;
  return NativeReduction{*dtype, row_of(op).native};
}

// The program's function, which may count in int alone.
void call_function(const Op& op, const std::byte* in, std::byte* inout, std::int64_t count,
                   Datatype& type) {
  const std::int64_t most = op.counts_wide ? INT64_MAX : INT_MAX;
  while (count > 0) {
    const std::int64_t now = std::min(count, most);
    op.abi->call_op(op.function, op.counts_wide, in, inout, now, &type);
    in += now * type.layout.extent();
    inout += now * type.layout.extent();
    count -= now;
  }
}

// Memory for some elements of a type as the program would have them.
class Unpacked {
 public:
  Unpacked(const Datatype& type, std::int64_t count) {
    const std::int64_t last = (count - 1) * type.layout.extent();
    const std::int64_t low = std::min<std::int64_t>(0, last) + type.layout.true_lb();
    const std::int64_t high = std::max<std::int64_t>(0, last) + type.layout.true_ub();
    memory_.resize(static_cast<std::size_t>(high - low) + kAlignment);
    // Aligned is where displacement zero is, as in the program's own memory.
    const auto first =
        reinterpret_cast<std::uintptr_t>(memory_.data()) - static_cast<std::uintptr_t>(low);
    base_ = reinterpret_cast<std::byte*>((first + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::byte* base() { return base_; }

 private:
  static constexpr std::size_t kAlignment = 16;
  std::vector<std::byte> memory_;
  std::byte* base_ = nullptr;
};

// So much is unpacked at once for functions of the program: it stays in the second level cache.
constexpr std::uint64_t kMostUnpacked = 256 * 1024;

// On packed elements of a type with gaps.
void call_unpacked(const Op& op, const std::byte* in, std::byte* inout, std::uint64_t count,
                   Datatype& type) {
  const std::uint64_t size = type.layout.size();
  const auto span = static_cast<std::uint64_t>(
      std::max(type.layout.true_extent(), std::abs(type.layout.extent())));
  const auto chunk = std::min(count, std::max<std::uint64_t>(1, kMostUnpacked / span));
  Unpacked left(type, static_cast<std::int64_t>(chunk));
  Unpacked right(type, static_cast<std::int64_t>(chunk));
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t now = std::min(chunk, count - done);
    const auto packer = type.packer(static_cast<std::int64_t>(now));
    packer.unpack({in + done * size, now * size}, 0, left.base());
    packer.unpack({inout + done * size, now * size}, 0, right.base());
    call_function(op, left.base(), right.base(), static_cast<std::int64_t>(now), type);
    packer.pack(right.base(), 0, {inout + done * size, now * size});
    done += now;
  }
}

void apply_packed(const Op& op, const void* in, void* inout, std::uint64_t count, Datatype& type) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(inout);
  if (type.layout.size() == 0 || count == 0) return;
  if (op.what != What::kUser) {
    const Datatype& known = origin(type);
    CHECK(known.pair != nullptr);
    const std::uint64_t size = known.layout.size();
    combine_pairs(*known.pair, op.what == What::kMaxLoc, from, to, count, size,
                  size - index_bytes(*known.pair));
    return;
  }
  if (!type.layout.is_dense(2)) return call_unpacked(op, from, to, count, type);
  const std::int64_t first = type.layout.true_lb();
  call_function(op, from - first, to - first, static_cast<std::int64_t>(count), type);
}

}  // namespace

const char* name_of(const Op& op) {
  return op.what == What::kUser ? "a function of the program" : row_of(op).name;
}

std::string reduction_problem(const Op& op, const Datatype& type) {
  if (op.what == What::kUser) return {};
  const Datatype& known = origin(type);
  const bool located = op.what == What::kMaxLoc || op.what == What::kMinLoc;
  const bool defined = known.pair != nullptr
                           ? located
                           : known.basic != nullptr && is_defined(op, *known.basic) &&
                                 dtype_of(*known.basic).has_value();
  if (defined) return {};
  return std::string("op is ") + name_of(op) + " and datatype is " + text_of(type) +
         "; accepted with " + name_of(op) + ": " + row_of(op).accepted;
}

std::optional<NativeReduction> native_reduction(const Op& op, const Datatype& type) {
  const Datatype& known = origin(type);
  const auto native = native_in_memory(op, known);
  if (!native.has_value() || dtype_bytes(native->dtype) != known.layout.size()) {
    return std::nullopt;
  }
  return native;
}

std::shared_ptr<const comm::UserOp> user_reduction(Op& op, Datatype& type) {
  // Their owner is the function below, for as long as the core has it.
  const std::shared_ptr<Op> kept_op(Registry::use(&op), [](Op* used) { registry().drop(used); });
  const std::shared_ptr<Datatype> kept_type(Registry::use(&type),
                                            [](Datatype* used) { registry().drop(used); });
  auto user = std::make_shared<comm::UserOp>();
  user->element_bytes = std::max<std::uint64_t>(1, type.layout.size());
  user->commutative = op.commutative;
  user->apply = [kept_op, kept_type](const void* in, void* inout, std::uint64_t count) {
    apply_packed(*kept_op, in, inout, count, *kept_type);
  };
  return user;
}

void apply(const Op& op, const void* in, void* inout, std::int64_t count, Datatype& type) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(inout);
  if (op.what == What::kUser) return call_function(op, from, to, count, type);
  const Datatype& known = origin(type);
  if (const auto native = native_in_memory(op, known)) {
    comm::reduce_kernel(native->dtype, native->op)(to, from, to, static_cast<std::uint64_t>(count));
    return;
  }
  CHECK(known.pair != nullptr);
  const std::int64_t stride = known.layout.extent();
  combine_pairs(*known.pair, op.what == What::kMaxLoc, from, to, static_cast<std::uint64_t>(count),
                static_cast<std::uint64_t>(stride),
                static_cast<std::uint64_t>(stride) - index_bytes(*known.pair));
}

void predefine_ops(Registry& registry) {
  for (std::size_t i = 0; i < std::size(kOpRows); ++i) {
    registry.predefine<Op>(kOpRows[i].number, static_cast<What>(i));
  }
}

}  // namespace holdfast::mpi

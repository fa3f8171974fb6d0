#include "datatype/strided.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"

namespace holdfast::datatype {
namespace {

template <class Visit>
void for_blocks(const Strided& shape, Visit visit) {
  const auto& n = shape.count;
  std::uint64_t block = 0;
  const auto at = [&](std::uint32_t dim, std::uint64_t i) {
    return static_cast<std::int64_t>(i) * shape.stride[dim];
  };
  for (std::uint64_t a = 0; a < n[0]; ++a) {
    for (std::uint64_t b = 0; b < n[1]; ++b) {
      for (std::uint64_t c = 0; c < n[2]; ++c) {
        for (std::uint64_t d = 0; d < n[3]; ++d) {
          visit(at(0, a) + at(1, b) + at(2, c) + at(3, d), block++ * shape.block_bytes);
        }
      }
    }
  }
}

// The divisor is exact for numerators below 2^31: if 2^shift is the first power of two not less
// than `by`, the multiplier ceil(2^(31 + shift) / by) fits in 32 bits, and its error stays below
// one part in 2^31.
UnitDivisor divisor(std::uint64_t by) {
  const auto shift = static_cast<std::uint32_t>(std::bit_width(by - 1));
  const std::uint64_t power = std::uint64_t{1} << (31 + shift);
  return {static_cast<std::uint32_t>(by), static_cast<std::uint32_t>((power + by - 1) / by), shift};
}

// The largest power of two, up to 16, that divides all of these.
std::uint32_t common_unit(const Strided& shape, const std::byte* strided, const std::byte* packed) {
  std::uint64_t all = 16 | shape.block_bytes | reinterpret_cast<std::uintptr_t>(strided) |
                      reinterpret_cast<std::uintptr_t>(packed);
  for (std::uint32_t d = 0; d < kMostDims; ++d) {
    if (shape.count[d] > 1) all |= static_cast<std::uint64_t>(shape.stride[d]);
  }
  return std::uint32_t{1} << std::countr_zero(all);
}

const device::KernelRow& row(std::string_view name) {
  const device::KernelRow* found = device::find_kernel(name);
  CHECK(found != nullptr);
  return *found;
}

}  // namespace

Strided canonical(const Strided& shape) {
  Strided out{.block_bytes = shape.block_bytes};
  std::uint32_t at = kMostDims;  // first dimension in use; dimensions are filled from the end
  for (std::uint32_t d = kMostDims; d-- > 0;) {
    const std::uint64_t count = shape.count[d];
    const std::int64_t stride = shape.stride[d];
    if (count == 1) continue;
    if (at == kMostDims && stride == static_cast<std::int64_t>(out.block_bytes)) {
      out.block_bytes *= count;
    } else if (at < kMostDims &&
               stride == out.stride[at] * static_cast<std::int64_t>(out.count[at])) {
      out.count[at] *= count;
    } else {
      --at;
      out.count[at] = count;
      out.stride[at] = stride;
    }
  }
  return out;
}

void pack(const Strided& shape, const std::byte* strided, std::byte* packed) {
  if (shape.block_bytes == 0) return;
  for_blocks(shape, [&](std::int64_t from, std::uint64_t to) {
    std::memcpy(packed + to, strided + from, shape.block_bytes);
  });
}

void unpack(const Strided& shape, const std::byte* packed, std::byte* strided) {
  if (shape.block_bytes == 0) return;
  for_blocks(shape, [&](std::int64_t to, std::uint64_t from) {
    std::memcpy(strided + to, packed + from, shape.block_bytes);
  });
}

const device::KernelRow& pack_kernel() { return row("holdfast_pack"); }
const device::KernelRow& unpack_kernel() { return row("holdfast_unpack"); }

Result<StridedArgument> strided_argument(const Strided& shape, std::byte* strided,
                                         std::byte* packed) {
  const Strided form = canonical(shape);
  const std::uint32_t unit = common_unit(form, strided, packed);
  const std::uint64_t units = form.bytes() / unit;
  if (units >= kMostUnits) {
    return Status(Code::kUnsupported, "packing: " + std::to_string(units) + " units of " +
                                          std::to_string(unit) +
                                          " bytes at once, at most 2^31 - 1 are taken");
  }
  StridedArgument a{};
  a.strided = strided;
  a.packed = packed;
  a.units = static_cast<std::uint32_t>(units);
  a.unit_bytes = unit;
  if (units == 0) return a;
  a.count[0] = divisor(form.block_bytes / unit);
  for (std::uint32_t d = 0; d < kMostDims; ++d) {
    const std::uint32_t inner = kMostDims - 1 - d;
    if (d + 1 < kMostDims) a.count[d + 1] = divisor(form.count[inner]);
    a.stride[d] = form.stride[inner];
  }
  return a;
}

}  // namespace holdfast::datatype

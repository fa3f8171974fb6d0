#include "datatype/typemap/bounds.h"

#include <algorithm>

namespace holdfast::datatype {
namespace {

// The least number not below `length` that the alignment divides; false beyond 64 bits.
bool round_up(std::int64_t length, std::int64_t alignment, std::int64_t& out) {
  const std::int64_t rest = length % alignment;
  return !__builtin_add_overflow(length, rest == 0 ? 0 : alignment - rest, &out);
}

}  // namespace

std::int64_t TypeBounds::ub() const {
  if (marked) return ub_mark;
  std::int64_t length = 0;
  // fits() was asked where these bounds were made.
  return round_up(end - true_lb, alignment, length) ? true_lb + length : end;
}

bool fits(const TypeBounds& b) {
  std::int64_t length = 0;
  std::int64_t rounded = 0;
  if (__builtin_sub_overflow(b.end, b.true_lb, &length)) return false;
  if (!round_up(length, b.alignment, length)) return false;
  if (__builtin_add_overflow(b.true_lb, length, &rounded)) return false;
  return !b.marked || !__builtin_sub_overflow(b.ub_mark, b.lb_mark, &length);
}

bool include(TypeBounds& sum, const TypeBounds& part, std::int64_t at) {
  if (part.is_empty()) return true;
  std::int64_t low = 0;
  std::int64_t high = 0;
  if (part.any) {
    if (__builtin_add_overflow(at, part.true_lb, &low)) return false;
    if (__builtin_add_overflow(at, part.true_ub, &high)) return false;
    sum.true_lb = sum.any ? std::min(sum.true_lb, low) : low;
    sum.true_ub = sum.any ? std::max(sum.true_ub, high) : high;
    if (!part.marked && __builtin_add_overflow(at, part.ub(), &high)) return false;
    sum.end = sum.any ? std::max(sum.end, high) : high;
    sum.any = true;
  }
  if (part.marked) {
    if (__builtin_add_overflow(at, part.lb_mark, &low)) return false;
    if (__builtin_add_overflow(at, part.ub_mark, &high)) return false;
    sum.lb_mark = sum.marked ? std::min(sum.lb_mark, low) : low;
    sum.ub_mark = sum.marked ? std::max(sum.ub_mark, high) : high;
    sum.marked = true;
  }
  sum.alignment = std::max(sum.alignment, part.alignment);
  return fits(sum);
}

bool include_repeated(TypeBounds& sum, const TypeBounds& part, std::int64_t at, std::int64_t count,
                      std::int64_t stride) {
  if (count == 0 || part.is_empty()) return true;
  std::int64_t last = 0;
  if (__builtin_mul_overflow(count - 1, stride, &last)) return false;
  if (__builtin_add_overflow(at, last, &last)) return false;
  return include(sum, part, at) && include(sum, part, last);
}

}  // namespace holdfast::datatype

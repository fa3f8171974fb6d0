// The bounds of a datatype by the rules of MPI-4.1, 5.1.7, where an element, or a mark of a bound,
// is an entry of the typemap.
#pragma once

#include <cstdint>

namespace holdfast::datatype {

struct TypeBounds {
  bool any = false;  // any bytes
  bool marked = false;
  std::int64_t true_lb = 0;  // of the bytes alone; zero without any
  std::int64_t true_ub = 0;
  // Where the last part ends that has no marks, with what its own extent was rounded up by; at
  // least true_ub.
  std::int64_t end = 0;
  std::int64_t lb_mark = 0;  // the lowest and the highest mark
  std::int64_t ub_mark = 0;
  std::int64_t alignment = 1;  // the strictest of the elements

  bool is_empty() const { return !any && !marked; }
  std::int64_t lb() const { return marked ? lb_mark : true_lb; }
  // Without marks the extent is rounded up to the alignment, and holds those of all parts.
  std::int64_t ub() const;
};

// They return false where a number leaves 64 bits: a bound, a bound's distance to another, or the
// extent.
[[nodiscard]] bool fits(const TypeBounds& bounds);
// Adds `part` at `at`, or at `count` places that are `stride` apart: the outermost two decide.
[[nodiscard]] bool include(TypeBounds& sum, const TypeBounds& part, std::int64_t at);
[[nodiscard]] bool include_repeated(TypeBounds& sum, const TypeBounds& part, std::int64_t at,
                                    std::int64_t count, std::int64_t stride);

}  // namespace holdfast::datatype

#include "datatype/typemap/period.h"

namespace holdfast::datatype {
namespace {

// `same(i, j)` compares entries, `step(i)` is the distance from entry i to the next.
template <class Same, class Step>
std::size_t smallest_pattern(std::size_t n, Same same, Step step) {
  if (n < 2) return n;
  const auto alike = [&](std::size_t i, std::size_t j) { return step(i) == step(j) && same(i, j); };
  // border[i]: the longest proper prefix of the first i steps that also ends them.
  std::vector<std::size_t> border(n, 0);
  std::size_t k = 0;
  for (std::size_t i = 1; i + 1 < n; ++i) {
    while (k > 0 && !alike(i, k)) k = border[k];
    if (alike(i, k)) ++k;
    border[i + 1] = k;
  }
  const std::size_t period = n - 1 - border[n - 1];
  // The last entry has no step, and must only be what its forerunner is.
  return n % period == 0 && same(n - 1, n - 1 - period) ? period : n;
}

}  // namespace

std::size_t pattern(const std::vector<std::int64_t>& offsets,
                    const std::vector<std::uint64_t>& lengths) {
  return smallest_pattern(
      offsets.size(), [&](std::size_t i, std::size_t j) { return lengths[i] == lengths[j]; },
      [&](std::size_t i) { return offsets[i + 1] - offsets[i]; });
}

std::size_t pattern(const std::vector<PlacedNode>& parts) {
  return smallest_pattern(
      parts.size(),
      [&](std::size_t i, std::size_t j) { return same_form(parts[i].node, parts[j].node); },
      [&](std::size_t i) { return parts[i + 1].offset - parts[i].offset; });
}

std::size_t row_end(const std::vector<std::int64_t>& offsets,
                    const std::vector<std::uint64_t>& lengths, std::size_t first) {
  std::size_t end = first + 1;
  while (end < offsets.size() && lengths[end] == lengths[first] &&
         offsets[end] - offsets[end - 1] == offsets[first + 1] - offsets[first]) {
    ++end;
  }
  return end;
}

}  // namespace holdfast::datatype

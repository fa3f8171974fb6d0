#include "ft/ranges.h"

#include <algorithm>

namespace holdfast::ft {

bool Ranges::contains(Range range) const {
  if (range.begin >= range.end) return true;
  return std::any_of(runs_.begin(), runs_.end(), [&](const Range& run) {
    return run.begin <= range.begin && range.end <= run.end;
  });
}

std::uint64_t Ranges::size_within(std::uint64_t count) const {
  std::uint64_t sum = 0;
  for (const Range& run : runs_) {
    if (run.begin < count) sum += std::min(run.end, count) - run.begin;
  }
  return sum;
}

void Ranges::add(Range range) {
  if (range.begin >= range.end) return;
  const auto first = std::lower_bound(runs_.begin(), runs_.end(), range.begin,
                                      [](const Range& r, std::uint64_t at) { return r.end < at; });
  auto last = first;
  for (; last != runs_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  runs_.insert(runs_.erase(first, last), range);
}

Ranges Ranges::complement() const {
  Ranges rest;
  std::uint64_t at = 0;
  for (const Range& run : runs_) {
    rest.add({at, run.begin});
    at = run.end;
  }
  rest.add({at, kEndless});
  return rest;
}

Ranges Ranges::intersection(const Ranges& other) const {
  Ranges common;
  auto a = runs_.begin();
  auto b = other.runs_.begin();
  while (a != runs_.end() && b != other.runs_.end()) {
    common.add({std::max(a->begin, b->begin), std::min(a->end, b->end)});
    (a->end < b->end ? a : b)++;
  }
  return common;
}

std::vector<Range> pieces(const Ranges& area, const std::vector<const Ranges*>& sets) {
  std::vector<std::uint64_t> cuts;
  for (const Ranges* set : sets) {
    for (const Range& run : set->runs()) cuts.insert(cuts.end(), {run.begin, run.end});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> result;
  for (const Range& run : area.runs()) {
    std::uint64_t at = run.begin;
    for (const std::uint64_t cut : cuts) {
      if (cut <= at || cut >= run.end) continue;
      result.push_back({at, cut});
      at = cut;
    }
    result.push_back({at, run.end});
  }
  return result;
}

}  // namespace holdfast::ft

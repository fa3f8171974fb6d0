// Ranges: a set of elements as sorted, disjoint runs [begin, end). The parts of a result that a
// rank holds are such a set: a stream fills a block from its front, so a few runs are enough.
#pragma once

#include <cstdint>
#include <vector>

namespace holdfast::ft {

// Lies beyond every block: the end of "all of it, however long it is".
inline constexpr std::uint64_t kEndless = UINT64_MAX;

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // exclusive
  std::uint64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

class Ranges {
 public:
  Ranges() = default;
  explicit Ranges(Range range) { add(range); }
  static Ranges all() { return Ranges({0, kEndless}); }

  bool empty() const { return runs_.empty(); }
  const std::vector<Range>& runs() const& { return runs_; }
  std::vector<Range> runs() && { return std::move(runs_); }
  bool contains(Range range) const;
  // Elements of [0, count) that are in the set.
  std::uint64_t size_within(std::uint64_t count) const;
  friend bool operator==(const Ranges&, const Ranges&) = default;

  void add(Range range);
  void add(const Ranges& other) {
    for (const Range& run : other.runs_) add(run);
  }
  Ranges complement() const;  // in [0, kEndless)
  Ranges intersection(const Ranges& other) const;
  Ranges without(const Ranges& other) const { return intersection(other.complement()); }

 private:
  std::vector<Range> runs_;
};

// The pieces of `area` that lie wholly inside or wholly outside each of the sets.
std::vector<Range> pieces(const Ranges& area, const std::vector<const Ranges*>& sets);

}  // namespace holdfast::ft

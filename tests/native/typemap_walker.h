// The judge of layouts and packers: a typemap as the standard defines it, written out entry by
// entry, and walked byte by byte. It shares no code with what it judges, and knows no shortcut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::testing {

// A pair (type, displacement) of MPI-4.1, 5.1: an element of `size` bytes, or a mark of a bound.
// kEnd is where a part ends that has no marks, its own rounding counted: not of the standard's
// text, but what programs rely on (a part never reaches beyond the whole).
struct TypemapEntry {
  enum class Kind : std::uint8_t { kElement, kLower, kUpper, kEnd };
  Kind kind = Kind::kElement;
  std::int64_t at = 0;
  std::int64_t size = 0;
  std::int64_t alignment = 1;
};

struct Typemap {
  std::vector<TypemapEntry> entries;

  std::int64_t size() const {
    std::int64_t sum = 0;
    for (const TypemapEntry& e : entries) sum += e.size;
    return sum;
  }

  // The least of the entries of a kind, and the greatest end of one; `none` without any.
  std::int64_t least(TypemapEntry::Kind kind, std::int64_t none) const {
    bool any = false;
    std::int64_t least = none;
    for (const TypemapEntry& e : entries) {
      if (e.kind != kind) continue;
      least = any ? std::min(least, e.at) : e.at;
      any = true;
    }
    return least;
  }
  std::int64_t greatest_end(TypemapEntry::Kind kind, std::int64_t none) const {
    bool any = false;
    std::int64_t most = none;
    for (const TypemapEntry& e : entries) {
      if (e.kind != kind) continue;
      most = any ? std::max(most, e.at + e.size) : e.at + e.size;
      any = true;
    }
    return most;
  }
  bool has(TypemapEntry::Kind kind) const {
    return std::ranges::any_of(entries, [&](const TypemapEntry& e) { return e.kind == kind; });
  }

  std::int64_t true_lb() const { return least(TypemapEntry::Kind::kElement, 0); }
  std::int64_t true_ub() const { return greatest_end(TypemapEntry::Kind::kElement, 0); }
  std::int64_t lb() const {
    return has(TypemapEntry::Kind::kLower) ? least(TypemapEntry::Kind::kLower, 0) : true_lb();
  }
  std::int64_t ub() const {
    if (has(TypemapEntry::Kind::kUpper)) return greatest_end(TypemapEntry::Kind::kUpper, 0);
    std::int64_t alignment = 1;
    for (const TypemapEntry& e : entries) alignment = std::max(alignment, e.alignment);
    const std::int64_t end = std::max(true_ub(), greatest_end(TypemapEntry::Kind::kEnd, true_ub()));
    std::int64_t epsilon = 0;
    while ((end + epsilon - lb()) % alignment != 0) ++epsilon;
    return end + epsilon;
  }
  std::int64_t extent() const { return ub() - lb(); }

  void add(const Typemap& part, std::int64_t at) {
    for (TypemapEntry e : part.entries) {
      e.at += at;
      entries.push_back(e);
    }
    if (part.has(TypemapEntry::Kind::kElement) && !part.has(TypemapEntry::Kind::kUpper)) {
      entries.push_back({TypemapEntry::Kind::kEnd, at + part.ub(), 0, 1});
    }
  }
  void add_block(const Typemap& part, std::int64_t count, std::int64_t at) {
    const std::int64_t extent = part.extent();
    for (std::int64_t i = 0; i < count; ++i) add(part, at + i * extent);
  }

  // The displacement of every byte of `count` of them, in the order of packing.
  std::vector<std::int64_t> byte_places(std::int64_t count) const {
    std::vector<std::int64_t> places;
    const std::int64_t apart = extent();
    for (std::int64_t i = 0; i < count; ++i) {
      for (const TypemapEntry& e : entries) {
        for (std::int64_t b = 0; b < e.size; ++b) places.push_back(i * apart + e.at + b);
      }
    }
    return places;
  }
};

inline Typemap element_map(std::int64_t size, std::int64_t alignment) {
  return {{{TypemapEntry::Kind::kElement, 0, size, alignment}}};
}

inline Typemap resized_map(const Typemap& t, std::int64_t lb, std::int64_t extent) {
  Typemap out;
  for (const TypemapEntry& e : t.entries) {
    if (e.kind == TypemapEntry::Kind::kElement) out.entries.push_back(e);
  }
  out.entries.push_back({TypemapEntry::Kind::kLower, lb, 0, 1});
  out.entries.push_back({TypemapEntry::Kind::kUpper, lb + extent, 0, 1});
  return out;
}

}  // namespace holdfast::testing

// Random nested datatypes, each as a layout and as the typemap that judges it.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "datatype/array_layout.h"
#include "typemap_walker.h"

namespace holdfast::testing {

struct JudgedType {
  datatype::TypeLayout layout;
  Typemap map;
};

class RandomTypes {
 public:
  explicit RandomTypes(std::uint64_t seed) : random_(seed) {}

  // Distributions of the library differ between libraries; this one does not.
  std::int64_t upto(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % (static_cast<std::uint64_t>(most) + 1));
  }
  std::int64_t between(std::int64_t least, std::int64_t most) { return least + upto(most - least); }

  // At most kMostBytes bytes, within kMostReach of zero.
  JudgedType next() {
    for (;;) {
      JudgedType type = nested(static_cast<int>(upto(4)));
      if (is_small(type.map)) return type;
    }
  }

  static constexpr std::int64_t kMostBytes = 3000;
  static constexpr std::int64_t kMostReach = 1 << 16;

 private:
  static bool is_small(const Typemap& map) {
    const auto near = [](std::int64_t x) { return x > -kMostReach && x < kMostReach; };
    return map.entries.size() <= 2 * kMostBytes && map.size() <= kMostBytes && near(map.lb()) &&
           near(map.ub()) && near(map.true_lb()) && near(map.true_ub());
  }

  JudgedType element() {
    static constexpr std::int64_t kSizes[] = {1, 2, 4, 8, 16, 3, 12};
    static constexpr std::int64_t kAlignments[] = {1, 2, 4, 8, 16, 1, 4};
    const auto i = static_cast<std::size_t>(upto(6));
    return {datatype::TypeLayout::bytes(static_cast<std::uint64_t>(kSizes[i]),
                                        static_cast<std::uint32_t>(kAlignments[i])),
            element_map(kSizes[i], kAlignments[i])};
  }

  // Few, as a rule, so that nests stay small; zero at times.
  std::int64_t few() {
    const std::int64_t kind = upto(15);
    return kind == 0 ? 0 : kind == 1 ? between(17, 40) : between(1, 5);
  }

  JudgedType nested(int depth) {
    if (depth == 0) return element();
    const std::int64_t kind = upto(7);
    if (kind == 5) return structure(depth);
    JudgedType t = nested(depth - 1);
    if (!is_small(t.map)) return t;
    switch (kind) {
      case 0: return contiguous(t);
      case 1:
      case 2: return vector(t);
      case 3: return indexed(t);
      case 4: return indexed_block(t);
      case 6: return spread_array(t);
      default: return resized(t);
    }
  }

  JudgedType contiguous(const JudgedType& t) {
    const std::int64_t count = few();
    Typemap map;
    map.add_block(t.map, count, 0);
    return {datatype::TypeLayout::contiguous(count, t.layout).value(), map};
  }

  std::int64_t stride_for(const JudgedType& t, std::int64_t blocklength) {
    const std::int64_t extent = t.map.extent();
    switch (upto(5)) {
      case 0: return between(-100, 100);
      case 1: return extent * blocklength;
      case 2: return -extent * (blocklength + 1);
      case 3: return extent * blocklength + between(0, 9);
      default: return extent * (blocklength + upto(3));
    }
  }

  JudgedType vector(const JudgedType& t) {
    const std::int64_t count = few();
    const std::int64_t blocklength = few();
    const std::int64_t stride = stride_for(t, blocklength);
    Typemap map;
    for (std::int64_t i = 0; i < count; ++i) map.add_block(t.map, blocklength, i * stride);
    return {datatype::TypeLayout::hvector(count, blocklength, stride, t.layout).value(), map};
  }

  // Ascending with gaps, at one stride, or anywhere.
  std::vector<std::int64_t> places(const JudgedType& t, std::int64_t count) {
    std::vector<std::int64_t> out;
    const std::int64_t kind = upto(3);
    const std::int64_t stride = stride_for(t, 1);
    std::int64_t at = between(-50, 50);
    for (std::int64_t i = 0; i < count; ++i) {
      out.push_back(kind == 0 ? between(-500, 500) : at);
      at += kind == 1 ? t.map.extent() * between(1, 4) : stride;
    }
    return out;
  }

  JudgedType indexed(const JudgedType& t) {
    const std::int64_t count = few();
    const std::vector<std::int64_t> at = places(t, count);
    std::vector<std::int64_t> lengths;
    const std::int64_t most = upto(3);
    Typemap map;
    for (const std::int64_t place : at) {
      lengths.push_back(upto(most));
      map.add_block(t.map, lengths.back(), place);
    }
    return {datatype::TypeLayout::hindexed(lengths, at, t.layout).value(), map};
  }

  JudgedType indexed_block(const JudgedType& t) {
    const std::vector<std::int64_t> at = places(t, few());
    const std::int64_t length = upto(3);
    Typemap map;
    for (const std::int64_t place : at) map.add_block(t.map, length, place);
    return {datatype::TypeLayout::hindexed_block(length, at, t.layout).value(), map};
  }

  // What one process of a grid has of a small array: of all elements in the array's order, the
  // first index fastest, those that are its own.
  JudgedType spread_array(const JudgedType& t) {
    using datatype::ArraySpread;
    const std::vector<std::int64_t> sizes{between(1, 5), between(1, 5)};
    const std::vector<std::int64_t> grid{between(1, 2), between(1, 3)};
    const std::vector<std::int64_t> blocks{(sizes[0] + grid[0] - 1) / grid[0], between(1, 2)};
    const std::vector<ArraySpread> spread{ArraySpread::kBlock, ArraySpread::kCyclic};
    const std::int64_t rank = upto(grid[0] * grid[1] - 1);
    Typemap map;
    for (std::int64_t j = 0; j < sizes[1]; ++j) {
      for (std::int64_t i = 0; i < sizes[0]; ++i) {
        if (i / blocks[0] != rank / grid[1] || j / blocks[1] % grid[1] != rank % grid[1]) continue;
        map.add(t.map, (j * sizes[0] + i) * t.map.extent());
      }
    }
    const datatype::SpreadArray array{rank,   sizes, spread,
                                      blocks, grid,  datatype::ArrayOrder::kFortran};
    return {datatype::darray(array, t.layout).value(),
            resized_map(map, 0, sizes[0] * sizes[1] * t.map.extent())};
  }

  JudgedType resized(const JudgedType& t) {
    const std::int64_t lb = upto(1) == 0 ? t.map.lb() : between(-40, 40);
    const std::int64_t extent = upto(3) == 0 ? between(-60, 60) : t.map.extent() + between(0, 17);
    return {datatype::TypeLayout::resized(t.layout, lb, extent).value(),
            resized_map(t.map, lb, extent)};
  }

  JudgedType structure(int depth) {
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> at;
    std::vector<datatype::TypeLayout> types;
    Typemap map;
    std::int64_t next = between(-20, 20);
    const bool repeats = upto(3) == 0;
    JudgedType same;
    for (std::int64_t i = few(); i > 0; --i) {
      JudgedType t = repeats && !types.empty() ? same : nested(static_cast<int>(upto(depth - 1)));
      if (!is_small(t.map) || map.size() > kMostBytes) break;
      same = t;
      lengths.push_back(upto(4) == 0 ? upto(3) : 1);
      at.push_back(upto(4) == 0 ? between(-300, 300) : next);
      next = at.back() + t.map.extent() * lengths.back() + (repeats ? 5 : upto(12));
      map.add_block(t.map, lengths.back(), at.back());
      types.push_back(t.layout);
    }
    return {datatype::TypeLayout::structure(lengths, at, types).value(), map};
  }

  std::mt19937_64 random_;
};

}  // namespace holdfast::testing

// Subarrays and distributed arrays against the elements of the whole array, one by one.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "datatype/array_layout.h"
#include "datatype/typemap/block_cursor.h"
#include "typemap_walker.h"

namespace holdfast::datatype {
namespace {

using List = std::vector<std::int64_t>;

class Chance {
 public:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::mt19937_64 random_{17};
};

// Every element in the array's order, of which `has` tells, by its indices.
testing::Typemap chosen(const List& sizes, ArrayOrder order, const testing::Typemap& t,
                        const std::function<bool(const List&)>& has) {
  std::int64_t many = 1;
  for (const std::int64_t size : sizes) many *= size;
  testing::Typemap map;
  for (std::int64_t n = 0; n < many; ++n) {
    List index(sizes.size());
    std::int64_t rest = n;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t d = order == ArrayOrder::kC ? sizes.size() - 1 - i : i;
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    if (has(index)) map.add(t, n * t.extent());
  }
  return testing::resized_map(map, 0, many * t.extent());
}

void check_same(const TypeLayout& layout, const testing::Typemap& map) {
  std::vector<std::int64_t> places;
  BlockCursor cursor(layout.node(), layout.origin());
  for (ByteBlock block; cursor.next(block);) {
    for (std::uint64_t i = 0; i < block.length; ++i) {
      places.push_back(block.offset + static_cast<std::int64_t>(i));
    }
  }
  REQUIRE(places == map.byte_places(1));
  REQUIRE(layout.lb() == map.lb());
  REQUIRE(layout.ub() == map.ub());
}

struct Cell {
  TypeLayout layout = TypeLayout::resized(TypeLayout::bytes(4, 4), 0, 8).value();
  testing::Typemap map = testing::resized_map(testing::element_map(4, 4), 0, 8);
};

ArrayOrder any_order(Chance& chance) {
  return chance.between(0, 1) == 0 ? ArrayOrder::kC : ArrayOrder::kFortran;
}

TEST_CASE("a subarray is its elements in the array's order") {
  Chance chance;
  const Cell cell;
  for (int n = 0; n < 300; ++n) {
    List sizes;
    List part;
    List starts;
    for (std::int64_t dims = chance.between(1, 4); dims > 0; --dims) {
      sizes.push_back(chance.between(1, 6));
      part.push_back(chance.between(1, sizes.back()));
      starts.push_back(chance.between(0, sizes.back() - part.back()));
    }
    const ArrayOrder order = any_order(chance);
    const auto has = [&](const List& index) {
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (index[d] < starts[d] || index[d] >= starts[d] + part[d]) return false;
      }
      return true;
    };
    check_same(subarray({sizes, part, starts, order}, cell.layout).value(),
               chosen(sizes, order, cell.map, has));
  }
}

TEST_CASE("a distributed array is each process's elements in the array's order") {
  Chance chance;
  const Cell cell;
  int empty = 0;
  for (int n = 0; n < 300; ++n) {
    List sizes;
    List grid;
    List blocks;
    std::vector<ArraySpread> spread;
    std::int64_t processes = 1;
    for (std::int64_t dims = chance.between(1, 3); dims > 0; --dims) {
      sizes.push_back(chance.between(1, 9));
      spread.push_back(static_cast<ArraySpread>(chance.between(0, 2)));
      grid.push_back(spread.back() == ArraySpread::kNone ? 1 : chance.between(1, 4));
      const std::int64_t even = (sizes.back() + grid.back() - 1) / grid.back();
      blocks.push_back(chance.between(0, 2) == 0              ? kDefaultBlock
                       : spread.back() == ArraySpread::kBlock ? even + chance.between(0, 3)
                                                              : chance.between(1, 5));
      processes *= grid.back();
    }
    const ArrayOrder order = any_order(chance);
    for (std::int64_t rank = 0; rank < processes; ++rank) {
      CAPTURE(n);
      CAPTURE(rank);
      const auto has = [&](const List& index) {
        std::int64_t rest = rank;
        for (std::size_t d = index.size(); d-- > 0;) {
          std::int64_t block = blocks[d];
          if (block == kDefaultBlock) {
            block = spread[d] == ArraySpread::kCyclic ? 1 : (sizes[d] + grid[d] - 1) / grid[d];
          }
          if (spread[d] == ArraySpread::kNone) block = sizes[d];
          if (index[d] / block % grid[d] != rest % grid[d]) return false;
          rest /= grid[d];
        }
        return true;
      };
      const TypeLayout layout =
          darray({rank, sizes, spread, blocks, grid, order}, cell.layout).value();
      check_same(layout, chosen(sizes, order, cell.map, has));
      empty += layout.size() == 0 ? 1 : 0;
    }
  }
  CHECK(empty > 20);
}

TEST_CASE("arrays with gaps have any number of dimensions, at any strides") {
  const ArrayShape seven{.element_bytes = 2,
                         .count = {2, 3, 2, 3, 2, 2, 4},
                         .stride = {-3000, 700, 200, 90, 26, 12, 0}};
  const TypeLayout layout = gapped_array(seven).value();
  CHECK(layout.size() == packed_bytes(seven));
  CHECK(layout.true_lb() == extent(seven).low);
  CHECK(layout.true_ub() == extent(seven).high);
  CHECK(layout.origin() == 0);
  testing::Typemap map = testing::element_map(2, 1);
  for (std::size_t d = seven.count.size(); d-- > 0;) {
    testing::Typemap more;
    for (std::uint64_t i = 0; i < seven.count[d]; ++i) {
      more.add(map, static_cast<std::int64_t>(i) * seven.stride[d]);
    }
    map = more;
  }
  check_same(layout, testing::resized_map(map, 0, 2));
  CHECK(layout.may_overlap());
  CHECK(gapped_array({.element_bytes = 8, .count = {}, .stride = {}}).value().size() == 8);
}

TEST_CASE("what leaves the array is refused by name") {
  const TypeLayout t = TypeLayout::bytes(4);
  const auto refused = [](const Result<TypeLayout>& made, std::string_view words) {
    REQUIRE(!made.is_ok());
    CAPTURE(made.status().message());
    CHECK(made.status().message().find(words) != std::string::npos);
  };
  const List four{4};
  const List one{1};
  refused(subarray({four, List{5}, List{0}, ArrayOrder::kC}, t),
          "the part of dimension 0 is 5, accepted are 1 to 4");
  refused(subarray({four, List{2}, List{3}, ArrayOrder::kC}, t),
          "the start of dimension 0 is 3, accepted are 0 to 2");
  const std::vector<ArraySpread> block{ArraySpread::kBlock};
  refused(darray({0, four, block, one, List{2}, ArrayOrder::kC}, t),
          "the block of dimension 0 is 1, accepted are 2 and more");
  refused(darray({2, four, block, List{2}, List{2}, ArrayOrder::kC}, t), "the rank is 2");
  refused(darray({0, four, std::vector{ArraySpread::kNone}, one, List{2}, ArrayOrder::kC}, t),
          "the grid of dimension 0 is 2");
}

}  // namespace
}  // namespace holdfast::datatype

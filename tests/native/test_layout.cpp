// Layouts against the typemaps that define them: bounds, the order of bytes, equality, errors.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <set>

#include "datatype/typemap/block_cursor.h"
#include "random_types.h"

namespace holdfast::datatype {
namespace {

using testing::JudgedType;
using testing::RandomTypes;
using List = std::vector<std::int64_t>;

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

TypeLayout vector_of(std::int64_t count, std::int64_t blocklength, std::int64_t stride,
                     const TypeLayout& t) {
  return TypeLayout::hvector(count, blocklength, stride, t).value();
}

TypeLayout structure_of(const List& lengths, const List& at, const std::vector<TypeLayout>& types) {
  return TypeLayout::structure(lengths, at, types).value();
}

std::vector<std::int64_t> places_of(const TypeLayout& layout) {
  std::vector<std::int64_t> places;
  BlockCursor cursor(layout.node(), layout.origin());
  for (ByteBlock block; cursor.next(block);) {
    for (std::uint64_t i = 0; i < block.length; ++i) {
      places.push_back(block.offset + static_cast<std::int64_t>(i));
    }
  }
  return places;
}

void check_bounds(const TypeLayout& layout, const testing::Typemap& map) {
  CHECK(layout.size() == static_cast<std::uint64_t>(map.size()));
  CHECK(layout.lb() == map.lb());
  CHECK(layout.ub() == map.ub());
  CHECK(layout.extent() == map.extent());
  CHECK(layout.true_lb() == map.true_lb());
  CHECK(layout.true_ub() == map.true_ub());
}

bool is_one_run(const std::vector<std::int64_t>& places) {
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i] != places[i - 1] + 1) return false;
  }
  return true;
}

// The same bytes listed one by one.
TypeLayout rebuilt(const std::vector<std::int64_t>& places) {
  return TypeLayout::hindexed_block(1, places, TypeLayout::bytes(1)).value();
}

TEST_CASE("random nested types have the bytes, the order and the bounds of their typemaps") {
  RandomTypes random(20250101);
  int with_overlap = 0;
  int kinds_of_form[4] = {};
  for (int n = 0; n < 5000; ++n) {
    CAPTURE(n);
    const JudgedType type = random.next();
    CAPTURE(text(type.layout));
    check_bounds(type.layout, type.map);
    for (std::int64_t count = 0; count < 3; ++count) {
      const TypeLayout all = TypeLayout::contiguous(count, type.layout).value();
      const auto places = type.map.byte_places(count);
      REQUIRE(places_of(all) == places);
      REQUIRE(type.layout.is_dense(count) == is_one_run(places));
      const bool twice = std::set(places.begin(), places.end()).size() != places.size();
      REQUIRE(type.layout.may_overlap(count) == twice);
      with_overlap += twice ? 1 : 0;
      const TypeLayout again = rebuilt(places);
      REQUIRE(again == all);
    }
    if (type.layout.node()) ++kinds_of_form[static_cast<int>(type.layout.node()->kind)];
  }
  CHECK(with_overlap > 100);
  for (const int count : kinds_of_form) CHECK(count > 50);
}

TEST_CASE("layouts of the same bytes are equal however they were built") {
  const TypeLayout f = TypeLayout::bytes(4, 4);
  const TypeLayout rows = vector_of(3, 2, 40, f);
  CHECK(rows == TypeLayout::hindexed_block(2, List{0, 40, 80}, f).value());
  CHECK(rows == TypeLayout::hindexed(List{1, 1, 0, 2, 2}, List{0, 4, 99, 40, 80}, f).value());
  CHECK(rows == structure_of({1, 1}, {0, 40}, {TypeLayout::bytes(8), vector_of(2, 2, 40, f)}));
  CHECK(rows == vector_of(3, 8, 40, TypeLayout::bytes(1)));
  CHECK(rows == TypeLayout::resized(rows, -8, 400).value());
  CHECK(!same_bounds(rows, TypeLayout::resized(rows, -8, 400).value()));
  CHECK(same_form(rows.node(), TypeLayout::hindexed_block(2, List{0, 40, 80}, f).value().node()));
  // What was a list is a loop over its pattern.
  const TypeLayout record = structure_of({1, 1}, {0, 8}, {f, TypeLayout::bytes(3)});
  const TypeLayout records = vector_of(50, 1, 32, record);
  List lengths;
  List at;
  for (std::int64_t i = 0; i < 50; ++i) {
    lengths.insert(lengths.end(), {4, 3});
    at.insert(at.end(), {32 * i, 32 * i + 8});
  }
  const TypeLayout listed = TypeLayout::hindexed(lengths, at, TypeLayout::bytes(1)).value();
  CHECK(same_form(records.node(), listed.node()));
  REQUIRE(records.node()->kind == NodeKind::kLoop);
  CHECK(records.node()->count == 50);
  // A nest of loops that touch at their ends, whose forms differ.
  CHECK(vector_of(3, 1, 12, vector_of(2, 1, 8, f)) ==
        TypeLayout::hindexed(List{4, 8, 8, 4}, List{0, 8, 20, 32}, TypeLayout::bytes(1)).value());
}

TEST_CASE("order is part of what a layout is") {
  const TypeLayout f = TypeLayout::bytes(4);
  const TypeLayout by_rows = vector_of(3, 1, 100, vector_of(5, 1, 8, f));
  const TypeLayout by_columns = vector_of(5, 1, 8, vector_of(3, 1, 100, f));
  CHECK(!(by_rows == by_columns));
  CHECK(!(vector_of(2, 1, 8, f) == vector_of(2, 1, -8, f)));
  const TypeLayout backwards = TypeLayout::hindexed_block(1, List{8, 0}, f).value();
  CHECK(backwards.origin() == 8);
  CHECK(!(backwards == vector_of(2, 1, 8, f)));
  CHECK(backwards.true_lb() == 0);
}

TEST_CASE("parts without elements have no effect on bounds, and marks do") {
  const TypeLayout i = TypeLayout::bytes(4, 4);
  const TypeLayout none = structure_of({}, {}, {});
  CHECK(none.size() == 0);
  CHECK(none.extent() == 0);
  const TypeLayout empty = structure_of({0, 1}, {-1000, 500}, {i, none});
  CHECK(empty.lb() == 0);
  CHECK(empty.ub() == 0);
  const TypeLayout one = structure_of({0, 1, 0}, {-1000, 8, 4000}, {i, i, i});
  CHECK(one.lb() == 8);
  CHECK(one.ub() == 12);
  CHECK(vector_of(0, 5, 77, i).extent() == 0);
  CHECK(vector_of(5, 0, 77, i).ub() == 0);
  // Marks without bytes are entries like others.
  const TypeLayout marks = TypeLayout::resized(none, -4, 20).value();
  const TypeLayout three = TypeLayout::contiguous(3, marks).value();
  CHECK(three.size() == 0);
  CHECK(three.lb() == -4);
  CHECK(three.ub() == 56);
  CHECK(three.true_extent() == 0);
  // A mark, once set, decides alone, until it is set anew.
  const TypeLayout marked =
      structure_of({1, 1}, {0, 100}, {TypeLayout::resized(i, 0, 8).value(), i});
  CHECK(marked.ub() == 8);
  CHECK(marked.true_ub() == 104);
  CHECK(TypeLayout::resized(marked, 0, 104).value().ub() == 104);
}

TEST_CASE("negative strides move the lower bound, and alignment rounds the extent") {
  const TypeLayout d = TypeLayout::bytes(8, 8);
  const TypeLayout back = vector_of(4, 1, -16, d);
  CHECK(back.lb() == -48);
  CHECK(back.ub() == 8);
  CHECK(back.origin() == 0);
  const TypeLayout padded = structure_of({1, 1}, {0, 8}, {d, TypeLayout::bytes(1)});
  CHECK(padded.extent() == 16);
  CHECK(padded.true_extent() == 9);
  CHECK(padded.size() == 9);
  // From the parts' extents, which are rounded themselves, and not from the bytes alone.
  CHECK(vector_of(2, 1, 23, padded).extent() == 40);
  CHECK(vector_of(2, 1, 23, padded).true_extent() == 32);
  CHECK(TypeLayout::contiguous(3, padded).value().extent() == 48);
}

TEST_CASE("numbers beyond 64 bits are errors that name the call") {
  const TypeLayout d = TypeLayout::bytes(8, 8);
  const auto refused = [](const Result<TypeLayout>& made, std::string_view words) {
    REQUIRE(!made.is_ok());
    CHECK(made.status().code() == Code::kConfigError);
    CHECK(made.status().message().find(words) != std::string::npos);
  };
  refused(TypeLayout::contiguous(kFar / 4, d), "contiguous");
  refused(TypeLayout::hvector(3, 1, kFar, d), "hvector");
  refused(TypeLayout::hvector(3, kFar, 8, d), "hvector");
  refused(TypeLayout::hvector(2, 1, kFar - 3, d), "hvector");
  refused(TypeLayout::hindexed_block(1, List{-kFar, 16}, d), "hindexed_block");
  refused(TypeLayout::hindexed(List{1, 1}, List{0, kFar}, d), "hindexed");
  refused(TypeLayout::structure(List{1}, List{kFar}, std::array{d}), "structure");
  refused(TypeLayout::resized(d, kFar, 1), "resized");
  refused(TypeLayout::hindexed(List{1}, List{0, 8}, d), "1 blocklengths for 2");
  refused(TypeLayout::contiguous(-1, d), "the count is -1, accepted are 0 and more");
  refused(TypeLayout::hvector(1, -2, 8, d), "the blocklength is -2");
  refused(TypeLayout::structure(List{-3}, List{0}, std::array{d}), "a blocklength is -3");
  // What just fits is taken, and a stride that is not used is not looked at.
  CHECK(TypeLayout::contiguous(kFar / 8, d).value().size() == static_cast<std::uint64_t>(kFar) - 7);
  CHECK(TypeLayout::hvector(1, 1, kFar, d).value() == d);
  CHECK(TypeLayout::hvector(0, kFar, kFar, d).is_ok());
  const TypeLayout loose = TypeLayout::bytes(8);
  const List ends{-kFar / 2, kFar / 2 - 8};
  CHECK(TypeLayout::hindexed_block(1, ends, loose).value().extent() == kFar - 1);
  refused(TypeLayout::hindexed_block(1, ends, d), "hindexed_block");  // when rounded
}

TEST_CASE("large layouts are small, and lists of lists stay shallow") {
  const TypeLayout cube =
      vector_of(1 << 20, 1, std::int64_t{1} << 40, vector_of(1 << 18, 1, 64, TypeLayout::bytes(4)));
  CHECK(cube.size() == std::uint64_t{1} << 40);
  CHECK(!cube.may_overlap());
  CHECK(cube == vector_of(1 << 20, 1 << 18, std::int64_t{1} << 40,
                          TypeLayout::resized(TypeLayout::bytes(4), 0, 64).value()));
  // Columns one after the other: apart, though each reaches into the next.
  CHECK(!vector_of(1 << 12, 1, 8, vector_of(1 << 12, 1, 8 << 12, TypeLayout::bytes(8)))
             .may_overlap());
  CHECK(
      vector_of(1 << 12, 1, 4, vector_of(1 << 12, 1, 8 << 12, TypeLayout::bytes(8))).may_overlap());
  TypeLayout deep = TypeLayout::bytes(1);
  for (std::int64_t level = 0; level < 6000; ++level) {
    deep = structure_of({1, 1}, {0, deep.true_ub() + 1 + level % 3}, {deep, TypeLayout::bytes(1)});
  }
  CHECK(deep.size() == 6001);
  CHECK(deep.node()->depth < 100);
}

}  // namespace
}  // namespace holdfast::datatype

// Arrays with gaps as pieces that pack() takes: against element after element.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "datatype/array_shape.h"

namespace holdfast::datatype {
namespace {

// By the definition: index by index, the last one fastest.
std::vector<std::byte> packed_by_elements(const ArrayShape& shape, const std::byte* first) {
  std::vector<std::byte> out;
  const std::uint64_t many = packed_bytes(shape) / shape.element_bytes;
  for (std::uint64_t n = 0; n < many; ++n) {
    std::uint64_t rest = n;
    std::int64_t offset = 0;
    for (std::size_t d = shape.count.size(); d-- > 0;) {
      offset += static_cast<std::int64_t>(rest % shape.count[d]) * shape.stride[d];
      rest /= shape.count[d];
    }
    out.insert(out.end(), first + offset,
               first + offset + static_cast<std::ptrdiff_t>(shape.element_bytes));
  }
  return out;
}

std::vector<ArrayShape> shapes() {
  return {{4, {}, {}},
          {4, {7}, {4}},
          {4, {7}, {-12}},
          {2, {3, 1, 5}, {100, 77, 4}},
          {8, {4, 6}, {8, 32}},
          {1, {2, 3, 2, 3, 2}, {400, 110, 50, 13, 3}},
          {2, {2, 3, 2, 3, 2, 2}, {700, 200, 90, 26, 12, 4}},
          {2, {2, 3, 2, 3, 2, 4}, {48, 16, 8, 200, 96, 2}},
          {4, {3, 4}, {0, 4}},
          {4, {2, 0, 5}, {40, 20, 4}}};
}

TEST_CASE("the pieces of an array are its elements, in order") {
  for (const ArrayShape& shape : shapes()) {
    CAPTURE(shape.count.size());
    std::vector<std::byte> memory(4096);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 37 >> 2);
    const ArrayExtent all = extent(shape);
    const std::byte* const first = memory.data() - all.low;
    REQUIRE(all.high - all.low <= 4096);
    std::vector<std::byte> got(packed_bytes(shape));
    std::uint64_t next = 0;
    const auto parts = pieces(shape).value();
    for (const ArrayPiece& piece : parts) {
      CHECK(piece.packed_offset == next);
      next += piece.shape.bytes();
      pack(piece.shape, first + piece.strided_offset, got.data() + piece.packed_offset);
    }
    CHECK(next == got.size());
    CHECK(got == packed_by_elements(shape, first));
  }
}

TEST_CASE("few dimensions are one piece, huge ones as many as a kernel can count") {
  CHECK(pieces({4, {100, 200, 300}, {400000, 1200, 4}}).value().size() == 1);
  CHECK(pieces({4, {0}, {4}}).value().empty());
  const auto halves = pieces({1, {3, std::uint64_t{1} << 30}, {std::int64_t{1} << 31, 1}}).value();
  REQUIRE(halves.size() == 3);
  CHECK(halves[1].packed_offset == std::uint64_t{1} << 30);
  CHECK(halves[2].strided_offset == std::int64_t{1} << 32);
  const auto runs = pieces({1, {(std::uint64_t{1} << 32) + 7}, {1}}).value();
  std::uint64_t sum = 0;
  for (const ArrayPiece& run : runs) {
    CHECK(run.packed_offset == sum);
    CHECK(run.strided_offset == static_cast<std::int64_t>(sum));
    CHECK(run.shape.bytes() < kMostUnits);
    sum += run.shape.bytes();
  }
  CHECK(sum == (std::uint64_t{1} << 32) + 7);
}

TEST_CASE("arrays in too many pieces are refused, saying how many are taken") {
  const ArrayShape shape{1, {100, 100, 2, 2, 2, 2}, {1000000, 5000, 1000, 300, 70, 3}};
  const auto refused = pieces(shape);
  REQUIRE(!refused.is_ok());
  CHECK(refused.status().code() == Code::kUnsupported);
  CHECK(refused.status().message().find("4096") != std::string::npos);
}

TEST_CASE("elements that share memory are found, and arrays without are not accused") {
  CHECK(may_overlap({4, {3, 4}, {0, 4}}));
  CHECK(may_overlap({4, {3, 4}, {8, 4}}));
  CHECK(may_overlap({4, {3}, {2}}));
  CHECK(!may_overlap({4, {3, 4}, {4, 12}}));
  CHECK(!may_overlap({4, {3, 4}, {-16, -4}}));
  CHECK(!may_overlap({4, {1, 4}, {0, 4}}));
  CHECK(!may_overlap({4, {0, 4}, {0, 4}}));
}

}  // namespace
}  // namespace holdfast::datatype

// The kernels of listed blocks against their references, and these against the walker: random
// nested types, ranges cut anywhere, any alignment.
#include <doctest/doctest.h>

#include <set>

#include "datatype/block_list.h"
#include "kernel_run.h"
#include "random_types.h"
#include "sanitized.h"

namespace holdfast::datatype {
namespace {

using device::Memory;
using Bytes = std::vector<std::byte>;
using Places = std::vector<std::int64_t>;

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i + seed) * 0x9e3779b97f4a7c15 >> 56);
  }
  return bytes;
}

// A type's bytes as a list, and the memory that they lie in.
struct Judged {
  BlockList list;
  Places places;
  std::int64_t low = 0;
  std::size_t reach = 0;

  Judged(const TypeLayout& layout, std::int64_t count, Places given)
      : list(block_list(layout, count).value()), places(std::move(given)) {
    low = *std::ranges::min_element(places);
    reach = static_cast<std::size_t>(*std::ranges::max_element(places) + 1 - low);
  }
  std::size_t at(std::size_t packed) const {
    return static_cast<std::size_t>(places[packed] - low);
  }
};

struct Cut {
  std::size_t first;
  std::size_t bytes;
};

void check_range(const Judged& type, Cut cut, std::size_t offset, bool receives) {
  const Memory offsets = Memory::of(type.list.offsets);
  const Memory before = Memory::of(type.list.before);
  const auto argument = [&](const Memory& strided, const Memory& packed) {
    return block_list_argument(type.list,
                               {strided.data() - type.low, packed.data(),
                                offsets.as<std::int64_t>(), before.as<std::uint64_t>()},
                               cut.first, cut.bytes);
  };
  const Memory strided(pattern(type.reach, cut.first), offset);
  Bytes want;
  for (std::size_t i = 0; i < cut.bytes; ++i) {
    want.push_back(strided.data()[type.at(cut.first + i)]);
  }
  const Memory by_kernel(cut.bytes, offset);
  device::run(pack_list_kernel(), 2, argument(strided, by_kernel));
  REQUIRE(by_kernel.copy() == want);
  const Memory by_reference(cut.bytes, offset);
  pack_list(argument(strided, by_reference));
  REQUIRE(by_reference.copy() == want);
  if (!receives) return;
  Bytes filled(type.reach, std::byte{0x5a});
  for (std::size_t i = 0; i < cut.bytes; ++i) filled[type.at(cut.first + i)] = want[i];
  const Memory scattered(type.reach, offset);
  device::run(unpack_list_kernel(), 1, argument(scattered, by_kernel));
  REQUIRE(scattered.copy() == filled);
  const Memory again(type.reach, offset);
  unpack_list(argument(again, by_kernel));
  REQUIRE(again.copy() == filled);
}

TEST_CASE("random nested types are packed by kernels as by their references and the walker") {
  testing::RandomTypes random(31);
  std::set<std::uint32_t> units;
  for (int n = 0; n < (testing::kSanitized ? 100 : 600); ++n) {
    CAPTURE(n);
    const testing::JudgedType type = random.next();
    CAPTURE(text(type.layout));
    const std::int64_t count = random.between(1, 3);
    Places places = type.map.byte_places(count);
    if (places.empty()) continue;
    const bool receives = std::set(places.begin(), places.end()).size() == places.size();
    const Judged judged(type.layout, count, std::move(places));
    REQUIRE(judged.list.bytes() == judged.places.size());
    const auto size = static_cast<std::int64_t>(judged.places.size());
    const auto first = random.upto(size - 1);
    const auto bytes = random.upto(size - first);
    const auto offset = static_cast<std::size_t>(random.upto(1) * 4);
    check_range(judged, {0, judged.places.size()}, offset, receives);
    check_range(judged, {static_cast<std::size_t>(first), static_cast<std::size_t>(bytes)}, offset,
                receives);
    alignas(16) std::byte aligned[16];
    units.insert(block_list_argument(judged.list, {aligned, aligned, nullptr, nullptr}, 0,
                                     judged.places.size())
                     .unit_bytes);
  }
  CHECK(units == std::set<std::uint32_t>{1, 2, 4, 8, 16});
}

TEST_CASE("the log says where kernels ran") { MESSAGE(device::where()); }

TEST_CASE("nests of up to four strides are strided blocks, and others are not") {
  testing::RandomTypes random(32);
  int strided = 0;
  int listed = 0;
  for (int n = 0; n < 2000; ++n) {
    const testing::JudgedType type = random.next();
    const std::int64_t count = random.upto(3);
    const Places places = type.map.byte_places(count);
    const auto form = as_strided(type.layout, count).value();
    if (!form.has_value()) {
      ++listed;
      continue;
    }
    ++strided;
    REQUIRE(form->shape.bytes() == places.size());
    if (places.empty()) continue;
    const std::int64_t low = *std::ranges::min_element(places);
    const std::int64_t high = *std::ranges::max_element(places) + 1;
    const Bytes memory = pattern(static_cast<std::size_t>(high - low), 1);
    Bytes out(places.size());
    pack(form->shape, memory.data() - low + form->origin, out.data());
    for (std::size_t i = 0; i < places.size(); ++i) {
      REQUIRE(out[i] == memory[static_cast<std::size_t>(places[i] - low)]);
    }
  }
  CHECK(strided > 500);
  CHECK(listed > 100);
}

TEST_CASE("more blocks than are listed are refused") {
  const TypeLayout row = TypeLayout::hvector(1 << 11, 1, 16, TypeLayout::bytes(4)).value();
  const TypeLayout table = TypeLayout::hvector(1 << 11, 1, 1 << 20, row).value();
  const std::vector<std::int64_t> two{0, std::int64_t{1} << 33};
  const std::vector<std::int64_t> lengths{1, 1};
  const std::vector<TypeLayout> types{table, row};
  const TypeLayout both = TypeLayout::structure(lengths, two, types).value();
  CHECK(block_list(table, 3).is_ok() == false);
  CHECK(block_list(both, 1).status().code() == Code::kUnsupported);
  CHECK(as_strided(table, 3).value().has_value());
  CHECK(block_list(row, -1).status().code() == Code::kConfigError);
}

}  // namespace
}  // namespace holdfast::datatype

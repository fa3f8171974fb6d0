// Packers against the walker: random nested types, every instruction level, ranges cut anywhere,
// and not a byte written that the typemap does not name.
//
//   test_packer                       HOLDFAST_TYPES=100000 HOLDFAST_SEED=7 for more, and others
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <set>
#include <string>

#include "datatype/loops/kernels.h"
#include "datatype/packer.h"
#include "random_types.h"
#include "sanitized.h"

namespace holdfast::datatype {
namespace {

using testing::JudgedType;
using testing::RandomTypes;
using Bytes = std::vector<std::byte>;
using Places = std::vector<std::int64_t>;

constexpr std::byte kGuard{0xa5};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::stoull(text) : otherwise;
}

// A caller's buffer, no larger than the typemap reaches, so that a sanitizer sees what lies beyond.
struct Memory {
  explicit Memory(const Places& places) {
    low = places.empty() ? 0 : *std::ranges::min_element(places);
    const std::int64_t high = places.empty() ? 0 : *std::ranges::max_element(places) + 1;
    bytes.assign(static_cast<std::size_t>(high - low), kGuard);
  }
  std::byte* base() { return bytes.data() - low; }
  std::byte& at(std::int64_t place) { return bytes[static_cast<std::size_t>(place - low)]; }

  std::int64_t low = 0;
  Bytes bytes;
};

// The walker: byte after byte.
Bytes packed_by(const Places& places, Memory& memory) {
  Bytes out;
  for (const std::int64_t place : places) out.push_back(memory.at(place));
  return out;
}

struct ByteRange {
  std::size_t begin;
  std::size_t end;
};

ByteRange any_range(RandomTypes& random, std::size_t size) {
  const auto a = static_cast<std::size_t>(random.upto(static_cast<std::int64_t>(size)));
  const auto b = static_cast<std::size_t>(random.upto(static_cast<std::int64_t>(size)));
  return {std::min(a, b), std::max(a, b)};
}

void fill(Bytes& bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i + seed) * 0x9e3779b97f4a7c15 >> 56);
  }
}

bool packs(const Packer& packer, const Places& places, ByteRange range) {
  Memory memory(places);
  fill(memory.bytes, places.size());
  const Bytes all = packed_by(places, memory);
  const std::size_t size = range.end - range.begin;
  // Guarded on both sides.
  Bytes out(size + 2, kGuard);
  packer.pack(memory.base(), range.begin, std::span(out).subspan(1, size));
  if (out.front() != kGuard || out.back() != kGuard) return false;
  return std::equal(out.begin() + 1, out.end() - 1,
                    all.begin() + static_cast<std::ptrdiff_t>(range.begin));
}

// Types that name a byte twice are not unpacked.
bool unpacks(const Packer& packer, const Places& places, ByteRange range) {
  Bytes in(range.end - range.begin);
  fill(in, places.size());
  Memory expected(places);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    expected.at(places[i]) = in[i - range.begin];
  }
  Memory memory(places);
  packer.unpack(in, range.begin, memory.base());
  return memory.bytes == expected.bytes;
}

bool names_twice(const Places& places) {
  return std::set(places.begin(), places.end()).size() != places.size();
}

// Those of every level, and of the last one without permutations of bytes.
struct KernelCase {
  std::string name;
  PackKernels kernels;
};

std::vector<KernelCase> all_kernels() {
  std::vector<KernelCase> all;
  for (const CpuLevel level : cpu_levels()) {
    all.push_back({std::string(cpu_level_name(level)), pack_kernels(level, false)});
  }
  if (has_byte_permutes()) {
    all.push_back({"bytes permuted", pack_kernels(CpuLevel::kAvx512, true)});
  }
  return all;
}

void judge(const JudgedType& type, std::int64_t count, RandomTypes& random) {
  const Places places = type.map.byte_places(count);
  const bool receives = !names_twice(places);
  const ByteRange cut = any_range(random, places.size());
  for (const KernelCase& kernels : all_kernels()) {
    CAPTURE(kernels.name);
    const Packer packer = Packer::make(type.layout, count, kernels.kernels).value();
    REQUIRE(packer.bytes() == places.size());
    for (const ByteRange range : {ByteRange{0, places.size()}, cut}) {
      CAPTURE(range.begin);
      CAPTURE(range.end);
      REQUIRE(packs(packer, places, range));
      if (receives) REQUIRE(unpacks(packer, places, range));
    }
  }
}

TEST_CASE("random nested types are packed and unpacked as the walker does, at every level") {
  const std::uint64_t many = testing::kSanitized ? 500 : 4000;
  const std::uint64_t types = from_environment("HOLDFAST_TYPES", many);
  const std::uint64_t seed = from_environment("HOLDFAST_SEED", 20250102);
  CAPTURE(seed);
  RandomTypes random(seed);
  for (std::uint64_t n = 0; n < types; ++n) {
    CAPTURE(n);
    const JudgedType type = random.next();
    CAPTURE(text(type.layout));
    const std::int64_t count = random.upto(3);
    CAPTURE(count);
    judge(type, count, random);
  }
}

// Every way that shuffles and loops over blocks begin and end.
TEST_CASE("vectors and records of all short blocks and strides are packed as the walker does") {
  RandomTypes random(11);
  for (std::int64_t block = 1; block <= (testing::kSanitized ? 20 : 70); ++block) {
    for (const std::int64_t gap : {0, 1, 3, 4, 8, 40, 300}) {
      const std::int64_t stride = random.upto(3) == 0 ? -block - gap : block + gap;
      const std::int64_t count = random.upto(90);
      CAPTURE(block);
      CAPTURE(stride);
      CAPTURE(count);
      testing::Typemap map;
      for (std::int64_t i = 0; i < count; ++i) map.add(testing::element_map(block, 1), i * stride);
      const TypeLayout bytes = TypeLayout::bytes(static_cast<std::uint64_t>(block));
      judge({TypeLayout::hvector(count, 1, stride, bytes).value(), map}, 1, random);
    }
  }
  for (int n = 0; n < (testing::kSanitized ? 100 : 1500); ++n) {
    // Fields in ascending order, at times out of it, of units of 1 or 4 bytes.
    const std::int64_t unit = random.upto(1) == 0 ? 1 : 4;
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> at;
    testing::Typemap map;
    std::int64_t next = 0;
    for (std::int64_t fields = random.between(2, 6); fields > 0; --fields) {
      lengths.push_back(unit * random.between(1, 9));
      at.push_back(next);
      next += lengths.back() + unit * random.upto(4);
    }
    if (random.upto(3) == 0) {
      std::swap(at.front(), at.back());
      std::swap(lengths.front(), lengths.back());
    }
    for (std::size_t i = 0; i < at.size(); ++i) map.add(testing::element_map(lengths[i], 1), at[i]);
    const std::int64_t extent = (next + unit * random.upto(5)) * (random.upto(3) == 0 ? -1 : 1);
    const TypeLayout layout = TypeLayout::hindexed(lengths, at, TypeLayout::bytes(1)).value();
    CAPTURE(text(layout));
    CAPTURE(extent);
    judge({TypeLayout::resized(layout, 0, extent).value(), testing::resized_map(map, 0, extent)},
          random.upto(60), random);
  }
}

TEST_CASE("short and long rows of all usual elements are packed as the walker does") {
  RandomTypes random(13);
  for (const std::int64_t block : {1, 3, 4, 8, 12, 16, 48}) {
    for (std::int64_t count = 2; count <= 12; ++count) {
      const std::int64_t columns = count == 12 ? 80 : count;
      const std::int64_t stride = block + random.between(1, 20);
      const std::int64_t row =
          (columns * stride + random.between(0, 40)) * (count % 3 == 0 ? -1 : 1);
      const std::int64_t rows = random.between(2, 12);
      CAPTURE(block);
      CAPTURE(columns);
      CAPTURE(row);
      testing::Typemap map;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = 0; i < columns; ++i) {
          map.add(testing::element_map(block, 1), r * row + i * stride);
        }
      }
      const TypeLayout bytes = TypeLayout::bytes(static_cast<std::uint64_t>(block));
      const TypeLayout one = TypeLayout::hvector(columns, 1, stride, bytes).value();
      judge({TypeLayout::hvector(rows, 1, row, one).value(), map}, 1, random);
    }
  }
}

// Blocks anywhere, then a row of them, and blocks again; all of one length, or of several.
TEST_CASE("lists of blocks of all short lengths are packed as the walker does") {
  RandomTypes random(12);
  for (std::int64_t block = 1; block <= (testing::kSanitized ? 40 : 140); ++block) {
    CAPTURE(block);
    std::vector<std::int64_t> at;
    std::vector<std::int64_t> lengths;
    testing::Typemap map;
    const bool with_row = block % 2 == 0;
    const bool mixed = block % 5 == 0;
    std::int64_t next = 0;
    for (int i = 0; i < 70; ++i) {
      at.push_back(next);
      lengths.push_back(mixed && i % 3 == 0 ? random.between(1, 200) : block);
      map.add(testing::element_map(lengths.back(), 1), next);
      next += lengths.back() + (with_row && i > 5 && i < 55 ? 7 : random.between(0, 30));
    }
    const TypeLayout layout = TypeLayout::hindexed(lengths, at, TypeLayout::bytes(1)).value();
    judge({layout, map}, random.between(1, 2), random);
  }
}

// Of so few elements each that they are packed one by one: up and down, cut within elements, too.
TEST_CASE("runs of a few elements, of lengths that vary, are packed as the walker does") {
  RandomTypes random(14);
  for (const std::int64_t element : {4, 8, 12, 16}) {
    for (const std::int64_t direction : {1, -1}) {
      CAPTURE(element);
      CAPTURE(direction);
      std::vector<std::int64_t> at;
      std::vector<std::int64_t> lengths;
      testing::Typemap map;
      std::int64_t next = 0;
      for (int i = 0; i < 200; ++i) {
        at.push_back(direction * next);
        lengths.push_back(element * random.between(1, i % 17 == 0 ? 9 : 3));
        map.add(testing::element_map(lengths.back(), 1), at.back());
        next += 9 * element + random.between(1, 30);
      }
      const TypeLayout layout = TypeLayout::hindexed(lengths, at, TypeLayout::bytes(1)).value();
      for (int cuts = 0; cuts < 8; ++cuts) judge({layout, map}, 1 + cuts % 2, random);
    }
  }
}

// Address space that nobody touches but where a test writes.
class FarMemory {
 public:
  explicit FarMemory(std::size_t bytes) : bytes_(bytes) {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(made != MAP_FAILED);
    base_ = static_cast<std::byte*>(made);
  }
  ~FarMemory() { munmap(base_, bytes_); }
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::size_t bytes_;
  std::byte* base_;
};

TEST_CASE("blocks further apart than 32 bits can say are packed and unpacked") {
  const Places at{0, 5'000'000'000, 4096, 4'000'000'000, 8200};
  const FarMemory memory(5'000'000'100);
  for (const std::int64_t block : {1, 2, 4, 7, 8, 16, 33, 64, 90}) {
    CAPTURE(block);
    const TypeLayout element = TypeLayout::bytes(static_cast<std::uint64_t>(block));
    const TypeLayout layout = TypeLayout::hindexed_block(1, at, element).value();
    const Packer packer = Packer::make(layout).value();
    Bytes in(packer.bytes());
    fill(in, 3);
    packer.unpack(in, 0, memory.base());
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto n = static_cast<std::size_t>(block);
      REQUIRE(std::equal(in.begin() + static_cast<std::ptrdiff_t>(i * n),
                         in.begin() + static_cast<std::ptrdiff_t>((i + 1) * n),
                         memory.base() + at[i]));
    }
    Bytes out(in.size());
    packer.pack(memory.base(), 0, out);
    REQUIRE(out == in);
  }
}

TEST_CASE("packers of other counts share what was chosen") {
  const TypeLayout column =
      TypeLayout::resized(TypeLayout::hvector(5, 1, 64, TypeLayout::bytes(8)).value(), 0, 8)
          .value();
  const Packer one = Packer::make(column).value();
  const Packer eight = one.times(8).value();
  CHECK(one.bytes() == 40);
  CHECK(eight.bytes() == 320);
  CHECK(eight.count() == 8);
  CHECK(one.times(0).value().bytes() == 0);
  testing::Typemap map;
  for (int i = 0; i < 5; ++i) map.add(testing::element_map(8, 1), 64 * i);
  const Places places = testing::resized_map(map, 0, 8).byte_places(8);
  CHECK(packs(eight, places, {0, 320}));
  CHECK(packs(eight, places, {37, 301}));
  CHECK(unpacks(eight, places, {37, 301}));
  CHECK(one.times(-1).status().message().find("the count is -1") != std::string::npos);
  CHECK(one.times(std::int64_t{1} << 58).status().code() == Code::kConfigError);
}

// What the judge must be able to tell.
TEST_CASE("the walker finds sorted runs and a dropped offset") {
  RandomTypes random(3);
  int sorted_found = 0;
  int dropped_found = 0;
  for (int n = 0; n < 300; ++n) {
    const JudgedType type = random.next();
    const Places places = type.map.byte_places(1);
    Places wrong = places;
    std::ranges::sort(wrong);
    const auto packer_of = [](const Places& at) {
      return Packer::make(TypeLayout::hindexed_block(1, at, TypeLayout::bytes(1)).value()).value();
    };
    const ByteRange all{0, places.size()};
    if (wrong != places) sorted_found += packs(packer_of(wrong), places, all) ? 0 : 1;
    wrong = places;
    if (!wrong.empty()) wrong.back() = places.front();
    if (wrong != places) dropped_found += packs(packer_of(wrong), places, all) ? 0 : 1;
  }
  CHECK(sorted_found > 40);
  CHECK(dropped_found > 200);
}

}  // namespace
}  // namespace holdfast::datatype

// Packing, rows of a table and the state hash: kernels against the CPU's references, and the
// references against what they should be.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "datatype/rows.h"
#include "datatype/strided.h"
#include "device/state_hash.h"
#include "kernel_run.h"

namespace holdfast::datatype {
namespace {

using device::Memory;

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i * i * 7 + i * 131 + (i >> 8));
  }
  return out;
}

// ---- strided blocks ----

struct Shape {
  std::string name;
  Strided strided;
  std::size_t extent;  // bytes of the memory it is in
  std::size_t first;   // where block (0, 0, 0, 0) begins
};

std::vector<Shape> shapes() {
  return {
      {"nothing", {.block_bytes = 0}, 16, 0},
      {"no blocks", {.block_bytes = 4, .count = {1, 1, 0, 1}}, 16, 0},
      {"one byte", {.block_bytes = 1}, 1, 0},
      {"contiguous",
       {.block_bytes = 12, .count = {3, 4, 5, 6}, .stride = {1440, 360, 72, 12}},
       4320,
       0},
      {"columns of f32",
       {.block_bytes = 4, .count = {1, 1, 7, 9}, .stride = {0, 0, 4, 28}},
       252,
       0},
      {"rows of 20 of 32",
       {.block_bytes = 20, .count = {1, 1, 1, 33}, .stride = {0, 0, 0, 32}},
       1056,
       0},
      {"wide rows",
       {.block_bytes = 64, .count = {1, 5, 3, 2}, .stride = {0, 1024, 256, 96}},
       5120,
       0},
      {"backwards", {.block_bytes = 8, .count = {1, 1, 3, 5}, .stride = {0, 0, 64, -8}}, 192, 32},
      {"one row again and again",
       {.block_bytes = 6, .count = {1, 1, 4, 3}, .stride = {0, 0, 0, 6}},
       18,
       0},
      {"four dimensions, odd",
       {.block_bytes = 3, .count = {2, 3, 4, 5}, .stride = {601, 199, 41, 7}},
       1300,
       0},
  };
}

TEST_CASE("packing copies block after block, and the canonical form is the same memory") {
  const Strided columns{.block_bytes = 2, .count = {1, 1, 2, 3}, .stride = {0, 0, 2, 4}};
  const auto from = pattern(12);
  std::vector<std::byte> packed(12);
  pack(columns, from.data(), packed.data());
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(packed[i] == from[i / 6 * 2 + i % 6 / 2 * 4 + i % 2]);
  }
  for (const Shape& shape : shapes()) {
    CAPTURE(shape.name);
    const auto memory = pattern(shape.extent);
    std::vector<std::byte> a(shape.strided.bytes());
    std::vector<std::byte> b(shape.strided.bytes());
    REQUIRE(canonical(shape.strided).bytes() == a.size());
    pack(shape.strided, memory.data() + shape.first, a.data());
    pack(canonical(shape.strided), memory.data() + shape.first, b.data());
    CHECK(a == b);
  }
  CHECK(canonical(shapes()[3].strided).block_bytes == 4320);
}

TEST_CASE("the kernels pack and unpack as the CPU does, at any alignment") {
  for (const Shape& shape : shapes()) {
    for (const std::size_t offset : {0U, 1U, 2U, 4U, 8U}) {
      CAPTURE(shape.name);
      CAPTURE(offset);
      const Memory strided(pattern(shape.extent), offset);
      std::vector<std::byte> want(shape.strided.bytes());
      pack(shape.strided, strided.data() + shape.first, want.data());
      const Memory packed(want.size(), offset == 2 ? 0 : offset);
      const auto a =
          strided_argument(shape.strided, strided.data() + shape.first, packed.data()).value();
      device::run(pack_kernel(), 2, a);
      CHECK(packed.copy() == want);

      std::vector<std::byte> scattered(shape.extent, std::byte{9});
      unpack(shape.strided, want.data(), scattered.data() + shape.first);
      const Memory back(std::vector<std::byte>(shape.extent, std::byte{9}), offset);
      device::run(
          unpack_kernel(), 1,
          strided_argument(shape.strided, back.data() + shape.first, packed.data()).value());
      CHECK(back.copy() == scattered);
    }
  }
}

TEST_CASE("more units than a kernel counts are refused") {
  std::byte byte{};
  const Strided large{.block_bytes = 1, .count = {1, 1, 1, kMostUnits}, .stride = {0, 0, 0, 2}};
  const auto a = strided_argument(large, &byte, &byte);
  REQUIRE(!a.is_ok());
  CHECK(a.status().code() == Code::kUnsupported);
}

// ---- rows ----

TEST_CASE("rows are gathered as the CPU gathers them, whatever they are aligned to") {
  const std::vector<std::int64_t> numbers{4, 0, -1, 4, 2, 1, 3, -5};
  const Memory index_memory = Memory::of(numbers);
  const std::span index(index_memory.as<const std::int64_t>(), numbers.size());
  for (const std::size_t row_bytes : {0U, 1U, 2U, 4U, 20U, 100U, 128U, 600U, 1000U, 4096U}) {
    for (const std::size_t offset : {0U, 1U, 4U, 8U}) {
      CAPTURE(row_bytes);
      CAPTURE(offset);
      const std::size_t stride = row_bytes + (offset == 4 ? 4 : 0);
      const Memory table(pattern(5 * stride), offset);
      const Memory out(index.size() * row_bytes, offset);
      std::vector<std::byte> want(out.size());
      const Memory wrong_memory = Memory::of(std::vector<std::uint64_t>{0});
      auto* const wrong = wrong_memory.as<std::uint64_t>();
      auto a = rows_argument(table.data(), 5, row_bytes, stride, index, want.data(), wrong);
      REQUIRE(gather_rows(a).is_ok());
      a = rows_argument(table.data(), 5, row_bytes, stride, index, out.data(), wrong);
      device::run(rows_kernel(), 1, a);
      CHECK(out.copy() == want);
      CHECK(*wrong == 0);
    }
  }
}

TEST_CASE("an index out of range is named, and reads nothing") {
  const Memory index_memory = Memory::of(std::vector<std::int64_t>{0, 2, 1, -3});
  const std::span index(index_memory.as<const std::int64_t>(), 4);
  const Memory table(pattern(16), 0);
  const Memory out(32);
  const Memory wrong_memory = Memory::of(std::vector<std::uint64_t>{0});
  auto* const wrong = wrong_memory.as<std::uint64_t>();
  const auto a = rows_argument(table.data(), 2, 8, 8, index, out.data(), wrong);
  const Status status = gather_rows(a);
  CHECK(status.code() == Code::kConfigError);
  CHECK(status.message().find("index[1] is 2, the table has 2 rows") != std::string::npos);
  device::run(rows_kernel(), 1, a);
  CHECK((*wrong == 2 || *wrong == 4));
  for (std::size_t i = 8; i < 16; ++i) CHECK(out.data()[i] == std::byte{0});
  CHECK(out.data()[16] == table.data()[8]);
}

// ---- hashes ----

std::string hex(const device::DigestBytes& digest) {
  std::string out;
  for (const std::byte b : digest) {
    for (const unsigned digit :
         {std::to_integer<unsigned>(b) >> 4, std::to_integer<unsigned>(b) & 15U}) {
      out += "0123456789abcdef"[digit];
    }
  }
  return out;
}

struct Known {
  std::size_t bytes;
  std::string digest;
};

// Of pattern(), by the xxhash package.
const std::vector<Known> kKnown{
    {0, "99aa06d3014798d86001c324468d497f"},    {1, "a6cd5e9392000f6ac44bdff4074eecdb"},
    {2, "328b41171b215a03f56e8a884a12a69a"},    {3, "c6c920ef7817494674057618ea83e6b2"},
    {4, "003e2bc61b223cb07c2ebbfdc3ca25ff"},    {5, "d92988500eb2acb591f4e6c4c06228d8"},
    {8, "5d809ba208192260b07bbb1a63542569"},    {9, "df76d5a0f6891570daea48872d0f45ae"},
    {15, "f0729e60a33e36a1fccae87dfbf97559"},   {16, "37afab729b5aa7fc7c9c14fb2e852f6e"},
    {17, "facda454e5530bf2e9e0203f61f428fb"},   {32, "56bebff58d89e873aa992eafded22ddb"},
    {33, "42b87abd5f1c97e2b83e8b0cf8e4d68c"},   {64, "7590947da98d683fa378834e39ed84c2"},
    {65, "74aa129a7c236e69038bf48f7d3ea930"},   {96, "af9f2e5b204bbcf167e8fe6f9dbf1391"},
    {97, "c6720a50ab8a11d06de68b9e33c9b3ff"},   {128, "145e084675a60e15ba1e7910ac77289f"},
    {129, "f84c53bd3fac98b633bd97e6d86b6c01"},  {159, "eb5c534a1d56ea65b64190e5a50e0f8f"},
    {160, "e1e79216e2b319ef3d11f55804974440"},  {192, "b0edd498cac6bbd227badc683fb84807"},
    {239, "e87e5674efe7dd16b7a2898911d1e76e"},  {240, "8dc83b68ecff8f96933cafe66f45beaf"},
    {241, "15ab4ca54950a80550bc6cd982f7f7d7"},  {256, "332b7865bee0d8973c58fe3184daa943"},
    {1023, "0f64250c8f773db5191206350d523a0a"}, {1024, "3da04689e2671a87f8db8f9bdecf87f8"},
    {1025, "ce998843bcec76301e665b0fbd7ae91b"}, {1088, "c0d5c33b1da03f97f328c111a14cc787"},
    {2048, "f4b4f7e48b1a2d6ea8da98a237df1c77"}, {5000, "940a094af91278b1141a0e7724960a06"},
};

TEST_CASE("the reference has the digests of the xxhash package") {
  for (const Known& known : kKnown) {
    CAPTURE(known.bytes);
    CHECK(hex(device::reference_hash(pattern(known.bytes))) == known.digest);
  }
}

TEST_CASE("the kernels hash chunks of any size at any address as the reference does") {
  std::vector<Memory> chunks;
  for (const Known& known : kKnown) chunks.emplace_back(pattern(known.bytes), known.bytes % 7);
  chunks.emplace_back(pattern(40000), 0);
  std::vector<device::HashChunk> rows;
  for (const Memory& chunk : chunks) rows.push_back({chunk.data(), chunk.size()});
  const std::uint64_t blocks = device::most_hash_blocks(40000);
  const Memory sums(device::hash_workspace_bytes(rows.size(), blocks));
  const Memory digests(device::kDigestBytes * rows.size());
  const Memory table = Memory::of(rows);
  const device::HashArgument a{table.as<device::HashChunk>(), rows.size(), blocks,
                               sums.as<std::uint64_t>(), digests.data()};
  device::run(device::hash_blocks_kernel(), 3, a);
  device::run(device::hash_chunks_kernel(), 2, a);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    CAPTURE(chunks[i].size());
    const auto want = device::reference_hash({chunks[i].data(), chunks[i].size()});
    device::DigestBytes got;
    std::memcpy(got.data(), digests.data() + device::kDigestBytes * i, got.size());
    CHECK(hex(got) == hex(want));
  }
}

TEST_CASE("the log says where kernels ran") { MESSAGE(device::where()); }

}  // namespace
}  // namespace holdfast::datatype

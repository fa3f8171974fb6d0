// Datatypes of MPI through their bodies: what they are, how they were built, and what they pack.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/core/predefined.h"
#include "mpi/types/datatype.h"
#include "mpi_abi.h"
#include "mpi_typemap.h"

using namespace holdfast::mpi;

namespace {

using Numbers = std::vector<std::int64_t>;

Datatype* type(std::int32_t number) {
  return static_cast<Datatype*>(process().registry.find(Kind::kType, number));
}

struct WideCall : TestCall {
  WideCall() : TestCall("MPI_Test_c", true) {}
};

// A type and what it has to be.
struct Sample {
  Datatype* made;
  Typemap map;
};

Sample basic_sample(std::mt19937& random) {
  const auto rows = basic_types();
  const BasicType& row = rows[random() % rows.size()];
  return {type(row.number), typemap_of(row)};
}

std::int64_t below(std::mt19937& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

Numbers some(std::mt19937& random, std::size_t n, std::int64_t low, std::int64_t end) {
  Numbers numbers;
  for (std::size_t i = 0; i < n; ++i) numbers.push_back(low + below(random, end - low));
  return numbers;
}

Numbers scaled(Numbers numbers, std::int64_t by) {
  for (std::int64_t& number : numbers) number *= by;
  return numbers;
}

// Vectors and their kin of `old`.
Sample make_regular(std::mt19937& random, const Sample& old) {
  WideCall call;
  Datatype* made = nullptr;
  const std::int64_t count = below(random, 4);
  const std::int64_t length = below(random, 3);
  const std::int64_t stride = below(random, 9) - 4;
  Numbers places(static_cast<std::size_t>(count));
  const Numbers lengths(static_cast<std::size_t>(count), length);
  switch (random() % 4) {
    case 0:
      REQUIRE(body::Type_contiguous(call, count, old.made, made) == kSuccess);
      return {made, typemap_of_blocks({count}, {0}, old.map)};
    case 1:
      REQUIRE(body::Type_vector(call, count, length, stride, old.made, made) == kSuccess);
      for (std::size_t i = 0; i < places.size(); ++i) {
        places[i] = static_cast<std::int64_t>(i) * stride * old.map.extent();
      }
      return {made, typemap_of_blocks(lengths, places, old.map)};
    case 2:
      REQUIRE(body::Type_create_hvector(call, count, length, 3 * stride, old.made, made) ==
              kSuccess);
      for (std::size_t i = 0; i < places.size(); ++i) {
        places[i] = static_cast<std::int64_t>(i) * stride * 3;
      }
      return {made, typemap_of_blocks(lengths, places, old.map)};
    default:
      REQUIRE(body::Type_create_resized(call, old.made, stride, 8 * length, made) == kSuccess);
      return {made, typemap_resized(old.map, stride, 8 * length)};
  }
}

Sample make_irregular(std::mt19937& random, const Sample& old) {
  WideCall call;
  Datatype* made = nullptr;
  const auto n = static_cast<std::size_t>(below(random, 4));
  const auto count = static_cast<std::int64_t>(n);
  const Numbers lengths = some(random, n, 0, 3);
  const Numbers places = some(random, n, -6, 7);
  const std::int64_t extent = old.map.extent();
  const Numbers twos(n, 2);
  switch (random() % 4) {
    case 0:
      REQUIRE(body::Type_indexed(call, count, longs(lengths.data()), longs(places.data()), old.made,
                                 made) == kSuccess);
      return {made, typemap_of_blocks(lengths, scaled(places, extent), old.map)};
    case 1:
      REQUIRE(body::Type_create_hindexed(call, count, longs(lengths.data()), longs(places.data()),
                                         old.made, made) == kSuccess);
      return {made, typemap_of_blocks(lengths, places, old.map)};
    case 2:
      REQUIRE(body::Type_create_indexed_block(call, count, 2, longs(places.data()), old.made,
                                              made) == kSuccess);
      return {made, typemap_of_blocks(twos, scaled(places, extent), old.map)};
    default:
      REQUIRE(body::Type_create_hindexed_block(call, count, 2, longs(places.data()), old.made,
                                               made) == kSuccess);
      return {made, typemap_of_blocks(twos, places, old.map)};
  }
}

Sample make_struct(std::mt19937& random, const std::vector<Sample>& old) {
  WideCall call;
  Datatype* made = nullptr;
  Datatype* resized = nullptr;
  std::vector<Datatype*> types;
  std::vector<TypemapBlock> blocks;
  const auto n = static_cast<std::size_t>(below(random, 4));
  const Numbers lengths = some(random, n, 0, 3);
  const Numbers places = some(random, n, -20, 60);
  for (std::size_t i = 0; i < n; ++i) {
    const Sample& chosen = old[random() % old.size()];
    types.push_back(chosen.made);
    blocks.push_back({lengths[i], places[i], &chosen.map});
  }
  const Handles<Datatype> handles(test_abi(), types.data());
  REQUIRE(body::Type_create_struct(call, static_cast<std::int64_t>(n), longs(lengths.data()),
                                   longs(places.data()), handles, made) == kSuccess);
  if (random() % 2 == 0) return {made, typemap_of_struct(blocks)};
  REQUIRE(body::Type_create_resized(call, made, -3, 50, resized) == kSuccess);
  REQUIRE(body::Type_free(call, made) == kSuccess);
  return {resized, typemap_resized(typemap_of_struct(blocks), -3, 50)};
}

void check_packing(const Sample& sample, std::int64_t count) {
  // Places of nests of this test are less than this.
  constexpr std::int64_t kMiddle = 1 << 16;
  std::vector<std::byte> memory(2 * kMiddle);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(i * 7 + i / 256);
  const std::byte* base = memory.data() + kMiddle;
  const auto expected = packed_by_hand(sample.map, base, count);
  std::vector<std::byte> packed(expected.size() + 8);
  WideCall call;
  std::int64_t position = 3;
  REQUIRE(body::Pack(call, base, count, sample.made, packed.data(),
                     static_cast<std::int64_t>(packed.size()), position, nullptr) == kSuccess);
  CHECK(position == 3 + static_cast<std::int64_t>(expected.size()));
  CHECK(std::equal(expected.begin(), expected.end(), packed.begin() + 3));
  if (sample.made->overlaps(count)) return;
  std::vector<std::byte> theirs(memory.size(), std::byte{0xaa});
  std::vector<std::byte> ours = theirs;
  unpack_by_hand(sample.map, expected, theirs.data() + kMiddle, count);
  position = 3;
  REQUIRE(body::Unpack(call, packed.data(), static_cast<std::int64_t>(packed.size()), position,
                       ours.data() + kMiddle, count, sample.made, nullptr) == kSuccess);
  CHECK(ours == theirs);
}

}  // namespace

TEST_CASE("random nests of types are what the standard says, byte for byte") {
  std::mt19937 random(20261125);
  std::vector<Sample> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(basic_sample(random));
  for (int i = 0; i < 1500; ++i) {
    const Sample& old = samples[random() % samples.size()];
    if (std::abs(old.map.ub) + std::abs(old.map.lb) > 3000 || old.map.elements.size() > 400) {
      continue;
    }
    const auto kind = random() % 5;
    Sample made = kind == 0   ? make_struct(random, samples)
                  : kind <= 2 ? make_regular(random, old)
                              : make_irregular(random, old);
    if (made.map.elements.size() > 3000) continue;
    TestCall call;
    REQUIRE(body::Type_commit(call, made.made) == kSuccess);
    CHECK(made.made->layout.size() == static_cast<std::uint64_t>(made.map.bytes()));
    CHECK(made.made->layout.lb() == made.map.lb);
    CHECK(made.made->layout.ub() == made.map.ub);
    const std::uint64_t elements = made.made->elements == nullptr ? 0 : made.made->elements->count;
    CHECK(elements == made.map.elements.size());
    check_packing(made, below(random, 4));
    samples.push_back(std::move(made));
  }
  CHECK(samples.size() > 800);
}

TEST_CASE("elements are counted to the byte, and not within one") {
  TestCall call;
  Datatype* parts[] = {type(kTypeInt), type(kTypeDouble), type(kTypeShort)};
  const int lengths[] = {2, 1, 3};
  const std::int64_t places[] = {0, 8, 16};
  Datatype* record = nullptr;
  const IntArray where(test_abi(), places, true);
  REQUIRE(body::Type_create_struct(call, 3, ints(lengths), where,
                                   Handles<Datatype>(test_abi(), parts), record) == kSuccess);
  Datatype* many = nullptr;
  REQUIRE(body::Type_contiguous(call, 5, record, many) == kSuccess);
  REQUIRE(body::Type_commit(call, many) == kSuccess);
  const int sizes[] = {4, 4, 8, 2, 2, 2};
  std::int64_t whole = 0;
  std::int64_t end = 0;
  for (std::int64_t bytes = 0; bytes <= 3 * 22 * 5; ++bytes) {
    if (bytes == end + sizes[whole % 6]) end += sizes[whole++ % 6];
    Status status;
    status.bytes = bytes;
    std::int64_t count = -1;
    const StatusOut out(test_abi(), &status);
    CHECK(body::Get_elements(call, out, many, count) == kSuccess);
    CHECK(count == (bytes == end ? whole : kUndefined));
    CHECK(body::Get_count(call, out, many, count) == kSuccess);
    CHECK(count == (bytes % 110 == 0 ? bytes / 110 : kUndefined));
    if (bytes != end) continue;
    Status set;
    set.tag = 9;
    CHECK(body::Status_set_elements(call, StatusOut(test_abi(), &set), many, whole) == kSuccess);
    CHECK(set.bytes == bytes);
    CHECK(set.tag == 9);
  }
  TestCall bad;
  Status status;
  CHECK(body::Status_set_elements(bad, StatusOut(test_abi(), &status), many, -1) == kErrCount);
}

TEST_CASE("the contents of a type are the arguments of its constructor") {
  TestCall call;
  Datatype* made = nullptr;
  const int lengths[] = {3, 1};
  const int places[] = {5, 0};
  REQUIRE(body::Type_indexed(call, 2, ints(lengths), ints(places), type(kTypeInt), made) ==
          kSuccess);
  std::int64_t integers = 0;
  std::int64_t addresses = 0;
  std::int64_t counts = 0;
  std::int64_t types = 0;
  int combiner = 0;
  CHECK(body::Type_get_envelope(call, made, integers, addresses, counts, types, combiner) ==
        kSuccess);
  CHECK(combiner == kCombinerIndexed);
  CHECK(integers == 5);
  CHECK(addresses == 0);
  CHECK(types == 1);
  int values[5] = {};
  Datatype* parts[1] = {};
  CHECK(body::Type_get_contents(call, made, 5, 0, 0, 1, out_ints(values), out_longs(nullptr),
                                out_longs(nullptr),
                                Handles<Datatype>(test_abi(), parts)) == kSuccess);
  CHECK(std::vector<int>(values, values + 5) == std::vector<int>{2, 3, 1, 5, 0});
  CHECK(parts[0] == type(kTypeInt));
  TestCall small;
  CHECK(body::Type_get_contents(small, made, 4, 0, 0, 1, out_ints(values), out_longs(nullptr),
                                out_longs(nullptr),
                                Handles<Datatype>(test_abi(), parts)) == kErrArg);
  CHECK(says(small, "max_integers is 4", "from 5"));
}

TEST_CASE("types made with large counts are asked by the twins") {
  WideCall wide;
  TestCall narrow;
  Datatype* made = nullptr;
  REQUIRE(body::Type_create_hvector(wide, 3, 2, 40, type(kTypeInt), made) == kSuccess);
  std::int64_t integers = 0;
  std::int64_t addresses = 0;
  std::int64_t counts = 0;
  std::int64_t types = 0;
  int combiner = 0;
  CHECK(body::Type_get_envelope(narrow, made, integers, addresses, counts, types, combiner) ==
        kErrType);
  CHECK(says(narrow, "large counts"));
  CHECK(body::Type_get_envelope(wide, made, integers, addresses, counts, types, combiner) ==
        kSuccess);
  CHECK(integers == 0);
  CHECK(counts == 3);
  std::int64_t values[3] = {};
  Datatype* parts[1] = {};
  CHECK(body::Type_get_contents(wide, made, 0, 0, 3, 1, out_ints(nullptr), out_longs(nullptr),
                                out_longs(values),
                                Handles<Datatype>(test_abi(), parts)) == kSuccess);
  CHECK(Numbers(values, values + 3) == Numbers{3, 2, 40});

  Datatype* huge = nullptr;
  REQUIRE(body::Type_contiguous(wide, std::int64_t{1} << 40, type(kTypeInt), huge) == kSuccess);
  TestCall again;
  std::int64_t size = 0;
  CHECK(body::Type_size(again, huge, size) == kSuccess);
  CHECK(size == kUndefined);
  CHECK(body::Type_size(wide, huge, size) == kSuccess);
  CHECK(size == std::int64_t{4} << 40);
  CHECK(huge->fits(std::int64_t{1} << 20));
  CHECK(!huge->fits(std::int64_t{1} << 22));
}

TEST_CASE("an inner type stays while an outer one has it, and each handle is freed") {
  TestCall call;
  const auto before = process().registry.count(Kind::kType);
  Datatype* inner = nullptr;
  Datatype* outer = nullptr;
  REQUIRE(body::Type_contiguous(call, 2, type(kTypeInt), inner) == kSuccess);
  REQUIRE(body::Type_contiguous(call, 3, inner, outer) == kSuccess);
  CHECK(body::Type_free(call, inner) == kSuccess);
  CHECK(inner == nullptr);
  int values[1] = {};
  Datatype* parts[1] = {};
  CHECK(body::Type_get_contents(call, outer, 1, 0, 0, 1, out_ints(values), out_longs(nullptr),
                                out_longs(nullptr),
                                Handles<Datatype>(test_abi(), parts)) == kSuccess);
  CHECK(body::Type_free(call, outer) == kSuccess);
  CHECK(process().registry.count(Kind::kType) == before + 1);
  CHECK(body::Type_free(call, parts[0]) == kSuccess);
  CHECK(process().registry.count(Kind::kType) == before);
  TestCall refused;
  Datatype* own = type(kTypeInt);
  CHECK(body::Type_free(refused, own) == kErrType);
  CHECK(says(refused, "MPI_INT"));
}

TEST_CASE("types are nested so deep and no deeper") {
  const auto before = process().registry.count(Kind::kType);
  TestCall call;
  Datatype* outer = type(kTypeInt);
  int code = kSuccess;
  std::uint32_t depth = 0;
  while (code == kSuccess && depth <= 2 * Datatype::kMostNested) {
    Datatype* next = nullptr;
    code = body::Type_contiguous(call, 1, outer, next);
    if (code != kSuccess) break;
    ++depth;
    if (!outer->predefined) REQUIRE(body::Type_free(call, outer) == kSuccess);
    outer = next;
  }
  CHECK(code == kErrType);
  CHECK(depth == Datatype::kMostNested);
  CHECK(body::Type_free(call, outer) == kSuccess);
  CHECK(process().registry.count(Kind::kType) == before);
}

TEST_CASE("types of Fortran are found by precision and range, and are never freed") {
  TestCall call;
  Datatype* made = nullptr;
  Datatype* again = nullptr;
  REQUIRE(body::Type_create_f90_real(call, 15, kUndefined, made) == kSuccess);
  REQUIRE(body::Type_create_f90_real(call, 15, kUndefined, again) == kSuccess);
  CHECK(made == again);
  CHECK(made->layout.size() == 8);
  CHECK(made->committed);
  CHECK(made->contents.integers == std::vector<int>{15, kUndefined});
  REQUIRE(body::Type_create_f90_complex(call, 6, 30, made) == kSuccess);
  CHECK(made->layout.size() == 8);
  CHECK(made != again);
  REQUIRE(body::Type_create_f90_integer(call, 10, made) == kSuccess);
  CHECK(made->layout.size() == 8);
  CHECK(made->contents.combiner == kCombinerF90Integer);
  TestCall freed;
  CHECK(body::Type_free(freed, made) == kErrType);
  TestCall far;
  CHECK(body::Type_create_f90_integer(far, 19, made) == kErrArg);
  CHECK(says(far, "r is 19", "up to 18"));
}

TEST_CASE("subarrays and distributed arrays name each element of the array once") {
  for (const int order : {static_cast<int>(kOrderC), static_cast<int>(kOrderFortran)}) {
    for (const int distribution :
         {static_cast<int>(kDistributeBlock), static_cast<int>(kDistributeCyclic)}) {
      for (const int argument : {kDistributeDefaultArg, 4, 5}) {
        // Each rank writes its number where it has elements: all are written, and each once.
        std::vector<int> seen(7 * 10, 0);
        for (int rank = 0; rank < 6; ++rank) {
          TestCall call;
          const int sizes[] = {7, 10};
          const int distributions[] = {distribution, distribution};
          const int arguments[] = {kDistributeDefaultArg, argument};
          const int grid[] = {2, 3};
          Datatype* made = nullptr;
          REQUIRE(body::Type_create_darray(call, 6, rank, 2, ints(sizes), ints(distributions),
                                           ints(arguments), ints(grid), order, type(kTypeInt),
                                           made) == kSuccess);
          REQUIRE(body::Type_commit(call, made) == kSuccess);
          CHECK(made->layout.extent() == 70 * 4);
          CHECK(made->layout.lb() == 0);
          std::vector<int> mine(70);
          for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int>(i);
          std::vector<int> packed(made->layout.size() / 4);
          made->packer(1).pack(reinterpret_cast<std::byte*>(mine.data()), 0,
                               std::as_writable_bytes(std::span(packed)));
          for (std::size_t i = 0; i < packed.size(); ++i) {
            ++seen[static_cast<std::size_t>(packed[i])];
            if (i > 0) CHECK(packed[i] > packed[i - 1]);
          }
        }
        CHECK(std::count(seen.begin(), seen.end(), 1) == 70);
      }
    }
  }
  TestCall call;
  const int sizes[] = {4, 5};
  const int parts[] = {2, 3};
  const int starts[] = {1, 2};
  Datatype* made = nullptr;
  REQUIRE(body::Type_create_subarray(call, 2, ints(sizes), ints(parts), ints(starts), kOrderC,
                                     type(kTypeDouble), made) == kSuccess);
  CHECK(made->layout.true_lb() == (1 * 5 + 2) * 8);
  CHECK(made->layout.extent() == 20 * 8);
  CHECK(made->layout.size() == 6 * 8);
  TestCall refused;
  const int late[] = {1, 3};
  CHECK(body::Type_create_subarray(refused, 2, ints(sizes), ints(parts), ints(late), kOrderC,
                                   type(kTypeDouble), made) == kErrArg);
  CHECK(says(refused, "array_of_starts[1] is 3", "0 to 2"));
}

TEST_CASE("a cyclic dimension goes round in blocks") {
  TestCall call;
  const int size[] = {11};
  const int cyclic[] = {kDistributeCyclic};
  const int two[] = {2};
  const int grid[] = {2};
  Datatype* made = nullptr;
  REQUIRE(body::Type_create_darray(call, 2, 1, 1, ints(size), ints(cyclic), ints(two), ints(grid),
                                   kOrderC, type(kTypeByte), made) == kSuccess);
  std::vector<std::byte> bytes(11);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);
  std::vector<std::byte> packed(made->layout.size());
  made->packer(1).pack(bytes.data(), 0, packed);
  const std::vector<std::byte> expected{std::byte{2}, std::byte{3}, std::byte{6}, std::byte{7},
                                        std::byte{10}};
  CHECK(packed == expected);
}

TEST_CASE("bad arguments of constructors are named") {
  Datatype* made = nullptr;
  TestCall negative;
  CHECK(body::Type_contiguous(negative, -2, type(kTypeInt), made) == kErrCount);
  CHECK(says(negative, "count is -2"));
  TestCall length;
  const int lengths[] = {1, -1};
  const int places[] = {0, 0};
  CHECK(body::Type_indexed(length, 2, ints(lengths), ints(places), type(kTypeInt), made) ==
        kErrArg);
  CHECK(says(length, "array_of_blocklengths[1] is -1"));
  TestCall null;
  Datatype* types[] = {type(kTypeInt), nullptr};
  const std::int64_t where[] = {0, 8};
  CHECK(body::Type_create_struct(null, 2, ints(places), longs(where),
                                 Handles<Datatype>(test_abi(), types), made) == kErrType);
  CHECK(says(null, "array_of_types[1] is MPI_DATATYPE_NULL"));
  WideCall far;
  CHECK(body::Type_vector(far, 2, 1, INT64_MAX / 2, type(kTypeInt), made) == kErrArg);
  TestCall classes;
  CHECK(body::Type_match_size(classes, kClassReal, 3, made) == kErrArg);
  CHECK(says(classes, "size is 3", "4 8"));
  CHECK(made == nullptr);

  TestCall uncommitted;
  REQUIRE(body::Type_contiguous(uncommitted, 2, type(kTypeInt), made) == kSuccess);
  int from[2] = {};
  int to[2] = {};
  std::int64_t position = 0;
  CHECK(body::Pack(uncommitted, from, 1, made, to, 8, position, nullptr) == kErrType);
  TestCall room;
  position = 2;
  CHECK(body::Pack(room, from, 2, type(kTypeInt), to, 8, position, nullptr) == kErrTruncate);
  CHECK(says(room, "outsize is 8", "need 8"));
}

TEST_CASE("external32 is big endian, and longs have four bytes there") {
  TestCall call;
  std::int64_t size = 0;
  CHECK(body::Pack_external_size(call, "external32", 3, type(kTypeLong), size) == kSuccess);
  CHECK(size == 12);
  const long values[] = {1, -2, 0x12345678};
  unsigned char out[12];
  std::int64_t position = 0;
  CHECK(body::Pack_external(call, "external32", values, 3, type(kTypeLong), out, 12, position) ==
        kSuccess);
  CHECK(position == 12);
  CHECK(out[3] == 1);
  CHECK(out[4] == 0xff);
  CHECK(out[7] == 0xfe);
  CHECK(out[8] == 0x12);
  long back[3] = {};
  position = 0;
  CHECK(body::Unpack_external(call, "external32", out, 12, position, back, 3, type(kTypeLong)) ==
        kSuccess);
  CHECK(std::equal(values, values + 3, back));
  TestCall unfit;
  const long large[] = {long{1} << 40};
  position = 0;
  CHECK(body::Pack_external(unfit, "external32", large, 1, type(kTypeLong), out, 12, position) ==
        kErrConversion);
  CHECK(says(unfit, "MPI_LONG"));
  TestCall other;
  CHECK(body::Pack_external_size(other, "native", 3, type(kTypeLong), size) ==
        kErrUnsupportedDatarep);
}

TEST_CASE("long doubles survive external32, and are quads there") {
  using Limits = std::numeric_limits<long double>;
  const long double values[] = {0.0L,
                                -0.0L,
                                1.0L,
                                -1.5L,
                                0.1L,
                                Limits::max(),
                                Limits::min(),
                                Limits::denorm_min(),
                                -Limits::infinity(),
                                Limits::quiet_NaN()};
  constexpr std::int64_t kCount = std::size(values);
  unsigned char out[16 * kCount];
  long double back[kCount] = {};
  TestCall call;
  std::int64_t position = 0;
  CHECK(body::Pack_external(call, "external32", values, kCount, type(kTypeLongDouble), out,
                            sizeof out, position) == kSuccess);
  CHECK(position == 16 * kCount);
  // -1.5: the sign, an exponent of 16383, and a fraction of one half.
  CHECK(out[48] == 0xbf);
  CHECK(out[49] == 0xff);
  CHECK(out[50] == 0x80);
  position = 0;
  CHECK(body::Unpack_external(call, "external32", out, sizeof out, position, back, kCount,
                              type(kTypeLongDouble)) == kSuccess);
  for (std::size_t i = 0; i + 1 < std::size(values); ++i) {
    CHECK(back[i] == values[i]);
    CHECK(std::signbit(back[i]) == std::signbit(values[i]));
  }
  CHECK(std::isnan(back[kCount - 1]));
}

TEST_CASE("names: MPI's, the program's, and that of no type") {
  TestCall call;
  char text[64];
  int length = 0;
  const TextOut out(text, sizeof text, &length);
  CHECK(body::Type_get_name(call, type(kTypeDoubleInt), out) == kSuccess);
  CHECK(std::string(text) == "MPI_DOUBLE_INT");
  CHECK(length == 14);
  CHECK(body::Type_get_name(call, nullptr, out) == kSuccess);
  CHECK(std::string(text) == "MPI_DATATYPE_NULL");
  Datatype* made = nullptr;
  CHECK(body::Type_dup(call, type(kTypeDoubleInt), made) == kSuccess);
  CHECK(made->committed);
  CHECK(body::Type_get_name(call, made, out) == kSuccess);
  CHECK(length == 0);
  CHECK(body::Type_set_name(call, made, std::string(100, 'n')) == kSuccess);
  CHECK(body::Type_get_name(call, made, out) == kSuccess);
  CHECK(length == 63);
  CHECK(body::Type_get_value_index(call, type(kTypeDouble), type(kTypeInt), made) == kSuccess);
  CHECK(made == type(kTypeDoubleInt));
  CHECK(body::Type_get_value_index(call, type(kTypeDouble), type(kTypeFloat), made) == kSuccess);
  CHECK(made == nullptr);
}

TEST_CASE("a type that names a byte twice is no place to receive in") {
  TestCall call;
  Datatype* made = nullptr;
  REQUIRE(body::Type_create_resized(call, type(kTypeInt), 0, 2, made) == kSuccess);
  CHECK(!made->overlaps(1));
  CHECK(made->overlaps(2));
  CHECK(made->overlaps(50));
  CHECK(!made->overlaps(1));
  CHECK(!type(kTypeInt)->overlaps(1 << 30));
}

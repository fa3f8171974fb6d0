// Elements in device memory, read and written piece by piece, over the emulated device: random
// nested types against the walker, ranges, lists longer than one, and what goes over the bus.
#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "device/device_address.h"
#include "device/emulated_driver.h"
#include "device_comm/piecewise.h"
#include "random_types.h"
#include "sanitized.h"
#include "worlds.h"

namespace holdfast::testing {
namespace {

using datatype::TypeLayout;
using device::Cu;
using device::DevicePointer;
using device_comm::DeviceLayout;
using device_comm::DeviceReader;
using device_comm::DeviceWriter;
using device_comm::kPieceBytes;
using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i + seed) * 0x9e3779b97f4a7c15 >> 56);
  }
  return bytes;
}

// A world of one rank, with a device, and one array in its memory.
class Bench {
 public:
  explicit Bench(std::uint64_t memory = 64U << 20) {
    device::EmulatedSettings settings;
    settings.kernels = device::kernels();
    settings.memory_bytes = memory;
    driver_ = device::make_emulated_driver(settings);
    node_ = Node::create(options_for("tcp"), nullptr, driver_.table).value();
    staged_ = node_->staged(0).value();
    current_.emplace(staged_->device());
    stream_ = device().make_stream().value();
  }

  device::Device& device() const { return staged_->device(); }
  device::EmulatedControl& control() const { return *driver_.control; }
  std::shared_ptr<const DeviceLayout> layout(const TypeLayout& of, std::int64_t count) const {
    auto made = DeviceLayout::make(staged_, of, count, {});
    if (!made.is_ok()) FAIL(made.status().message());
    return made.value();
  }
  DevicePointer allocate(const Bytes& values) const {
    DevicePointer at = 0;
    REQUIRE(device().driver().mem_alloc(&at, std::max<std::size_t>(values.size(), 1)) ==
            Cu::kSuccess);
    Bytes copy = values;
    move(at, copy, true);
    return at;
  }
  Bytes take(DevicePointer at, std::size_t bytes) const {
    Bytes values(bytes);
    move(at, values, false);
    REQUIRE(device().driver().mem_free(at) == Cu::kSuccess);
    return values;
  }
  std::uint64_t used() const {
    while (!control().idle()) std::this_thread::yield();
    return control().device_bytes_used();
  }

 private:
  void move(DevicePointer at, Bytes& values, bool up) const {
    if (values.empty()) return;
    const device::Pinned pinned = device().take(values.size()).value();
    const DevicePointer host = device::number_of(pinned.data);
    if (up) std::memcpy(pinned.data, values.data(), values.size());
    REQUIRE(device().copy(up ? at : host, up ? host : at, values.size(), stream_).is_ok());
    REQUIRE(device().driver().stream_synchronize(stream_) == Cu::kSuccess);
    if (!up) std::memcpy(values.data(), pinned.data, values.size());
    device().give(pinned);
  }

  device::EmulatedDriver driver_;
  std::shared_ptr<Node> node_;
  std::shared_ptr<device_comm::Staged> staged_;
  std::optional<device::Device::Current> current_;
  device::CuStream stream_;
};

// Cuts [0, bytes) into parts, and has `part` for each.
template <class Part>
void in_parts(RandomTypes& random, std::size_t bytes, const Part& part) {
  for (std::size_t at = 0; at < bytes;) {
    const auto some =
        static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(bytes - at)));
    part(at, some);
    at += some;
  }
}

TEST_CASE("random nested types are read and written as the walker says, and no other byte") {
  Bench bench;
  RandomTypes random(71);
  for (int n = 0; n < (kSanitized ? 40 : 200); ++n) {
    const JudgedType type = random.next();
    CAPTURE(n);
    CAPTURE(text(type.layout));
    const std::int64_t count = random.between(1, 3);
    const std::vector<std::int64_t> places = type.map.byte_places(count);
    if (places.empty()) continue;
    const std::int64_t low = *std::ranges::min_element(places);
    const auto reach = static_cast<std::size_t>(*std::ranges::max_element(places) + 1 - low);
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(places[i] - low); };
    const Bytes memory = pattern(reach, 1);
    const DevicePointer array = bench.allocate(memory);
    const DevicePointer base = array - static_cast<DevicePointer>(low);
    const auto layout = bench.layout(type.layout, count);
    REQUIRE(layout->bytes() == places.size());
    Bytes got(places.size());
    const auto reader = DeviceReader::make({layout, base}).value();
    in_parts(random, got.size(), [&](std::size_t from, std::size_t bytes) {
      REQUIRE(reader->read(from, std::span(got).subspan(from, bytes)).is_ok());
    });
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == memory[at(i)]);
    if (std::set(places.begin(), places.end()).size() != places.size()) {
      REQUIRE(bench.take(array, reach) == memory);
      continue;
    }
    // A message that is smaller than its room.
    const auto some =
        static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(places.size())));
    const Bytes sent = pattern(some, 55);
    const auto writer = DeviceWriter::make({layout, base}).value();
    in_parts(random, some, [&](std::size_t from, std::size_t bytes) {
      REQUIRE(writer->write(from, std::span(sent).subspan(from, bytes)).is_ok());
    });
    REQUIRE(writer->finish().is_ok());
    Bytes want = memory;
    for (std::size_t i = 0; i < some; ++i) want[at(i)] = sent[i];
    REQUIRE(bench.take(array, reach) == want);
  }
  CHECK(bench.used() == 0);
}

TEST_CASE("a list of more blocks than one upload has, and its turns, are cut into several") {
  constexpr std::size_t kBlocks = datatype::kMostListedBlocks + 1000;
  Bench bench(160U << 20);
  std::vector<std::int64_t> lengths(kBlocks);
  std::vector<std::int64_t> places(kBlocks);
  std::int64_t end = 0;
  std::uint64_t draw = 1;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    draw = draw * 6364136223846793005 + 1442695040888963407;
    lengths[i] = 1 + static_cast<std::int64_t>(draw >> 62) % 2;
    places[i] = end + 1 + static_cast<std::int64_t>(draw >> 60) % 2;
    end = places[i] + lengths[i];
  }
  const TypeLayout list = TypeLayout::hindexed(lengths, places, TypeLayout::bytes(1)).value();
  const TypeLayout turns = TypeLayout::hvector(2, 1, end + 8, list).value();
  const Bytes memory = pattern(static_cast<std::size_t>(2 * end + 8), 2);
  const DevicePointer array = bench.allocate(memory);
  const auto layout = bench.layout(turns, 1);
  Bytes want;
  for (const std::int64_t turn : {std::int64_t{0}, end + 8}) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      for (std::int64_t k = 0; k < lengths[i]; ++k) {
        want.push_back(memory[static_cast<std::size_t>(turn + places[i] + k)]);
      }
    }
  }
  Bytes got(want.size());
  REQUIRE(DeviceReader::make({layout, array}).value()->read(0, got).is_ok());
  CHECK(got == want);
  CHECK(bench.take(array, memory.size()) == memory);
}

TEST_CASE("the bus carries what is packed, once, and pieces are read again where they were") {
  Bench bench;
  const TypeLayout column =
      TypeLayout::hvector(3 * kPieceBytes / 8, 8, 16, TypeLayout::bytes(1)).value();
  const Bytes memory = pattern(6 * kPieceBytes, 3);
  const DevicePointer array = bench.allocate(memory);
  const auto layout = bench.layout(column, 1);
  const std::uint64_t before = bench.control().bus_bytes();
  const auto reader = DeviceReader::make({layout, array}).value();
  Bytes got(layout->bytes());
  REQUIRE(reader->read(0, got).is_ok());
  CHECK(bench.control().bus_bytes() - before == layout->bytes());
  Bytes want(got.size());
  for (std::size_t i = 0; i < got.size(); ++i) want[i] = memory[i / 8 * 16 + i % 8];
  CHECK(got == want);
  Bytes again(16);
  REQUIRE(reader->read(kPieceBytes - 8, again).is_ok());
  CHECK(std::equal(again.begin(), again.end(),
                   got.begin() + static_cast<std::ptrdiff_t>(kPieceBytes - 8)));
  const auto writer = DeviceWriter::make({layout, array}).value();
  REQUIRE(writer->write(0, got).is_ok());
  REQUIRE(writer->finish().is_ok());
  CHECK(bench.take(array, memory.size()) == memory);
}

TEST_CASE("memory of nobody, and a lost device, are errors") {
  Bench bench;
  const DevicePointer array = bench.allocate(pattern(1000, 4));
  const auto layout = bench.layout(TypeLayout::bytes(1001), 1);
  const auto refused = DeviceReader::make({layout, array}).status();
  CHECK(refused.code() == Code::kConfigError);
  CHECK(refused.message().find("memory of the host, or of nobody") != std::string::npos);
  CHECK(DeviceWriter::make({layout, array}).status().code() == Code::kConfigError);
  const auto fits = bench.layout(TypeLayout::bytes(1000), 1);
  const auto writer = DeviceWriter::make({fits, array}).value();
  const auto reader = DeviceReader::make({fits, array}).value();
  bench.control().fail(Cu::kLaunchFailed);
  Bytes bytes(1000, std::byte{7});
  CHECK(reader->read(0, bytes).code() == Code::kSystem);
  CHECK(bytes == Bytes(1000));
  static_cast<void>(writer->write(0, bytes));
  CHECK(writer->finish().code() == Code::kSystem);
}

TEST_CASE("small messages that are under way share pinned pieces") {
  Bench bench;
  const Bytes memory = pattern(1000, 5);
  const DevicePointer array = bench.allocate(memory);
  const auto layout = bench.layout(TypeLayout::bytes(8), 1);
  const std::uint64_t before = bench.device().pinned_bytes();
  std::vector<std::unique_ptr<DeviceReader>> readers;
  for (std::uint64_t i = 0; i < 100; ++i) {
    readers.push_back(DeviceReader::make({layout, array + 8 * i}).value());
  }
  CHECK(bench.device().pinned_bytes() - before <= 8 * 64 * 1024);
  for (std::size_t i = 0; i < 100; ++i) {
    Bytes got(8);
    REQUIRE(readers[i]->read(0, got).is_ok());
    CHECK(std::equal(got.begin(), got.end(), memory.begin() + static_cast<std::ptrdiff_t>(8 * i)));
  }
  const std::uint64_t most = bench.device().pinned_bytes();
  readers.clear();
  for (std::uint64_t i = 0; i < 100; ++i) {
    readers.push_back(DeviceReader::make({layout, array + 8 * i}).value());
  }
  CHECK(bench.device().pinned_bytes() == most);
}

}  // namespace
}  // namespace holdfast::testing

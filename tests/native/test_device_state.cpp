// State in device memory, and arrays with gaps in ops, over the emulated device: what is hashed,
// packed and freed.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "device/emulated_driver.h"
#include "device_comm/device_state.h"
#include "device_comm/staged_work.h"
#include "worlds.h"

namespace holdfast::testing {
namespace {

using device::Cu;
using device::CuStream;
using device::DevicePointer;
using device_comm::DeviceState;
using device_comm::GappedArray;
using device_comm::Staged;
using device_comm::VirtualBlock;

std::byte* pointer(DevicePointer at) { return reinterpret_cast<std::byte*>(at); }  // NOLINT

// A world of one rank, with a device.
class Rig {
 public:
  Rig() {
    device::EmulatedSettings settings;
    settings.kernels = device::kernels();
    driver_ = device::make_emulated_driver(settings);
    node_ = Node::create(options_for("tcp"), nullptr, driver_.table).value();
    group_ = node_->join(store_, {"world", {0}, 1, {}, {}}).value();
    staged_ = node_->staged(0).value();
    current_.emplace(staged_->device());
    stream_ = device().make_stream().value();
  }

  device::Device& device() const { return staged_->device(); }
  device::EmulatedControl& control() const { return *driver_.control; }
  const std::shared_ptr<Staged>& staged() const { return staged_; }
  comm::Communicator& group() const { return *group_; }
  CuStream stream() const { return stream_; }

  DevicePointer allocate(std::uint64_t bytes) const {
    return device().allocate(bytes, stream_).value();
  }
  void move(DevicePointer at, std::vector<std::byte>& values, bool up) const {
    const device::Pinned pinned = device().take(values.size()).value();
    const auto host = reinterpret_cast<DevicePointer>(pinned.data);
    if (up) std::memcpy(pinned.data, values.data(), values.size());
    REQUIRE(device().copy(up ? at : host, up ? host : at, values.size(), stream_).is_ok());
    REQUIRE(device().driver().stream_synchronize(stream_) == Cu::kSuccess);
    if (!up) std::memcpy(values.data(), pinned.data, values.size());
    device().give(pinned);
  }
  // Frees what is in stream order, and says how much is left.
  std::uint64_t used() const {
    while (!control().idle()) std::this_thread::yield();
    return control().device_bytes_used();
  }

 private:
  device::EmulatedDriver driver_;
  MemoryStore store_;
  std::shared_ptr<Node> node_;
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<Staged> staged_;
  std::optional<device::Device::Current> current_;
  CuStream stream_;
};

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  return out;
}

TEST_CASE("chunks of any number and size have the digests of the host") {
  const Rig rig;
  auto values = pattern(100'000);
  const DevicePointer at = rig.allocate(values.size());
  rig.move(at, values, true);
  const std::uint64_t before = rig.used();
  const auto state = DeviceState::make(rig.staged()).value();
  REQUIRE(state->follow(rig.stream()).is_ok());
  // More than are hashed at once, of 0 to 3000 bytes, at any address.
  std::vector<device::HashChunk> chunks;
  for (std::size_t i = 0; i < 300; ++i) chunks.push_back({pointer(at) + 7 * i, 10 * i});
  std::vector<device::DigestBytes> digests(chunks.size());
  REQUIRE(state->hash(chunks, digests).is_ok());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    CHECK(digests[i] == device::reference_hash(std::span(values).subspan(7 * i, 10 * i)));
  }
  CHECK(state->hash({}, {}).is_ok());
  const device::HashChunk beyond{pointer(at), values.size() + 1};
  CHECK(state->hash({&beyond, 1}, {digests.data(), 1}).code() == Code::kConfigError);
  CHECK(rig.used() == before);
}

TEST_CASE("a state's copies and runs go with it") {
  const Rig rig;
  auto values = pattern(4096);
  const DevicePointer at = rig.allocate(values.size());
  rig.move(at, values, true);
  const std::uint64_t before = rig.used();
  {
    const auto state = DeviceState::make(rig.staged()).value();
    REQUIRE(state->follow(rig.stream()).is_ok());
    const device::Pinned pinned = rig.device().take(4096).value();
    REQUIRE(state->down(pinned.data, at, 4096).is_ok());
    CHECK(std::memcmp(pinned.data, values.data(), 4096) == 0);
    // Every other word, of which one is changed.
    const auto run = state->pack({at, {4, {512}, {8}}});
    REQUIRE(run.is_ok());
    CHECK(rig.used() > before);
    pinned.data[0] = std::byte{77};
    REQUIRE(state->up(run.value() + 44, pinned.data, 1).is_ok());
    REQUIRE(state->unpack().is_ok());
    values[88] = std::byte{77};
    auto got = values;
    rig.move(at, got, false);
    CHECK(got == values);
    CHECK(state->pack({at, {4, {3, 4}, {0, 4}}}).status().code() == Code::kConfigError);
    CHECK(state->pack({at, {4, {2000}, {8}}}).status().code() == Code::kConfigError);
    rig.device().give(pinned);
  }
  CHECK(rig.used() == before);
}

comm::OpRequest sum_of(const VirtualBlock& one, std::uint64_t count) {
  comm::OpRequest request;
  request.collective = Collective::kAllReduce;
  request.input = {{reinterpret_cast<std::byte*>(one.at), count}};  // NOLINT
  request.output = request.input;
  return request;
}

TEST_CASE("an array of more pieces than launches is packed and unpacked by a list") {
  const Rig rig;
  auto values = pattern(100 * 7100 + 7100);
  const DevicePointer at = rig.allocate(values.size());
  rig.move(at, values, true);
  const datatype::ArrayShape shape{1, {100, 100, 2, 2, 2, 2}, {7100, 70, 31, 15, 7, 3}};
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < datatype::packed_bytes(shape); ++n) {
    std::size_t rest = n;
    std::size_t place = 0;
    for (std::size_t d = shape.count.size(); d-- > 0;) {
      place += rest % shape.count[d] * static_cast<std::size_t>(shape.stride[d]);
      rest /= shape.count[d];
    }
    places.push_back(place);
  }
  const std::uint64_t before = rig.used();
  {
    const auto state = DeviceState::make(rig.staged()).value();
    REQUIRE(state->follow(rig.stream()).is_ok());
    const auto run = state->pack({at, shape});
    REQUIRE(run.is_ok());
    const device::Pinned pinned = rig.device().take(places.size()).value();
    REQUIRE(state->down(pinned.data, run.value(), places.size()).is_ok());
    bool same = true;
    for (std::size_t i = 0; i < places.size(); ++i) same &= pinned.data[i] == values[places[i]];
    CHECK(same);
    for (std::size_t i = 0; i < places.size(); ++i) {
      values[places[i]] = pinned.data[i] = static_cast<std::byte>(i * 7);
    }
    REQUIRE(state->up(run.value(), pinned.data, places.size()).is_ok());
    REQUIRE(state->unpack().is_ok());
    rig.device().give(pinned);
  }
  CHECK(rig.used() == before);
  auto got = values;
  rig.move(at, got, false);
  CHECK(got == values);
  const VirtualBlock one{device_comm::virtual_block_address(0),
                         {at, {4, {20, 20, 2, 2, 2, 2}, {7104, 256, 124, 60, 28, 12}}},
                         true};
  const CuStream stream = rig.stream();
  auto work = rig.staged()->start(rig.group(), sum_of(one, 6400), {&stream, 1}, {&one, 1});
  REQUIRE(work.is_ok());
  REQUIRE(work.value()->wait(std::chrono::seconds(30)).is_ok());
  CHECK(rig.used() == before);
}

TEST_CASE("what was packed for an op is freed, whether the op ends or is refused") {
  const Rig rig;
  auto values = pattern(64 * 1024);
  const DevicePointer at = rig.allocate(values.size());
  rig.move(at, values, true);
  const std::uint64_t before = rig.used();
  const std::vector<VirtualBlock> all{
      {device_comm::virtual_block_address(0), {at, {4, {4096}, {16}}}, true},
      {device_comm::virtual_block_address(1), {at + 60'000, {4, {4096}, {16}}}, true}};
  const CuStream stream = rig.stream();
  const auto request = sum_of(all[0], 4096);
  const auto refused = rig.staged()->start(rig.group(), request, {&stream, 1}, all);
  CHECK(refused.status().code() == Code::kConfigError);
  CHECK(rig.used() == before);
  rig.control().pause();
  auto work = rig.staged()->start(rig.group(), request, {&stream, 1}, {all.data(), 1});
  REQUIRE(work.is_ok());
  REQUIRE(work.value()->wait_on(stream).is_ok());
  CHECK(!work.value()->done());
  rig.control().resume();
  REQUIRE(work.value()->wait(std::chrono::seconds(30)).is_ok());
  CHECK(rig.used() == before);
  auto got = values;
  rig.move(at, got, false);
  CHECK(got == values);  // a sum of one
}

TEST_CASE("a device that is lost with packed arrays under way fails the op and frees who waits") {
  const Rig rig;
  const DevicePointer at = rig.allocate(64 * 1024);
  const VirtualBlock one{device_comm::virtual_block_address(0), {at, {4, {4096}, {16}}}, true};
  const CuStream stream = rig.stream();
  rig.control().pause();
  auto work = rig.staged()->start(rig.group(), sum_of(one, 4096), {&stream, 1}, {&one, 1});
  REQUIRE(work.is_ok());
  rig.control().fail(Cu::kLaunchFailed);
  rig.control().resume();
  CHECK(work.value()->wait(std::chrono::seconds(30)).code() == Code::kSystem);
}

}  // namespace
}  // namespace holdfast::testing

// Ranks with emulated devices, each on a thread of its own.
#pragma once

#include <doctest/doctest.h>

#include <numeric>

#include "device/emulated_driver.h"
#include "device_comm/device_work.h"
#include "device_comm/staged.h"
#include "worlds.h"

namespace holdfast::testing {

using device::Cu;
using device::CuStream;
using device::DevicePointer;
using device_comm::DeviceWork;
using device_comm::Staged;

// A rank with a device of its own.
struct Rig {
  device::EmulatedDriver driver;
  std::shared_ptr<Staged> staged;
  CuStream stream;

  const device::CudaDriver& d() const { return *driver.table; }
  device::Device& device() const { return staged->device(); }
};

// Floats in device memory. Copies go through pinned memory and wait: they are no part of a test.
class Array {
 public:
  // `pooled`: of a pool, which other processes cannot map.
  Array(const Rig& rig, std::vector<float> values, bool pooled = false)
      : rig_(rig), count_(values.size()) {
    REQUIRE((pooled ? rig_.d().mem_alloc_async(&at_, bytes(), {})
                    : rig_.d().mem_alloc(&at_, bytes())) == Cu::kSuccess);
    move(values, true);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { CHECK(rig_.d().mem_free(at_) == Cu::kSuccess); }

  comm::Block block(std::size_t first, std::size_t count) const {
    return {reinterpret_cast<std::byte*>(at_) + first * sizeof(float), count};  // NOLINT
  }
  comm::Block block() const { return block(0, count_); }
  DevicePointer at() const { return at_; }
  std::vector<float> values() const {
    std::vector<float> values(count_);
    move(values, false);
    return values;
  }

 private:
  std::size_t bytes() const { return std::max<std::size_t>(count_, 1) * sizeof(float); }
  void move(std::vector<float>& values, bool up) const {
    if (values.empty()) return;
    const auto host = reinterpret_cast<DevicePointer>(values.data());
    CuStream own;
    REQUIRE(rig_.d().stream_create_with_priority(&own, 0, 0) == Cu::kSuccess);
    REQUIRE(rig_.d().mem_host_register(values.data(), bytes(), 0) == Cu::kSuccess);
    REQUIRE(rig_.d().memcpy_async(up ? at_ : host, up ? host : at_, bytes(), own) == Cu::kSuccess);
    REQUIRE(rig_.d().stream_synchronize(own) == Cu::kSuccess);
    REQUIRE(rig_.d().mem_host_unregister(values.data()) == Cu::kSuccess);
    REQUIRE(rig_.d().stream_destroy(own) == Cu::kSuccess);
  }

  const Rig& rig_;
  std::size_t count_;
  DevicePointer at_ = 0;
};

using Body = std::function<std::string(int, Member&, Rig&)>;

// What differs from rank to rank, or from test to test.
struct Setup {
  std::uint64_t slice_bytes = 4096;
  std::string transport = "shm";
  std::function<void(int, Options&, device::EmulatedSettings&)> adjust = {};
  // Gives the runtime's table of a rank; the rank itself calls the driver's own.
  std::function<device::DriverTable(int, const device::DriverTable&)> wrap = {};
};

// As run_world(), with devices.
inline void run_rigs(int size, const Body& body, const Setup& setup = {}) {
  MemoryStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      device::EmulatedSettings settings;
      Options options = options_for(setup.transport);
      options.cuda_slice_bytes = setup.slice_bytes;
      if (setup.adjust) setup.adjust(r, options, settings);
      Rig rig{device::make_emulated_driver(settings), nullptr, {}};
      auto node = Node::create(options, nullptr,
                               setup.wrap ? setup.wrap(r, rig.driver.table) : rig.driver.table);
      REQUIRE(node.is_ok());
      auto group = node.value()->join(store, {"world", {r}, size, {}, {}});
      REQUIRE(group.is_ok());
      auto staged = node.value()->staged(0);
      REQUIRE(staged.is_ok());
      rig.staged = staged.value();
      const device::Device::Current current(rig.device());
      rig.stream = rig.device().make_stream().value();
      Member member{node.value(), group.value()};
      errors[static_cast<std::size_t>(r)] = body(r, member, rig);
    });
  }
  for (std::thread& t : threads) t.join();
  expect_no_errors(errors);
}

inline OpRequest request_of(Collective collective, comm::BlockList input, comm::BlockList output) {
  OpRequest request;
  request.collective = collective;
  request.input = std::move(input);
  request.output = std::move(output);
  return request;
}

inline std::shared_ptr<DeviceWork> begin(Rig& rig, Member& member, const OpRequest& request) {
  auto work = rig.staged->start(*member.group, request, {&rig.stream, 1});
  if (!work.is_ok()) FAIL(work.status().message());
  return work.value();
}

inline std::string run(Rig& rig, Member& member, const OpRequest& request) {
  return begin(rig, member, request)->wait(seconds(30)).message();
}

inline std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace holdfast::testing

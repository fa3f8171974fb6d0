// Tables in host memory, read by the emulated device.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "device/emulated_driver.h"
#include "device/kernel.h"
#include "device_comm/host_table.h"

namespace holdfast::runtime {
namespace {

using device::Cu;
using device::DevicePointer;

constexpr std::uint64_t kRows = 100;
constexpr std::uint64_t kColumns = 33;  // of u16: rows that begin at odd places of a line

struct Rig {
  explicit Rig(bool with_kernels = true) {
    device::EmulatedSettings settings;
    if (with_kernels) settings.kernels = device::kernels();
    driver = device::make_emulated_driver(settings);
    const device::HostMemory memory{
        [](std::uint64_t bytes) { return new std::byte[bytes]; },  // NOLINT
        [](std::byte* data) { delete[] data; }};                   // NOLINT
    auto opened = device::Device::open(driver.table, 0, memory);
    REQUIRE(opened.is_ok());
    auto made = device_comm::Staged::make(opened.value(), {}, {.slice_bytes = 1 << 20});
    REQUIRE(made.is_ok());
    staged = made.value();
    std::iota(table.begin(), table.end(), std::uint16_t{0});
  }

  std::unique_ptr<device_comm::HostTable> make() {
    auto made = device_comm::HostTable::make(staged, reinterpret_cast<std::byte*>(table.data()),
                                             kRows, kColumns * sizeof(std::uint16_t));
    REQUIRE(made.is_ok());
    return std::move(made).value();
  }

  device::EmulatedDriver driver;
  std::shared_ptr<device_comm::Staged> staged;
  std::vector<std::uint16_t> table = std::vector<std::uint16_t>(kRows * kColumns);
};

// Device memory: the emulated one is the host's.
class Memory {
 public:
  Memory(const Rig& rig, std::size_t bytes) : rig_(rig), current_(rig.staged->device()) {
    REQUIRE(rig_.driver.table->mem_alloc(&at_, bytes) == Cu::kSuccess);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { CHECK(rig_.driver.table->mem_free(at_) == Cu::kSuccess); }

  DevicePointer at() const { return at_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(at_);  // NOLINT
  }

 private:
  const Rig& rig_;
  const device::Device::Current current_;
  DevicePointer at_ = 0;
};

void wait_for(const Rig& rig, device::CuStream stream) {
  const device::Device::Current current(rig.staged->device());
  REQUIRE(rig.driver.table->stream_synchronize(stream) == Cu::kSuccess);
}

TEST_CASE("rows come by number, from either end, and a wrong number is told once") {
  Rig rig;
  const auto table = rig.make();
  const std::vector<std::int64_t> numbers{0, 99, -1, -100, 57, 57, 100};
  const Memory index(rig, numbers.size() * sizeof(std::int64_t));
  const Memory out(rig, numbers.size() * kColumns * sizeof(std::uint16_t));
  std::memcpy(index.as<std::int64_t>(), numbers.data(), numbers.size() * sizeof(std::int64_t));
  REQUIRE(table->gather(index.at(), numbers.size(), out.at(), table->stream()).is_ok());
  wait_for(rig, table->stream());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool wrong = numbers[i] >= static_cast<std::int64_t>(kRows);
    const auto row = static_cast<std::size_t>(numbers[i] < 0 ? numbers[i] + 100 : numbers[i]);
    for (std::size_t c = 0; c < kColumns; ++c) {
      CHECK(out.as<std::uint16_t>()[i * kColumns + c] ==
            (wrong ? 0 : rig.table[row * kColumns + c]));
    }
  }
  CHECK(table->take_wrong_index());
  CHECK_FALSE(table->take_wrong_index());
}

TEST_CASE("memory that is not the device's is refused, and nothing is launched") {
  Rig rig;
  const auto table = rig.make();
  const Memory there(rig, 64);
  std::vector<std::int64_t> here(8);
  const auto address = reinterpret_cast<DevicePointer>(here.data());
  CHECK(table->gather(address, 1, there.at(), table->stream()).code() == Code::kConfigError);
  CHECK(table->gather(there.at(), 1, address, table->stream()).code() == Code::kConfigError);
  CHECK(table->gather(there.at(), 8, there.at(), table->stream()).code() == Code::kConfigError);
  CHECK(table->gather(address, 0, address, table->stream()).is_ok());
}

TEST_CASE("a table that goes waits for its gathers, and unpins its memory") {
  Rig rig;
  const std::uint64_t before = rig.driver.control->pinned_bytes();
  const Memory index(rig, 64 * sizeof(std::int64_t));
  const Memory out(rig, 64 * kColumns * sizeof(std::uint16_t));
  std::memset(index.as<std::byte>(), 0, 64 * sizeof(std::int64_t));
  for (int i = 0; i < 3; ++i) {
    auto table = rig.make();
    REQUIRE(table->gather(index.at(), 64, out.at(), device::legacy_stream()).is_ok());
    table.reset();
    CHECK(rig.driver.control->idle());
  }
  // The word that tells of wrong numbers stays in the device's pool.
  CHECK(rig.driver.control->pinned_bytes() - before <= 1 << 20);
}

TEST_CASE("a driver that does not know a kernel says which step failed") {
  Rig rig(false);
  const auto table = rig.make();
  const Memory index(rig, 8);
  const Memory out(rig, kColumns * sizeof(std::uint16_t));
  const Status status = table->gather(index.at(), 1, out.at(), table->stream());
  CHECK_FALSE(status.is_ok());
  CHECK(status.message().find("finding a kernel") != std::string::npos);
}

}  // namespace
}  // namespace holdfast::runtime

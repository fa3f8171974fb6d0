// The emulator that runs kernels without a GPU, the catalogue, and the reduction on it against the
// CPU's references.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "comm/reduce/device_reduce.h"
#include "comm/reduce/kernels.h"
#include "device/simt.h"
#include "kernel_run.h"

namespace holdfast::device {
namespace {

using comm::DeviceReduce;
using comm::ReduceArgument;

constexpr std::array<std::size_t, 12> kCounts{0, 1, 2, 3, 7, 15, 16, 17, 33, 65, 257, 1000};

// ---- the emulator
// --------------------------------------------------------------------------------

struct Numbers {
  std::uint64_t* out;
  std::uint64_t count;
};

void number_threads(const Thread& thread, const Numbers& a) {
  for (std::uint64_t i = thread.global(); i < a.count; i += thread.stride()) a.out[i] += i + 1;
}

TEST_CASE("a loop over the grid meets every element once, with any number of blocks") {
  for (const std::uint32_t blocks : {1U, 2U, 7U}) {
    std::vector<std::uint64_t> out(3000);
    const Numbers a{out.data(), out.size()};
    emulate<&number_threads>({blocks, kThreads}, &a);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == i + 1);
  }
}

// What each lane says of its warp, and each warp, through shared memory, of its block.
void look_around(const Team& team, const Numbers& a) {
  const std::uint32_t lane = team.lane();
  const auto value = static_cast<std::uint32_t>(team.global() * 2654435761U);
  std::uint64_t seen = team.ballot(lane % 3 == 0);
  seen = seen * 31 + team.greatest(value);
  seen = seen * 31 + team.least(value);
  for (std::uint32_t bits = 1; bits < kWarp; bits *= 2) seen = seen * 31 + team.swap(seen, bits);
  seen = seen * 31 + static_cast<std::uint64_t>(team.shuffle(static_cast<float>(lane), 7) * 8);
  auto& warps = team.shared<std::array<std::uint64_t, kThreads>>();
  warps[team.index()] = seen;
  team.sync();
  a.out[team.global()] = warps[(team.index() * 7 + 1) % kThreads];
}

std::vector<std::uint64_t> looks(std::uint32_t block) {
  std::vector<std::uint64_t> seen(kThreads);
  for (std::uint32_t warp = 0; warp < kThreads / kWarp; ++warp) {
    std::array<std::uint64_t, kWarp> lanes{};
    std::uint32_t ballot = 0;
    std::uint32_t greatest = 0;
    std::uint32_t least = ~0U;
    for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
      const std::uint64_t global = std::uint64_t{block} * kThreads + warp * kWarp + lane;
      const auto value = static_cast<std::uint32_t>(global * 2654435761U);
      ballot |= lane % 3 == 0 ? 1U << lane : 0;
      greatest = std::max(greatest, value);
      least = std::min(least, value);
    }
    lanes.fill((std::uint64_t{ballot} * 31 + greatest) * 31 + least);
    for (std::uint32_t bits = 1; bits < kWarp; bits *= 2) {
      const auto before = lanes;
      for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
        lanes[lane] = before[lane] * 31 + before[lane ^ bits];
      }
    }
    for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
      seen[warp * kWarp + lane] = lanes[lane] * 31 + 56;
    }
  }
  return seen;
}

TEST_CASE("threads of a warp exchange what they have, and those of a block meet") {
  std::vector<std::uint64_t> out(3 * kThreads);
  const Numbers a{out.data(), out.size()};
  emulate<&look_around>({3, kThreads}, &a);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto seen = looks(block);
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      CHECK(out[block * kThreads + i] == seen[(i * 7 + 1) % kThreads]);
    }
  }
}

// ---- the catalogue
// -------------------------------------------------------------------------------

TEST_CASE("every kernel has a name of its own and an image that holds it") {
  std::set<std::string_view> names;
  std::set<std::string_view> images;
  for (const KernelImage& image : kernel_images()) {
    images.insert(image.name);
    CHECK(reinterpret_cast<std::uintptr_t>(image.bytes.data()) % 16 == 0);
    // A fat binary begins with this number, and tells its size.
    REQUIRE(image.bytes.size() > 16);
    std::uint32_t magic = 0;
    std::memcpy(&magic, image.bytes.data(), sizeof magic);
    CHECK(magic == 0xba55ed50U);
  }
  for (const KernelRow& row : kernels()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.name.data()[row.name.size()] == '\0');
    CHECK(row.argument_bytes <= 4096);  // what a launch may carry
    CHECK((images.empty() || images.contains(row.image)));
    CHECK(find_kernel(row.name) == &row);
  }
  CHECK(find_kernel("holdfast_reduce_sum_of_nothing") == nullptr);
  if (images.empty()) MESSAGE("images: none, the build had no nvcc");
}

TEST_CASE("a grid that stays is as large as the work or as the device") {
  CHECK(persistent(0, 100).blocks == 1);
  CHECK(persistent(kThreads + 1, 100).blocks == 2);
  CHECK(persistent(std::uint64_t{1} << 40, 100).blocks == 100 * kBlocksPerProcessor);
  CHECK(persistent(1, 0).blocks == 1);
}

// ---- the reduction
// -------------------------------------------------------------------------------

// Random bits, among which every special value turns up.
std::vector<std::byte> random_elements(DType dtype, std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> out(count * dtype_bytes(dtype));
  std::uint64_t state = seed * 2654435761U + 1;
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 32;
  };
  for (std::byte& b : out) b = static_cast<std::byte>(next() >> 24);
  if (dtype != DType::kF32 && dtype != DType::kC64) return out;
  constexpr std::array<std::uint32_t, 8> kSpecial{
      0x7fc00001U, 0xff800000U, 0x7f800000U, 0x80000000U, 1U, 0x807fffffU, 0x7f7fffffU, 0U};
  for (std::size_t at = 0; at + 4 <= out.size(); at += 4) {
    if (next() % 4 == 0) std::memcpy(&out[at], &kSpecial[next() % 8], 4);
  }
  return out;
}

template <class F>
bool is_nan(const std::byte* at) {
  F x;
  std::memcpy(&x, at, sizeof x);
  return std::isnan(x);
}

bool is_nan_small(DType dtype, const std::byte* at) {
  std::uint16_t x = 0;
  std::memcpy(&x, at, dtype_bytes(dtype));
  switch (dtype) {
    case DType::kF16: return (x & 0x7fffU) > 0x7c00U;
    case DType::kBF16: return (x & 0x7fffU) > 0x7f80U;
    case DType::kF8E4M3: return (x & 0x7fU) == 0x7fU;
    default: return (x & 0x7fU) > 0x7cU;
  }
}

// The number of the first element that differs; which NaN it is, is nobody's promise.
std::size_t first_difference(DType dtype, const std::vector<std::byte>& a,
                             const std::vector<std::byte>& b) {
  const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
  const std::size_t bytes = dtype_bytes(dtype) / (complex ? 2 : 1);
  for (std::size_t at = 0; at < a.size(); at += bytes) {
    if (std::memcmp(&a[at], &b[at], bytes) == 0) continue;
    const auto nan = [&](const std::byte* x) {
      switch (dtype) {
        case DType::kF32:
        case DType::kC64: return is_nan<float>(x);
        case DType::kF64:
        case DType::kC128: return is_nan<double>(x);
        case DType::kF16:
        case DType::kBF16:
        case DType::kF8E4M3:
        case DType::kF8E5M2: return is_nan_small(dtype, x);
        default: return false;
      }
    };
    if (!nan(&a[at]) || !nan(&b[at])) return at / bytes;
  }
  return a.size() / bytes;
}

bool same(DType dtype, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  REQUIRE(a.size() == b.size());
  return a.empty() || first_difference(dtype, a, b) * dtype_bytes(dtype) >= a.size();
}

template <class Check>
void for_every_reduction(Check check) {
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      CAPTURE(dtype_name(dtype));
      CAPTURE(reduce_op_name(op));
      const DeviceReduce found = comm::device_reduce(dtype, op);
      REQUIRE((found.kernel != nullptr) == comm::reduces_on_device(dtype, op));
      if (found.kernel != nullptr) check(dtype, op, found);
    }
  }
}

ReduceArgument argument_of(const DeviceReduce& found, std::byte* out,
                           const std::vector<Memory>& inputs, std::size_t count,
                           std::uint32_t divisor = 1) {
  ReduceArgument a{};
  a.out = out;
  for (std::size_t k = 0; k < inputs.size(); ++k) a.in[k] = inputs[k].data();
  a.count = count * found.elements;
  a.inputs = static_cast<std::uint32_t>(inputs.size());
  a.divisor = divisor;
  return a;
}

std::vector<Memory> inputs_of(DType dtype, std::size_t count, std::size_t inputs,
                              std::size_t offset) {
  std::vector<Memory> all;
  for (std::size_t k = 0; k < inputs; ++k) {
    // Each off by something else, so that vectors of one straddle those of another.
    all.emplace_back(random_elements(dtype, count, count + 100 * k), offset * (k + 1) % 16);
  }
  return all;
}

std::vector<std::byte> folded(DType dtype, ReduceOp op, const std::vector<Memory>& inputs,
                              std::size_t count) {
  std::vector<std::byte> want = inputs[0].copy();
  const auto reduce = comm::reference_reduce_kernel(dtype, op);
  for (std::size_t k = 1; k < inputs.size(); ++k) {
    reduce(want.data(), want.data(), inputs[k].data(), count);
  }
  return want;
}

TEST_CASE("every reduction gives the reference's result at any length and offset") {
  for_every_reduction([](DType dtype, ReduceOp op, const DeviceReduce& found) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t offset : {std::size_t{0}, dtype_bytes(dtype), std::size_t{3}}) {
        CAPTURE(count);
        CAPTURE(offset);
        const auto inputs = inputs_of(dtype, count, 2, offset);
        const Memory out(count * dtype_bytes(dtype), offset % 16);
        run(*found.kernel, 2, argument_of(found, out.data(), inputs, count));
        CHECK(same(dtype, out.copy(), folded(dtype, op, inputs, count)));
      }
    }
  });
}

TEST_CASE("the output may be an input") {
  for_every_reduction([](DType dtype, ReduceOp op, const DeviceReduce& found) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto inputs = inputs_of(dtype, 67, 2, dtype_bytes(dtype));
      const auto want = folded(dtype, op, inputs, 67);
      run(*found.kernel, 3, argument_of(found, inputs[k].data(), inputs, 67));
      CHECK(same(dtype, inputs[k].copy(), want));
    }
  });
}

TEST_CASE("many inputs are folded from left to right, as the CPU does one after the other") {
  for_every_reduction([](DType dtype, ReduceOp op, const DeviceReduce& found) {
    for (const std::size_t ranks : {std::size_t{1}, std::size_t{3}, std::size_t{16}}) {
      CAPTURE(ranks);
      const auto inputs = inputs_of(dtype, 131, ranks, ranks == 3 ? dtype_bytes(dtype) : 0);
      const Memory out(131 * dtype_bytes(dtype));
      run(*found.kernel, 1, argument_of(found, out.data(), inputs, 131));
      CHECK(same(dtype, out.copy(), folded(dtype, op, inputs, 131)));
    }
  });
}

TEST_CASE("an average is divided in the same pass, as the CPU divides it in the next one") {
  for_every_reduction([](DType dtype, ReduceOp op, const DeviceReduce& found) {
    if (op != ReduceOp::kAvg) return;
    for (const std::size_t ranks : {std::size_t{1}, std::size_t{3}}) {
      const auto inputs = inputs_of(dtype, 203, ranks, 0);
      auto want = folded(dtype, op, inputs, 203);
      comm::reference_divide_kernel(dtype)(want.data(), 203, 3);
      const Memory out(203 * dtype_bytes(dtype));
      run(*found.kernel, 1, argument_of(found, out.data(), inputs, 203, 3));
      CHECK(same(dtype, out.copy(), want));
    }
  });
}

TEST_CASE("the log says where kernels ran") { MESSAGE(where()); }

}  // namespace
}  // namespace holdfast::device

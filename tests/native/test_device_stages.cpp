// topk and bfloat on the device, stage after stage, against the CPU's reference level.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "codec_data.h"
#include "compress/block_codec.h"
#include "compress/device/stages.h"
#include "kernel_run.h"
#include "sanitized.h"

namespace holdfast::compress {
namespace {

using device::Memory;

constexpr std::array kBlocks{1U, 3U};

void run_stages(const std::vector<Stage>& stages, std::uint32_t blocks) {
  for (const Stage& stage : stages) {
    const device::KernelLaunch launch{blocks, device::kThreads};
    if (const device::Gpu* gpu = device::Gpu::find(); gpu != nullptr) {
      gpu->run(*stage.row, launch, stage.argument.data());
    } else {
      stage.row->emulate(launch, stage.argument.data());
    }
  }
}

std::vector<std::byte> bits_of(const std::vector<float>& x) {
  std::vector<std::byte> out(4 * x.size());
  if (!x.empty()) std::memcpy(out.data(), x.data(), out.size());
  return out;
}

std::vector<std::byte> narrowed(const std::vector<float>& x, DType dtype) {
  if (dtype == DType::kF32) return bits_of(x);
  std::vector<std::byte> out(2 * x.size());
  narrow(CpuLevel::kReference, dtype, x.data(), out.data(), x.size());
  return out;
}

struct Encoded {
  std::vector<std::byte> frame;
  std::vector<std::byte> residual;
};

Encoded by_device(const Codec& codec, const std::vector<std::byte>& input, DType dtype,
                  const std::vector<float>& residual, std::size_t offset, std::uint32_t blocks) {
  const std::size_t count = input.size() / dtype_bytes(dtype);
  const Memory values(input, offset * dtype_bytes(dtype));
  const Memory fed(bits_of(residual), 0);
  const Memory frame(codec.encoded_bound(dtype, count), offset);
  const Memory scratch(stage_bytes(codec, count));
  const Memory report(sizeof(StageReport));
  run_stages(encode_stages(codec,
                           {.input = values.data(),
                            .dtype = dtype,
                            .count = count,
                            .residual = residual.empty() ? nullptr : fed.as<float>(),
                            .frame = frame.data()},
                           {scratch.data(), report.as<StageReport>()}),
             blocks);
  Encoded out{frame.copy(), fed.copy()};
  if (!codec.spec().fixed_size) out.frame.resize(report.as<StageReport>()->frame_bytes);
  return out;
}

struct Decoded {
  std::vector<std::byte> out;
  bool wrong;
};

Decoded by_device(const Codec& codec, const std::vector<std::byte>& frame, DType dtype,
                  const std::vector<std::byte>& out, bool add, std::size_t offset,
                  std::uint32_t blocks) {
  const std::size_t count = out.size() / (add ? 4 : dtype_bytes(dtype));
  const Memory read(frame, offset);
  const Memory to(out, 0);
  const Memory scratch(stage_bytes(codec, count));
  const Memory report(sizeof(StageReport));
  auto stages = decode_stages(codec,
                              {.frame = read.data(),
                               .frame_bytes = frame.size(),
                               .dtype = dtype,
                               .count = count,
                               .out = to.data(),
                               .add = add},
                              {scratch.data(), report.as<StageReport>()});
  if (!stages.is_ok()) {
    CHECK(stages.status().code() == Code::kProtocolError);
    return {{}, true};
  }
  run_stages(stages.value(), blocks);
  return {to.copy(), report.as<StageReport>()->wrong != 0};
}

// ---- topk ----

std::vector<Tensor> with_special(std::size_t count) {
  auto all = finite_tensors(count);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array special{std::bit_cast<float>(0x7fc12345U), std::bit_cast<float>(0xffa00001U),
                           kInfinity, -kInfinity};
  for (std::size_t s = 0; s < special.size(); ++s) {
    auto few = normals(count, count + s);
    auto many = few;
    for (std::size_t i = s; i < count; i += 200) few[i] = special[s];
    for (std::size_t i = s; i < count; i += 2) many[i] = special[(s + i) % special.size()];
    all.push_back({"few", few});
    all.push_back({"many", many});
  }
  return all;
}

void compare_topk(const Codec& codec, const Tensor& tensor, DType dtype, bool feeds_back,
                  std::size_t offset) {
  CAPTURE(tensor.name);
  CAPTURE(tensor.values.size());
  const auto input = narrowed(tensor.values, dtype);
  auto residual = feeds_back ? normals(tensor.values.size(), 5, 0.1F) : std::vector<float>{};
  const auto got = by_device(codec, input, dtype, residual, offset, kBlocks[offset % 2]);
  std::vector<std::byte> frame(codec.encoded_bound(dtype, tensor.values.size()));
  frame.resize(codec.encode({input, dtype, {}, residual}, frame));
  CHECK(got.frame == frame);
  CHECK(got.residual == bits_of(residual));

  std::vector<std::byte> want(input.size());
  REQUIRE(codec.decode(frame, dtype, want).is_ok());
  const std::vector<std::byte> before(input.size(), std::byte{7});
  const auto read = by_device(codec, frame, dtype, before, false, offset, 2);
  CHECK(!read.wrong);
  CHECK(read.out == want);
}

TEST_CASE("topk sends what the CPU sends: ties, NaNs, infinities, residuals") {
  for (const double ratio : {0.01, 0.3, 1.0}) {
    const Codec codec = Codec::make("topk", {.ratio = ratio}).value().at(CpuLevel::kReference);
    CAPTURE(codec.text());
    std::size_t offset = 0;
    for (const std::size_t count : {0U, 1U, 31U, 255U, 256U, 257U, 1000U}) {
      for (const Tensor& tensor : with_special(count)) {
        compare_topk(codec, tensor, DType::kF32, offset % 3 == 0, offset % 4);
        ++offset;
      }
    }
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      for (const Tensor& tensor : with_special(515)) {
        compare_topk(codec, tensor, dtype, offset++ % 2 == 0, 0);
      }
    }
  }
}

TEST_CASE("topk of many sections does not depend on the grid") {
  const Codec codec = Codec::make("topk", {.ratio = 0.02}).value().at(CpuLevel::kReference);
  auto values = normals(300'001, 3);
  for (std::size_t i = 0; i < values.size(); i += 50) values[i] = i % 100 == 0 ? 2.5F : -2.5F;
  for (const bool feeds_back : {false, true}) {
    if (testing::kSanitized && !feeds_back) continue;
    compare_topk(codec, {"many ties", values}, DType::kF32, feeds_back, feeds_back ? 1 : 0);
  }
}

TEST_CASE("topk adds to sums, and tells frames that cannot be") {
  const Codec codec = Codec::make("topk", {.ratio = 0.1}).value().at(CpuLevel::kReference);
  const auto values = normals(777, 8);
  const auto frame = by_device(codec, bits_of(values), DType::kF32, {}, 0, 2).frame;
  auto sum = normals(777, 9);
  const auto added = by_device(codec, frame, DType::kF32, bits_of(sum), true, 0, 2);
  REQUIRE(codec.decode_add(frame, sum).is_ok());
  CHECK(!added.wrong);
  CHECK(added.out == bits_of(sum));
  const auto refused = [&](const std::vector<std::byte>& bad) {
    std::vector<std::byte> out(4 * values.size());
    CHECK(!codec.decode(bad, DType::kF32, out).is_ok());
    CHECK(by_device(codec, bad, DType::kF32, out, false, 0, 2).wrong);
  };
  const auto with_number = [&](std::size_t entry, std::uint32_t number) {
    auto bad = frame;
    std::memcpy(&bad[4 * entry], &number, 4);
    return bad;
  };
  refused({frame.begin(), frame.end() - 1});
  refused(with_number(frame.size() / 8 - 1, 777));
  refused(with_number(3, 0));
  std::uint32_t first = 0;
  std::memcpy(&first, frame.data(), 4);
  refused(with_number(1, first));
}

// ---- bfloat ----

// Few exponents, all of them, so many of others that a block is better left raw, and in between.
std::vector<std::vector<float>> weights(std::size_t count) {
  auto mixed = normals(count, 21);
  const auto wild = any_finite(count, 22);
  for (std::size_t i = 0; i < count; i += 3) mixed[i] = wild[i];
  auto halves = wild;
  for (std::size_t i = 0; i < count / 2; ++i) halves[i] = normals(1, i)[0];
  auto special = normals(count, 23);
  for (std::size_t i = 0; i < count; i += 40) {
    special[i] =
        i % 80 == 0 ? std::bit_cast<float>(0x7fc10000U) : std::numeric_limits<float>::infinity();
  }
  return {normals(count, 20),
          mixed,
          wild,
          halves,
          special,
          normals(count, 24, 1e-39F),
          std::vector<float>(count),
          normals(count, 25, 1e38F)};
}

constexpr std::array kWeightCounts{0U,   1U,    31U,   32U,   33U,   127U,
                                   129U, 1000U, 8191U, 8192U, 8193U, 20000U};

TEST_CASE("bfloat makes the CPU's frame and reads it back, bit by bit") {
  const Codec codec = Codec::make("bfloat").value().at(CpuLevel::kReference);
  std::size_t turn = 0;
  for (const std::size_t count : kWeightCounts) {
    CAPTURE(count);
    for (const auto& values : weights(count)) {
      const auto input = narrowed(values, DType::kBF16);
      std::vector<std::byte> frame(codec.encoded_bound(DType::kBF16, count));
      frame.resize(codec.encode({input, DType::kBF16, {}, {}}, frame));
      const std::size_t offset = ++turn % 4;
      const auto got = by_device(codec, input, DType::kBF16, {}, offset, kBlocks[turn % 2]);
      CHECK(got.frame == frame);
      const std::vector<std::byte> before(input.size(), std::byte{7});
      const auto read = by_device(codec, frame, DType::kBF16, before, false, offset, 2);
      CHECK(!read.wrong);
      CHECK(read.out == input);
    }
  }
}

TEST_CASE("bfloat adds to sums of f32") {
  const Codec codec = Codec::make("bfloat").value().at(CpuLevel::kReference);
  const auto input = narrowed(weights(9000)[1], DType::kBF16);
  const auto frame = by_device(codec, input, DType::kBF16, {}, 0, 2).frame;
  auto sum = normals(9000, 9);
  const auto added = by_device(codec, frame, DType::kBF16, bits_of(sum), true, 1, 2);
  REQUIRE(codec.decode_add(frame, sum).is_ok());
  CHECK(!added.wrong);
  CHECK(added.out == bits_of(sum));
}

TEST_CASE("a bfloat frame that is damaged anywhere is told, whatever it says") {
  const Codec codec = Codec::make("bfloat").value().at(CpuLevel::kReference);
  const auto input = narrowed(weights(8300)[1], DType::kBF16);
  const auto frame = by_device(codec, input, DType::kBF16, {}, 0, 2).frame;
  std::vector<std::byte> out(input.size());
  const auto wrong = [&](const std::vector<std::byte>& bad) {
    return by_device(codec, bad, DType::kBF16, out, false, 0, 1).wrong;
  };
  CHECK(!wrong(frame));
  for (std::size_t at = 0; at < frame.size(); at += at < 40 ? 1 : 397) {
    CAPTURE(at);
    auto bad = frame;
    bad[at] ^= std::byte{16};
    CHECK(wrong(bad));
    CHECK(!codec.decode(bad, DType::kBF16, out).is_ok());
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{15}, std::size_t{20}, std::size_t{9000}, frame.size() - 1}) {
    CHECK(wrong({frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)}));
  }
  auto longer = frame;
  longer.push_back(std::byte{0});
  CHECK(wrong(longer));
}

TEST_CASE("every codec says whether a device has it; block codecs have one stage") {
  for (const char* const name : {"bf16", "fp16", "fp8_e4m3", "int8", "int4", "onebit"}) {
    const Codec codec = Codec::make(name).value();
    CHECK(has_stages(codec).is_ok());
    CHECK(stage_bytes(codec, 1000) == 0);
    CHECK(encode_stages(codec, {.count = 1000}, {}).size() == 1);
    CHECK(encode_stages(codec, {.count = 0}, {}).empty());
    CHECK(!decode_stages(codec, {.frame_bytes = 3, .count = 1000}, {}).is_ok());
  }
  for (const Codec& codec :
       {Codec::make("zstd").value(), Codec::make("bfloat", {.tier = Tier::kDense}).value()}) {
    const Status status = has_stages(codec);
    CHECK(status.code() == Code::kUnsupported);
    CHECK(status.message().find(codec.text()) != std::string::npos);
    CHECK(status.message().find("topk") != std::string::npos);
  }
}

TEST_CASE("the log says where kernels ran") { MESSAGE(device::where()); }

}  // namespace
}  // namespace holdfast::compress

// The codecs' kernels against the CPU's reference level: the same frames, residuals and elements.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "codec_data.h"
#include "compress/block_codec.h"
#include "compress/device/codec.h"
#include "kernel_run.h"

namespace holdfast::compress {
namespace {

using device::Memory;

constexpr std::array kCodecs{"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "onebit"};
constexpr std::array kCounts{0U, 1U, 2U, 31U, 33U, 127U, 128U, 513U, 1000U};
constexpr RoundingKey kKey{.seed = 7, .op = 11, .chunk = 3};

// As tensors come, and what must not be healed or fed back.
std::vector<Tensor> tensors(std::size_t count) {
  auto all = finite_tensors(count);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array special{std::bit_cast<float>(0x7fc12345U), std::bit_cast<float>(0xffa00001U),
                           kInfinity, -kInfinity};
  for (std::size_t s = 0; s < special.size(); ++s) {
    auto x = normals(count, count + s);
    for (std::size_t i = s; i < count; i += 200) x[i] = special[s];
    all.push_back({"special " + std::to_string(s), x});
  }
  return all;
}

std::vector<std::byte> elements_of(const Tensor& tensor, DType dtype) {
  std::vector<std::byte> out(tensor.values.size() * dtype_bytes(dtype));
  if (dtype == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), tensor.values.data(), out.size());
  } else {
    narrow(CpuLevel::kReference, dtype, tensor.values.data(), out.data(), tensor.values.size());
  }
  return out;
}

template <class Check>
void for_every_codec(Check check) {
  for (const char* const name : kCodecs) {
    const CodecId id = find(name)->spec.id;
    for (const CodecOptions& options : variants(id)) {
      const Codec codec = made(name, options).at(CpuLevel::kReference);
      CAPTURE(codec.text());
      check(codec);
    }
  }
}

std::vector<std::byte> bits_of_bytes(const std::vector<float>& x) {
  const auto bytes = bytes_of(x);
  return {bytes.begin(), bytes.end()};
}

// Encodes on the CPU and by the kernel; `offset` bytes off alignment.
void compare_encoding(const Codec& codec, const Tensor& tensor, DType dtype, bool feeds_back,
                      std::size_t offset) {
  CAPTURE(tensor.name);
  CAPTURE(feeds_back);
  const std::size_t count = tensor.values.size();
  const auto input = elements_of(tensor, dtype);
  std::vector<float> residual = feeds_back ? normals(count, 5, 0.1F) : std::vector<float>{};
  const Memory device_residual(bits_of_bytes(residual), 4 * (offset % 4));
  const auto frame = encoded(codec, input, dtype, residual, kKey);
  const Memory device_input(input, offset % 16);
  const Memory device_frame(frame.size(), offset % 16);
  const auto* row = encode_kernel(codec).value();
  device::run(
      *row, 2,
      device_encode(codec, device_input.data(), dtype, count, kKey,
                    feeds_back ? device_residual.as<float>() : nullptr, device_frame.data()));
  CHECK(device_frame.copy() == frame);
  CHECK(device_residual.copy() == bits_of_bytes(residual));
}

TEST_CASE("a kernel makes the CPU's frame and leaves the CPU's residual") {
  for_every_codec([](const Codec& codec) {
    for (const std::size_t count : kCounts) {
      CAPTURE(count);
      for (const Tensor& tensor : tensors(count)) {
        compare_encoding(codec, tensor, DType::kF32, false, count % 3);
        if (count % 2 == 1) compare_encoding(codec, tensor, DType::kF32, true, 0);
      }
    }
  });
}

TEST_CASE("kernels take the elements that codecs take") {
  for_every_codec([](const Codec& codec) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      CAPTURE(dtype_name(dtype));
      for (const Tensor& tensor : tensors(257)) {
        compare_encoding(codec, tensor, dtype, false, 0);
        compare_encoding(codec, tensor, dtype, true, 2);
      }
    }
  });
}

bool same_or_nan(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!nan && std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) {
      return false;
    }
  }
  return a.size() == b.size();
}

void compare_decoding(const Codec& codec, const Tensor& tensor, DType dtype, std::size_t offset) {
  CAPTURE(tensor.name);
  const std::size_t count = tensor.values.size();
  const auto frame = encoded(codec, bytes_of(tensor.values), DType::kF32);
  const Memory device_frame(frame, offset);
  std::vector<std::byte> want(count * dtype_bytes(dtype));
  REQUIRE(codec.decode(frame, dtype, want).is_ok());
  const Memory got(want.size(), offset == 0 ? 0 : dtype_bytes(dtype));
  const auto* row = decode_kernel(codec).value();
  device::run(*row, 2, device_decode(codec, device_frame.data(), dtype, count, got.data(), false));
  CHECK(got.copy() == want);
  if (dtype != DType::kF32) return;
  std::vector<float> sum = normals(count, 9);
  const Memory got_sum(bits_of_bytes(sum), offset == 0 ? 0 : 4);
  REQUIRE(codec.decode_add(frame, sum).is_ok());
  device::run(*row, 1,
              device_decode(codec, device_frame.data(), dtype, count, got_sum.data(), true));
  std::vector<float> added(count);
  if (count > 0) std::memcpy(added.data(), got_sum.data(), 4 * count);
  CHECK(same_or_nan(added, sum));
}

TEST_CASE("a kernel reads the CPU's frame, and adds what it says") {
  for_every_codec([](const Codec& codec) {
    for (const std::size_t count : kCounts) {
      CAPTURE(count);
      for (const Tensor& tensor : tensors(count)) {
        compare_decoding(codec, tensor, DType::kF32, count % 5);
      }
    }
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      for (const Tensor& tensor : tensors(261)) compare_decoding(codec, tensor, dtype, 3);
    }
  });
}

TEST_CASE("every code of a half is read as the CPU reads it") {
  std::vector<std::byte> frame(2 * 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(&frame[2 * std::size_t{i}], &half, 2);
  }
  for (const char* const name : {"bf16", "fp16"}) {
    CAPTURE(name);
    const Codec codec = made(name).at(CpuLevel::kReference);
    const auto want = decoded(codec, frame, 65536);
    const Memory device_frame(frame, 0);
    const Memory got(std::size_t{4} * 65536);
    device::run(*decode_kernel(codec).value(), 2,
                device_decode(codec, device_frame.data(), DType::kF32, 65536, got.data(), false));
    CHECK(got.copy() == bits_of_bytes(want));
  }
}

TEST_CASE("codecs that have no kernel of a single stage say so, and who has one") {
  for (const char* const name : {"topk", "bfloat"}) {
    const auto row = encode_kernel(made(name));
    REQUIRE(!row.is_ok());
    CHECK(row.status().code() == Code::kUnsupported);
    CHECK(row.status().message().find("int8") != std::string::npos);
    CHECK(!decode_kernel(made(name)).is_ok());
  }
}

TEST_CASE("work is counted in the threads that it keeps busy") {
  CHECK(codec_threads(made("bf16"), 17) == 3);
  CHECK(codec_threads(made("int8"), 129) == 64);
  CHECK(codec_threads(made("onebit", {.block = 512}), 0) == 0);
}

TEST_CASE("the log says where kernels ran") { MESSAGE(device::where()); }

}  // namespace
}  // namespace holdfast::compress

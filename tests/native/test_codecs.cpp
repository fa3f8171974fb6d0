// Every codec of the catalogue keeps what codec.h promises of it, at every instruction level.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "codec_data.h"
#include "sanitized.h"

namespace holdfast::compress {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 127, 128, 129, 513, 1000, 9001};
constexpr std::size_t kFewCounts[] = {0, 1, 17, 131, testing::kSanitized ? 2001 : 9001};

void for_lossy(const std::function<void(const Codec&)>& check) {
  for (const CodecRow& row : catalogue()) {
    if (row.spec.lossless) continue;
    CAPTURE(row.spec.name);
    for (const CodecOptions& options : variants(row.spec.id)) {
      CAPTURE(options.block);
      CAPTURE(static_cast<int>(options.rounding));
      CAPTURE(static_cast<int>(options.grid));
      CAPTURE(static_cast<int>(options.sign_scale));
      check(made(row.spec.name, options));
    }
  }
}

TEST_CASE("the catalogue has one row for each codec, and finds it by name") {
  int next = 0;
  for (const CodecRow& row : catalogue()) {
    CHECK(static_cast<int>(row.spec.id) >= next);
    next = static_cast<int>(row.spec.id) + 1;
    CHECK(find(row.spec.name) == &row);
    CHECK(row.spec.takes_residual == !row.spec.lossless);
    CHECK(!row.spec.error_bound.empty());
  }
  CHECK(find("gzip") == nullptr);
  CHECK(Codec::make("gzip").status().message().find("there are bf16 fp16") != std::string::npos);
}

TEST_CASE("options that cannot be used are refused by name, with what is accepted") {
  const auto refused = [](std::string_view name, const CodecOptions& options,
                          std::string_view words) {
    const auto codec = Codec::make(name, options);
    REQUIRE(!codec.is_ok());
    CHECK(codec.status().code() == Code::kConfigError);
    CAPTURE(codec.status().message());
    CHECK(codec.status().message().find(words) != std::string::npos);
  };
  refused("int8", {.block = 100}, "block is 100, accepted are multiples of 32 from 32 to 512");
  refused("int8", {.block = 0}, "block is 0");
  refused("int8", {.block = 1024}, "block is 1024");
  refused("fp16", {.rounding = Rounding::kStochastic}, "accepted is nearest");
  refused("onebit", {.grid = Grid::kMinMax}, "accepted is symmetric");
  refused("bf16", {.ratio = std::nan("")}, "ratio is nan");
  refused("bf16", {.ratio = 0}, "above 0 and at most 1");
  refused("bf16", {.zstd_level = 22}, "accepted are -7 to 19");
}

// The declared bound of each element's error, from the input alone.
std::vector<double> bounds_of(const Codec& codec, const std::vector<float>& x) {
  const CodecOptions& o = codec.options();
  std::vector<double> bounds(x.size());
  for (std::size_t first = 0; first < x.size(); first += o.block) {
    const std::size_t end = std::min(x.size(), first + o.block);
    double most = 0;
    double low = x[first];
    double high = x[first];
    double squares = 0;
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) {
      const double a = std::fabs(double{x[i]});
      most = std::max(most, a);
      low = std::min(low, double{x[i]});
      high = std::max(high, double{x[i]});
      squares += a * a;
      sum += a;
    }
    const auto n = static_cast<double>(end - first);
    for (std::size_t i = first; i < end; ++i) {
      const double a = std::fabs(double{x[i]});
      double& bound = bounds[i];
      switch (codec.spec().id) {
        case CodecId::kBf16: bound = a / 256 + 0x1p-134; break;
        case CodecId::kFp16: bound = a / 2048 + 0x1p-25; break;
        case CodecId::kFp8E4M3:
          bound = std::max(a / 16, std::max(most / 224, 0x1p-126) / 1024);
          break;
        case CodecId::kFp8E5M2:
          bound = std::max(a / 8, std::max(most / 28672, 0x1p-126) / 131072);
          break;
        case CodecId::kInt8:
        case CodecId::kInt4: {
          const double reach = o.grid == Grid::kMinMax ? (high - low) / 2 : most;
          const double levels = codec.spec().id == CodecId::kInt8 ? 127 : 7;
          const double middle = o.grid == Grid::kMinMax ? std::fabs(high + low) / 2 : 0;
          bound = std::max(reach, 0x1p-100) / levels * (1 + 0x1p-14) / 2 + middle * 0x1p-22 +
                  most * 0x1p-14 / levels;
          break;
        }
        case CodecId::kOnebit: {
          const double scale = o.sign_scale == SignScale::kL1 ? sum / n : std::sqrt(squares / n);
          bound = std::fabs(a - scale) + scale * 1e-5 + 1e-44;
          break;
        }
        default: bound = a; break;  // topk
      }
      if (o.rounding == Rounding::kStochastic) bound *= 2;
    }
  }
  return bounds;
}

bool fits_range(const Codec& codec, float x) {
  const double limit = codec.spec().id == CodecId::kFp16   ? 65519.0
                       : codec.spec().id == CodecId::kBf16 ? 0x1.fep127
                                                           : 1e39;
  return std::fabs(double{x}) <= limit;
}

TEST_CASE("errors stay within the declared bound, whatever the data and the size") {
  for_lossy([](const Codec& codec) {
    for (const std::size_t count : kCounts) {
      CAPTURE(count);
      for (const Tensor& tensor : finite_tensors(count)) {
        CAPTURE(tensor.name);
        const auto frame = encoded(codec, bytes_of(tensor.values), DType::kF32);
        CHECK(frame.size() == codec.encoded_bound(DType::kF32, count));
        const auto out = decoded(codec, frame, count);
        REQUIRE(out.size() == count);
        const auto bounds = bounds_of(codec, tensor.values);
        for (std::size_t i = 0; i < count; ++i) {
          if (!fits_range(codec, tensor.values[i])) continue;
          const double error = std::fabs(double{out[i]} - double{tensor.values[i]});
          if (!(error <= bounds[i])) {
            CAPTURE(i);
            CAPTURE(tensor.values[i]);
            CAPTURE(out[i]);
            REQUIRE(error <= bounds[i]);
          }
        }
      }
    }
  });
}

// Some of everything: what levels may disagree on.
std::vector<float> strange(std::size_t count) {
  std::vector<float> x = any_finite(count, count);
  Chance chance(count);
  for (std::size_t i = 0; i + 300 < count; i += 1 + chance.next() % 2000) {
    x[i] = std::array{std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY,
                      -0.0F}[chance.next() % 4];
  }
  return x;
}

TEST_CASE("every level gives the reference's bytes, residuals and values") {
  for_lossy([](const Codec& codec) {
    const Codec reference = codec.at(CpuLevel::kReference);
    const RoundingKey key{1, 2, 3};
    for (const std::size_t count : kFewCounts) {
      std::vector<Tensor> tensors = finite_tensors(count);
      tensors.push_back({"strange", strange(count)});
      for (const Tensor& tensor : tensors) {
        CAPTURE(tensor.name);
        CAPTURE(count);
        const std::vector<float> error = normals(count, 9, 0.01F);
        auto want_error = error;
        const auto input = bytes_of(tensor.values);
        const auto want = encoded(reference, input, DType::kF32, want_error, key);
        const auto want_plain = encoded(reference, input, DType::kF32, {}, key);
        const auto values = decoded(reference, want, count);
        std::vector<float> want_sum = error;
        REQUIRE(reference.decode_add(want, want_sum).is_ok());
        for (const CpuLevel level : cpu_levels()) {
          CAPTURE(static_cast<int>(level));
          const Codec fast = codec.at(level);
          auto got_error = error;
          CHECK(encoded(fast, input, DType::kF32, got_error, key) == want);
          CHECK(encoded(fast, input, DType::kF32, {}, key) == want_plain);
          CHECK(bits_of(got_error) == bits_of(want_error));
          CHECK(bits_of(decoded(fast, want, count)) == bits_of(values));
          std::vector<float> got_sum = error;
          REQUIRE(fast.decode_add(want, got_sum).is_ok());
          CHECK(bits_of(got_sum) == bits_of(want_sum));
        }
      }
    }
  });
}

TEST_CASE("decode_add adds what decode gives") {
  for_lossy([](const Codec& codec) {
    const auto x = normals(1000, 3);
    const auto frame = encoded(codec, bytes_of(x), DType::kF32);
    const auto values = decoded(codec, frame, x.size());
    auto sum = normals(1000, 4);
    auto want = sum;
    for (std::size_t i = 0; i < x.size(); ++i) want[i] = want[i] + values[i];
    REQUIRE(codec.decode_add(frame, sum).is_ok());
    CHECK(sum == want);
  });
}

TEST_CASE("tensors and frames may begin at any address") {
  for_lossy([](const Codec& codec) {
    const std::size_t count = 700;
    const auto x = normals(count, 14);
    const auto frame = encoded(codec, bytes_of(x), DType::kF32);
    std::vector<std::byte> odd(4 * count + 1);
    std::ranges::copy(bytes_of(x), odd.begin() + 1);
    std::vector<std::byte> odd_frame(frame.size() + 1);
    codec.encode({std::span(odd).subspan(1), DType::kF32, {}, {}}, std::span(odd_frame).subspan(1));
    CHECK(std::ranges::equal(std::span(odd_frame).subspan(1), frame));
    REQUIRE(codec.decode(std::span(odd_frame).subspan(1), DType::kF32, std::span(odd).subspan(1))
                .is_ok());
    CHECK(std::ranges::equal(std::span(odd).subspan(1), bytes_of(decoded(codec, frame, count))));
  });
}

TEST_CASE("what a frame does not say of input and residual is the new residual") {
  for_lossy([](const Codec& codec) {
    for (const std::size_t count : kFewCounts) {
      const auto x = normals(count, 5);
      auto residual = normals(count, 6, 0.1F);
      std::vector<double> total(count);
      for (std::size_t i = 0; i < count; ++i) total[i] = x[i] + residual[i];
      const auto frame = encoded(codec, bytes_of(x), DType::kF32, residual);
      const auto out = decoded(codec, frame, count);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(double{out[i]} + residual[i] == doctest::Approx(total[i]).epsilon(1e-6));
      }
    }
  });
}

TEST_CASE("a block with a NaN or an infinity stays one, and leaves no residual") {
  for_lossy([](const Codec& codec) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{130}, std::size_t{999}}) {
        auto x = normals(1000, 7);
        x[at] = bad;
        std::vector<float> residual(1000, 0.5F);
        const auto frame = encoded(codec, bytes_of(x), DType::kF32, residual);
        const auto out = decoded(codec, frame, 1000);
        CHECK(!std::isfinite(out[at]));
        CHECK(residual[at] == 0.0F);
        CHECK(std::ranges::all_of(residual, [](float r) { return std::isfinite(r); }));
        for (std::size_t i = 0; i < 1000; ++i) {
          if (!std::isfinite(out[i])) CHECK(residual[i] == 0.0F);
        }
      }
    }
  });
}

TEST_CASE("bf16 and f16 tensors are encoded as their f32 values, and decoded back to nearest") {
  for_lossy([](const Codec& codec) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const std::string_view halves = dtype == DType::kBF16 ? "bf16" : "fp16";
      const std::size_t count = 9001;
      const auto x = normals(count, 8);
      const auto narrow = encoded(made(halves), bytes_of(x), DType::kF32);
      const auto wide = decoded(made(halves), narrow, count);
      const auto want = encoded(codec, bytes_of(wide), DType::kF32);
      CHECK(encoded(codec, narrow, dtype) == want);
      std::vector<std::byte> out(2 * count);
      REQUIRE(codec.decode(want, dtype, out).is_ok());
      CHECK(out == encoded(made(halves), bytes_of(decoded(codec, want, count)), DType::kF32));
    }
  });
}

TEST_CASE("stochastic rounding is unbiased, and a function of its key") {
  for (const std::string_view name : {"bf16", "int8", "int4"}) {
    CAPTURE(name);
    for (const Grid grid : {Grid::kSymmetric, Grid::kMinMax}) {
      if (name == "bf16" && grid == Grid::kMinMax) continue;
      const Codec codec = made(name, {.rounding = Rounding::kStochastic, .grid = grid});
      std::vector<float> x(128, 0.3F);
      x[0] = 1.0F;
      x[1] = -1.0F;
      x[2] = 0.01F;
      constexpr int kTimes = 4000;
      double mean = 0;
      double small = 0;
      for (std::uint64_t op = 0; op < kTimes; ++op) {
        const auto frame = encoded(codec, bytes_of(x), DType::kF32, {}, {7, op, 0});
        const auto out = decoded(codec, frame, x.size());
        for (std::size_t i = 3; i < x.size(); ++i) mean += out[i];
        small += out[2];
      }
      mean /= kTimes * 125.0;
      small /= kTimes;
      const double step = name == "int4" ? 1.0 / 7 : name == "int8" ? 1.0 / 127 : 1.0 / 512;
      // Four standard deviations at most: of a coin between two codes, 1/2 a step.
      CHECK(std::fabs(mean - double{0.3F}) < 4 * step / 2 / std::sqrt(kTimes * 125.0));
      CHECK(std::fabs(small - double{0.01F}) < 4 * step / 2 / std::sqrt(kTimes));
      const auto first = encoded(codec, bytes_of(x), DType::kF32, {}, {7, 0, 0});
      CHECK(first == encoded(codec, bytes_of(x), DType::kF32, {}, {7, 0, 0}));
      CHECK(first != encoded(codec, bytes_of(x), DType::kF32, {}, {7, 1, 0}));
      CHECK(first != encoded(codec, bytes_of(x), DType::kF32, {}, {7, 0, 1}));
      CHECK(first != encoded(codec, bytes_of(x), DType::kF32, {}, {8, 0, 0}));
    }
  }
}

// By a full sort: the simplest thing that can be right.
std::vector<std::uint32_t> largest(const std::vector<float>& x, std::size_t k) {
  const auto size = [&](std::uint32_t i) { return std::bit_cast<std::uint32_t>(x[i]) << 1; };
  std::vector<std::uint32_t> order(x.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order,
                           [&](std::uint32_t a, std::uint32_t b) { return size(a) > size(b); });
  order.resize(k);
  std::ranges::sort(order);
  return order;
}

TEST_CASE("topk sends the k largest magnitudes, of equal ones the first") {
  for (const std::size_t count : {1U, 2U, 99U, 1000U, 9001U, 100003U}) {
    for (const double ratio : {1e-6, 0.01, 0.5, 1.0}) {
      const Codec codec = made("topk", {.ratio = ratio});
      const auto k = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(count)));
      std::vector<Tensor> tensors = finite_tensors(count);
      tensors.push_back({"strange", strange(count)});
      std::vector<float> coarse = normals(count, 12);
      for (float& v : coarse) v = std::round(v);
      tensors.push_back({"many ties", coarse});
      for (const Tensor& tensor : tensors) {
        CAPTURE(tensor.name);
        const auto frame = encoded(codec, bytes_of(tensor.values), DType::kF32);
        REQUIRE(frame.size() == 8 * k);
        std::vector<std::uint32_t> numbers(k);
        std::memcpy(numbers.data(), frame.data(), 4 * k);
        CHECK(numbers == largest(tensor.values, k));
      }
    }
  }
}

TEST_CASE("a topk frame whose numbers repeat, fall or reach beyond the end is refused") {
  const Codec codec = made("topk", {.ratio = 0.5});
  const auto x = normals(8, 13);
  const auto frame = encoded(codec, bytes_of(x), DType::kF32);
  for (const auto& bad : {std::array<std::uint32_t, 4>{0, 1, 1, 2},
                          {0, 2, 1, 3},
                          {0, 1, 2, 8},
                          {0, 1, 2, 0xffffffffU}}) {
    auto broken = frame;
    std::memcpy(broken.data(), bad.data(), sizeof bad);
    CHECK(decoded(codec, broken, 8).empty());
    std::vector<float> sum(8, 1.0F);
    CHECK(codec.decode_add(broken, sum).code() == Code::kProtocolError);
    CHECK(sum == std::vector<float>(8, 1.0F));
  }
}

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
  }
  return text;
}

TEST_CASE("frames are what they were: golden bytes") {
  const std::vector<float> x{1.0F, -0.5F, 0.25F, -0.0F, 3.0F, -2.0F, 0.1F};
  const auto frame = [&](std::string_view name, const CodecOptions& options = {}) {
    return hex(encoded(made(name, options), bytes_of(x), DType::kF32, {}, {4, 5, 6}));
  };
  CHECK(frame("bf16") == "803f00bf803e0080404000c0cd3d");
  CHECK(frame("bf16", {.rounding = Rounding::kStochastic}) == "803f00bf803e0080404000c0cd3d");
  CHECK(frame("fp16") == "003c00b800340080004200c0662e");
  CHECK(frame("fp8_e4m3") == "7870e860807cf855");
  CHECK(frame("fp8_e5m2") == "7174f06c807af866");
  CHECK(frame("int8") == "0084c13c2aeb0b007fab04");
  CHECK(frame("int8", {.grid = Grid::kMinMax}) == "0043a13c0000003f19cdf3e77f81ec");
  CHECK(frame("int8", {.rounding = Rounding::kStochastic}) == "0084c13c2bea0a007fac05");
  CHECK(frame("int4") == "006edb3ef201b700");
  CHECK(frame("onebit") == "a917b73f2a");
  CHECK(frame("onebit", {.sign_scale = SignScale::kL1}) == "a8837a3f2a");
  CHECK(frame("topk", {.ratio = 0.3}) == "0000000004000000050000000000803f00004040000000c0");
}

TEST_CASE("a frame of another size is refused, and nothing beyond the output is written") {
  for (const CodecRow& row : catalogue()) {
    if (!is_built(row)) continue;
    CAPTURE(row.spec.name);
    const Codec codec = made(row.spec.name);
    const DType dtype = row.spec.id == CodecId::kBfloat ? DType::kBF16 : DType::kF32;
    const std::size_t count = 300;
    const auto x = normals(count, 11);
    const auto frame = encoded(codec, bytes_of(x).first(count * dtype_bytes(dtype)), dtype);
    std::vector<std::byte> out(count * dtype_bytes(dtype) + 64, std::byte{0xaa});
    const auto room = std::span(out).first(count * dtype_bytes(dtype));
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const Status status = codec.decode(std::span(frame).first(size), dtype, room);
      CHECK(status.code() == Code::kProtocolError);
    }
    auto longer = frame;
    longer.push_back(std::byte{0});
    CHECK(!codec.decode(longer, dtype, room).is_ok());
    CHECK(!codec.decode(frame, dtype, room.first(40 * dtype_bytes(dtype))).is_ok());
    std::vector<float> sum(40);
    CHECK(!codec.decode_add(frame, sum).is_ok());
    CHECK(std::ranges::all_of(std::span(out).subspan(room.size()),
                              [](std::byte b) { return b == std::byte{0xaa}; }));
  }
}

}  // namespace
}  // namespace holdfast::compress

// Lossless codecs give back every bit, and notice every damaged one.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "base/checksum.h"
#include "codec_data.h"

namespace holdfast::compress {
namespace {

using Bytes = std::vector<std::byte>;

Bytes halves(const std::vector<float>& x) {
  return encoded(made("bf16"), bytes_of(x), DType::kF32);
}

Bytes noise(std::size_t bytes, std::uint64_t seed) {
  Chance chance(seed);
  Bytes out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(chance.next() >> 11);
  return out;
}

// Every pattern of bits, NaN, infinities, zeros and denormals among them.
Bytes all_patterns() {
  Bytes out(131072);
  for (std::size_t i = 0; i < 65536; ++i) {
    const auto x = static_cast<std::uint16_t>(i * 40503U);
    std::memcpy(out.data() + 2 * i, &x, 2);
  }
  return out;
}

// As many escapes as a block can bear, and one more.
Bytes escaping(std::size_t count, std::size_t one_in) {
  std::vector<float> x(count, 1.0F);
  for (std::size_t i = 0; i < count; i += one_in) x[i] = i % 2 == 0 ? 1e-30F : -1e30F;
  return halves(x);
}

std::vector<Bytes> tensors(std::size_t count) {
  std::vector<Bytes> all;
  for (const Tensor& tensor : finite_tensors(count)) all.push_back(halves(tensor.values));
  all.push_back(noise(2 * count, count));
  all.push_back(Bytes(2 * count));
  for (const std::size_t one_in : {1U, 2U, 3U, 4U, 40U}) all.push_back(escaping(count, one_in));
  Bytes every = all_patterns();
  every.resize(std::min(every.size(), 2 * count));
  if (every.size() == 2 * count) all.push_back(every);
  return all;
}

constexpr std::size_t kCounts[] = {0, 1, 31, 32, 33, 100, 8191, 8192, 8193, 40000};

void for_lossless(const std::function<void(const Codec&)>& check) {
  for (const CodecRow& row : catalogue()) {
    if (!row.spec.lossless || !is_built(row)) continue;
    CAPTURE(row.spec.name);
    for (const CodecOptions& options : variants(row.spec.id)) {
      if (options.block != 128) continue;  // not about them
      CAPTURE(static_cast<int>(options.tier));
      check(made(row.spec.name, options));
    }
  }
}

TEST_CASE("every bit comes back, whatever the tensor, its size and the level") {
  for_lossless([](const Codec& codec) {
    for (const std::size_t count : kCounts) {
      CAPTURE(count);
      for (const Bytes& tensor : tensors(count)) {
        const Bytes frame = encoded(codec.at(CpuLevel::kReference), tensor, DType::kBF16);
        CHECK(frame.size() <= 2 * count + 16 + count / 500 + 8);
        for (const CpuLevel level : cpu_levels()) {
          const Codec fast = codec.at(level);
          CHECK(encoded(fast, tensor, DType::kBF16) == frame);
          Bytes out(tensor.size());
          REQUIRE(fast.decode(frame, DType::kBF16, out).is_ok());
          CHECK(out == tensor);
        }
      }
    }
  });
}

TEST_CASE("every bit pattern of bf16 comes back") {
  for_lossless([](const Codec& codec) {
    const Bytes tensor = all_patterns();
    const Bytes frame = encoded(codec, tensor, DType::kBF16);
    Bytes out(tensor.size());
    REQUIRE(codec.decode(frame, DType::kBF16, out).is_ok());
    CHECK(out == tensor);
  });
}

TEST_CASE("decode_add adds the elements: f32 of zstd, bf16 of bfloat") {
  for_lossless([](const Codec& codec) {
    const bool is_bfloat = codec.spec().id == CodecId::kBfloat;
    const DType dtype = is_bfloat ? DType::kBF16 : DType::kF32;
    for (const std::size_t count : kCounts) {
      const auto x = normals(count, 3);
      const Bytes tensor = is_bfloat ? halves(x) : Bytes(bytes_of(x).begin(), bytes_of(x).end());
      const auto values = is_bfloat ? decoded(made("bf16"), tensor, count) : x;
      auto sum = normals(count, 4);
      auto want = sum;
      for (std::size_t i = 0; i < count; ++i) want[i] = want[i] + values[i];
      REQUIRE(codec.decode_add(encoded(codec, tensor, dtype), sum).is_ok());
      CHECK(sum == want);
    }
  });
}

TEST_CASE("zstd takes every dtype") {
  if (!has_zstd()) return;
  const Codec codec = made("zstd");
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const Bytes tensor = noise(100 * dtype_bytes(dtype), 5);
    Bytes out(tensor.size());
    REQUIRE(codec.decode(encoded(codec, tensor, dtype), dtype, out).is_ok());
    CHECK(out == tensor);
  }
  const Bytes zeros(100000);
  CHECK(encoded(codec, zeros, DType::kU8).size() < 200);
}

TEST_CASE("a single wrong bit anywhere in a frame is noticed") {
  for_lossless([](const Codec& codec) {
    const Bytes tensor = halves(normals(700, 6));
    const Bytes frame = encoded(codec, tensor, DType::kBF16);
    Bytes out(tensor.size());
    for (std::size_t i = 0; i < frame.size(); ++i) {
      Bytes broken = frame;
      broken[i] ^= static_cast<std::byte>(1U << (i % 8));
      const Status status = codec.decode(broken, DType::kBF16, out);
      // Only what zstd itself does not look at may stay unnoticed, and then does no harm.
      if (status.is_ok()) CHECK(out == tensor);
      if (!status.is_ok()) CHECK(status.code() == Code::kProtocolError);
    }
  });
}

TEST_CASE("blocks of a bfloat frame that change places are noticed") {
  const Codec codec = made("bfloat");
  const Bytes tensor = noise(4 * 8192, 7);  // two raw blocks of one size
  Bytes frame = encoded(codec, tensor, DType::kBF16);
  constexpr std::size_t kBlock = 8 + 2 * 8192;
  REQUIRE(frame.size() == 16 + 2 * kBlock);
  std::rotate(frame.begin() + 16, frame.begin() + 16 + kBlock, frame.end());
  Bytes out(tensor.size());
  CHECK(codec.decode(frame, DType::kBF16, out).code() == Code::kProtocolError);
}

TEST_CASE("a bfloat frame is what it was: a golden checksum") {
  std::vector<float> x(9000);
  Chance chance(10);  // no function of the C library, which may round differently elsewhere
  for (float& v : x) v = static_cast<float>(static_cast<int>(chance.next() >> 12)) - 524288.0F;
  const Bytes frame = encoded(made("bfloat"), halves(x), DType::kBF16);
  CHECK(frame.size() == 12484);
  CHECK(checksum(frame) == 2943761123U);
}

// A frame of one block that is damaged before its checksum is taken, as no wire does it.
Bytes forged(std::size_t count, std::uint8_t coding, std::uint16_t extra, const Bytes& body) {
  Bytes frame(16 + 8);
  const std::uint64_t elements = count;
  const std::uint32_t head[2] = {0x31426648U, 8192};
  std::memcpy(frame.data(), head, 8);
  std::memcpy(frame.data() + 8, &elements, 8);
  const std::uint32_t says = coding | 120U << 8 | std::uint32_t{extra} << 16;
  const std::uint32_t check = checksum(body, says);
  std::memcpy(frame.data() + 16, &says, 4);
  std::memcpy(frame.data() + 20, &check, 4);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

TEST_CASE("contents that make no sense are refused behind a right checksum, too") {
  for (const CpuLevel level : cpu_levels()) {
    const Codec codec = made("bfloat").at(level);
    for (const std::size_t count : {1U, 31U, 32U, 33U, 1000U, 8192U}) {
      const std::size_t fixed = count + (count + 31) / 32 * 12;
      Bytes out(2 * count);
      for (const std::size_t extra : {0U, 1U, 100U, 8192U, 65535U}) {
        const auto says = static_cast<std::uint16_t>(extra);
        // All of its codes say that an escape follows.
        const Bytes all(fixed + extra, std::byte{0xff});
        const Status encoded = codec.decode(forged(count, 1, says, all), DType::kBF16, out);
        if (count % 32 == 0) CHECK(encoded.is_ok() == (extra == count));
        // None does.
        const Bytes none(fixed + extra);
        const Status zero = codec.decode(forged(count, 1, says, none), DType::kBF16, out);
        CHECK(zero.is_ok() == (extra == 0));
        const Bytes random = noise(fixed + extra, extra);
        (void)codec.decode(forged(count, 1, says, random), DType::kBF16, out);
        const Bytes dense = noise(count + extra, extra);
        CHECK(!codec.decode(forged(count, 2, says, dense), DType::kBF16, out).is_ok());
        CHECK(!codec.decode(forged(count, 3, says, dense), DType::kBF16, out).is_ok());
      }
      CHECK(codec.decode(forged(count, 0, 0, noise(2 * count, 1)), DType::kBF16, out).is_ok());
    }
  }
}

double ratio_of(const CodecOptions& options, const std::vector<float>& x) {
  const Bytes tensor = halves(x);
  return static_cast<double>(tensor.size()) /
         static_cast<double>(encoded(made("bfloat", options), tensor, DType::kBF16).size());
}

TEST_CASE("Gaussian bf16 shrinks by 1.40, by 1.48 in the dense tier") {
  for (const float scale : {1.0F, 0.02F, 3e-6F}) {
    CHECK(ratio_of({}, normals(200000, 8, scale)) >= 1.40);
    if (has_zstd()) CHECK(ratio_of({.tier = Tier::kDense}, normals(200000, 8, scale)) >= 1.48);
  }
  const std::size_t count = 100000;
  const std::size_t size = encoded(made("bfloat"), noise(2 * count, 9), DType::kBF16).size();
  CHECK(static_cast<double>(size) <= 2 * count * 1.001);
}

TEST_CASE("a build without libzstd says so") {
  const auto codec = Codec::make("zstd");
  CHECK(codec.is_ok() == has_zstd());
  if (!codec.is_ok()) CHECK(codec.status().code() == Code::kUnsupported);
}

TEST_CASE("checksums are the same with and without the instruction, and see every bit") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 31U, 32U, 33U, 64U, 100U, 1000U}) {
    Bytes data = noise(size, size);
    const std::uint32_t sum = checksum(data, 5);
    CHECK(sum == reference_checksum(data, 5));
    CHECK(sum != checksum(data, 6));
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      if (checksum(data, 5) == sum) CHECK_MESSAGE(false, "bit ", bit);
      data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
    data.push_back(std::byte{0});
    CHECK(checksum(data, 5) != sum);
  }
  const Bytes zeros(64);
  CHECK(checksum(zeros) == 2848641322U);
}

}  // namespace
}  // namespace holdfast::compress

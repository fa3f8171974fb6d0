#include "compress/topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/small_floats.h"
#include "compress/block_codec.h"
#include "compress/loops/topk_rank.h"

namespace holdfast::compress {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffU;
constexpr std::uint32_t kInfinity = 0x7f800000U;
// Element numbers are u32.
constexpr std::uint64_t kMostNumbered = std::uint64_t{1} << 32;
// One element in 64 is sampled, within these limits, to guess a threshold that slightly more than k
// elements reach.
constexpr std::uint64_t kFewestSamples = 1024;
constexpr std::uint64_t kMostSamples = 8192;
constexpr std::uint64_t kTile = 4096;

std::uint64_t kept(double ratio, std::uint64_t count) {
  const auto k = static_cast<std::uint64_t>(std::ceil(ratio * static_cast<double>(count)));
  return std::min(k, count);
}

// f32 values at any address, and a residual to add to them, or the sums alone.
struct TopkSource {
  const std::byte* bytes;
  float* residual;  // nullptr when there is none, or it has been added
  std::uint64_t count;

  std::uint32_t bits(std::uint64_t i) const {
    float x = 0;
    std::memcpy(&x, bytes + 4 * i, sizeof x);
    return as_bits(residual != nullptr ? x + residual[i] : x);
  }
};

// Guesses a magnitude that a few more than k elements reach, unless the data is made to defeat it.
std::uint32_t guess_threshold(const TopkSource& x, std::uint64_t k) {
  const std::uint64_t samples =
      std::min(x.count, std::clamp(x.count / 64, kFewestSamples, kMostSamples));
  const double expected =
      static_cast<double>(k) * static_cast<double>(samples) / static_cast<double>(x.count);
  const auto place = static_cast<std::uint64_t>(1.1 * expected + 4 * std::sqrt(expected) + 8);
  if (place >= samples) return 0;
  std::vector<std::uint32_t> sizes(samples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    sizes[i] = x.bits(i * x.count / samples) & kMagnitude;
  }
  std::ranges::nth_element(sizes, sizes.begin() + static_cast<std::ptrdiff_t>(place),
                           std::greater<>());
  return sizes[place];
}

// Ranks of all elements that reach the threshold, ordered by number. Stores the sums in x.residual.
std::vector<std::uint64_t> candidates(CpuLevel level, const TopkSource& x,
                                      std::uint32_t threshold) {
  const ScanKernels kernels = scan_kernels(level);
  std::vector<std::uint64_t> found;
  std::array<std::uint64_t, kTile> tile;
  for (std::uint64_t first = 0; first < x.count; first += kTile) {
    const std::uint64_t n = std::min(kTile, x.count - first);
    const std::uint64_t whole = n / 16 * 16;
    std::uint64_t got =
        kernels.collect({x.bytes + 4 * first, x.residual != nullptr ? x.residual + first : nullptr,
                         whole, static_cast<std::uint32_t>(first), threshold, tile.data()});
    for (std::uint64_t i = first + whole; i < first + n; ++i) {
      const std::uint32_t bits = x.bits(i);
      if (x.residual != nullptr) x.residual[i] = as_float(bits);
      if ((bits & kMagnitude) >= threshold) {
        tile[got++] = rank_of(bits, static_cast<std::uint32_t>(i));
      }
    }
    found.insert(found.end(), tile.begin(), tile.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return found;
}

// The k greatest ranks, ordered by number.
std::vector<std::uint64_t> greatest_of(CpuLevel level, const TopkSource& x, std::uint64_t k) {
  auto found = candidates(level, x, guess_threshold(x, k));
  if (found.size() < k) {
    const auto* sums = reinterpret_cast<const std::byte*>(x.residual);
    found = candidates(level, {sums != nullptr ? sums : x.bytes, nullptr, x.count}, 0);
  }
  if (found.size() == k) return found;
  auto ranks = found;
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::ranges::nth_element(ranks, last, std::greater<>());
  std::erase_if(found, [least = *last](std::uint64_t rank) { return rank < least; });
  return found;
}

TopkSource source_of(const Setup& setup, const EncodeRequest& request, std::vector<float>& wide) {
  const std::uint64_t count = request.input.size() / dtype_bytes(request.dtype);
  const std::byte* values = request.input.data();
  if (request.dtype != DType::kF32) {
    wide.resize(count);
    widen(setup.level, request.dtype, values, wide.data(), count);
    values = reinterpret_cast<const std::byte*>(wide.data());
  }
  return {values, request.residual.empty() ? nullptr : request.residual.data(), count};
}

struct Entries {
  const std::byte* numbers;
  const std::byte* values;
  std::uint64_t k;

  std::uint32_t number(std::uint64_t j) const {
    std::uint32_t i = 0;
    std::memcpy(&i, numbers + 4 * j, sizeof i);
    return i;
  }
  float value(std::uint64_t j) const {
    float x = 0;
    std::memcpy(&x, values + 4 * j, sizeof x);
    return x;
  }
};

Result<Entries> read(const Setup& setup, std::span<const std::byte> frame, std::uint64_t count) {
  const std::uint64_t k = kept(setup.options.ratio, count);
  if (count > kMostNumbered || frame.size() != 8 * k) {
    return Status(Code::kProtocolError,
                  "compression: a topk frame of " + std::to_string(frame.size()) + " bytes, " +
                      std::to_string(count) + " elements have " + std::to_string(8 * k));
  }
  const Entries entries{frame.data(), frame.data() + 4 * k, k};
  std::uint64_t least = 0;
  for (std::uint64_t j = 0; j < k; ++j) {
    const std::uint64_t i = entries.number(j);
    if (i < least || i >= count) {
      return Status(Code::kProtocolError, "compression: a topk frame names element " +
                                              std::to_string(i) + " of " + std::to_string(count) +
                                              " out of order");
    }
    least = i + 1;
  }
  return entries;
}

}  // namespace

std::size_t topk_bound(const Setup& setup, DType, std::uint64_t count) {
  return 8 * kept(setup.options.ratio, count);
}

std::size_t topk_encode(const Setup& setup, const EncodeRequest& request,
                        std::span<std::byte> out) {
  std::vector<float> wide;
  const TopkSource x = source_of(setup, request, wide);
  CHECK(x.count <= kMostNumbered);
  const std::uint64_t k = kept(setup.options.ratio, x.count);
  if (k == 0) return 0;
  const auto chosen = greatest_of(setup.level, x, k);
  std::uint32_t least = kMagnitude;
  for (std::uint64_t j = 0; j < k; ++j) {
    const std::uint32_t number = number_of(chosen[j]);
    const std::uint32_t bits = bits_of_rank(chosen[j]);
    std::memcpy(out.data() + 4 * j, &number, sizeof number);
    std::memcpy(out.data() + 4 * (k + j), &bits, sizeof bits);
    least = std::min(least, magnitude_of(chosen[j]));
    if (x.residual != nullptr) x.residual[number] = 0;
  }
  if (x.residual != nullptr && least >= kInfinity) {  // more non-finite values than were sent
    for (float& r : request.residual) r = std::isfinite(r) ? r : 0;
  }
  return 8 * k;
}

Status topk_decode(const Setup& setup, std::span<const std::byte> frame, DType dtype,
                   std::span<std::byte> out) {
  const std::size_t element = dtype_bytes(dtype);
  const auto entries = read(setup, frame, out.size() / element);
  if (!entries.is_ok()) return entries.status();
  std::ranges::fill(out, std::byte{0});
  for (std::uint64_t j = 0; j < entries.value().k; ++j) {
    const float x = entries.value().value(j);
    std::byte* const to = out.data() + element * entries.value().number(j);
    if (dtype == DType::kF32) {
      std::memcpy(to, &x, sizeof x);
    } else {
      const std::uint16_t half =
          dtype == DType::kBF16 ? Bfloat::narrow(x).bits : Half::narrow(x).bits;
      std::memcpy(to, &half, sizeof half);
    }
  }
  return Status::ok();
}

Status topk_decode_add(const Setup& setup, std::span<const std::byte> frame, std::span<float> sum) {
  const auto entries = read(setup, frame, sum.size());
  if (!entries.is_ok()) return entries.status();
  for (std::uint64_t j = 0; j < entries.value().k; ++j) {
    float& to = sum[entries.value().number(j)];
    to = to + entries.value().value(j);
  }
  return Status::ok();
}

}  // namespace holdfast::compress

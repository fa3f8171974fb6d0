// Rates of the codecs on one core, as ratios to a copy, a read and `y += x` of the same run: JSON
// lines, one to codec, size and direction.
//
//   cmake -DHOLDFAST_TESTS=ON ... && codec_rates [codec]
//
// Contestants take turns. A ratio is the median over the turns of the yardstick's time by the
// contestant's in the same turn; the rate is that of the best turn, since others on the machine
// only ever take time. Rates count bytes of the tensor, however many a codec reads and writes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "compress/codec.h"

namespace holdfast::compress {
namespace {

constexpr int kTurns = 15;
constexpr double kTurnSeconds = 0.01;

struct Contestant {
  std::string name;
  std::function<void()> once;
  std::vector<double> seconds{};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double best(const std::vector<double>& x) { return *std::ranges::min_element(x); }

double ratio(const Contestant& yardstick, const Contestant& each) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < each.seconds.size(); ++i) {
    ratios.push_back(yardstick.seconds[i] / each.seconds[i]);
  }
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

void take_turns(std::vector<Contestant>& all) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Contestant& each : all) {
      each.once();
      int times = 0;
      const double start = now();
      do {
        each.once();
        ++times;
      } while (now() - start < kTurnSeconds);
      each.seconds.push_back((now() - start) / times);
    }
  }
}

// As tensors are: at the start of a cache line.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  Aligned(const Aligned<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const Aligned&) const = default;
};
template <class T>
using Buffer = std::vector<T, Aligned<T>>;

Buffer<float> gaussians(std::size_t count) {
  Buffer<float> x(count);
  std::uint64_t state = 1;
  for (float& v : x) {
    double sum = 0;  // of twelve uniform numbers: mean 6, variance 1, close enough
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      sum += static_cast<double>(state >> 40) / 16777216.0;
    }
    v = static_cast<float>(sum - 6);
  }
  return x;
}

struct Buffers {
  Buffer<float> x;
  Buffer<float> y;
  Buffer<float> residual;
  Buffer<std::byte> frame{};
};

volatile std::uint32_t sink;

void read_all(const Buffer<float>& x) {
  std::uint32_t all = 0;
  const auto* bits = reinterpret_cast<const std::uint32_t*>(x.data());
  for (std::size_t i = 0; i < x.size(); ++i) all |= bits[i];
  sink = all;
}

void add(Buffer<float>& y, const Buffer<float>& x) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

void measure(const CodecRow& row, const CodecOptions& options, const std::string& label,
             std::size_t bytes) {
  const Codec codec = Codec::make(row.spec.name, options).value();
  Buffers b{gaussians(bytes / 4), Buffer<float>(bytes / 4), Buffer<float>(bytes / 4)};
  DType dtype = DType::kF32;
  Buffer<std::byte> input(bytes);
  std::memcpy(input.data(), b.x.data(), bytes);
  if (row.spec.id == CodecId::kBfloat) {
    dtype = DType::kBF16;
    b.x = gaussians(bytes / 2);
    Codec::make("bf16").value().encode({std::as_bytes(std::span(b.x)), DType::kF32, {}, {}}, input);
    b.x.resize(bytes / 4);
  }
  const std::size_t count = bytes / dtype_bytes(dtype);
  b.frame.resize(codec.encoded_bound(dtype, count));
  std::size_t size = codec.encode({input, dtype, {}, {}}, b.frame);
  Buffer<std::byte> out(bytes);
  Buffer<float> sum(count);
  std::vector<Contestant> all;
  all.push_back({"memcpy", [&] { std::memcpy(out.data(), input.data(), bytes); }});
  all.push_back({"read", [&] { read_all(b.x); }});
  all.push_back({"add", [&] { add(b.y, b.x); }});
  all.push_back({"encode", [&] { size = codec.encode({input, dtype, {}, {}}, b.frame); }});
  all.push_back({"decode", [&] {
                   if (!codec.decode(std::span(b.frame).first(size), dtype, out).is_ok()) abort();
                 }});
  all.push_back({"decode_add", [&] {
                   if (!codec.decode_add(std::span(b.frame).first(size), sum).is_ok()) abort();
                 }});
  if (row.spec.takes_residual) {
    all.push_back({"encode_residual", [&] {
                     size = codec.encode({input, dtype, {}, b.residual}, b.frame);
                   }});
  }
  take_turns(all);
  for (const Contestant& each : all) {
    const double t = best(each.seconds);
    std::printf(
        "{\"name\": \"%s\", \"what\": \"%s\", \"bytes\": %zu, \"compression\": %.4f, "
        "\"gb_per_s\": %.2f, \"to_memcpy\": %.3f, \"to_read\": %.3f, \"to_add\": %.3f}\n",
        label.c_str(), each.name.c_str(), bytes,
        static_cast<double>(bytes) / static_cast<double>(size),
        static_cast<double>(bytes) / t / 1e9, ratio(all[0], each), ratio(all[1], each),
        ratio(all[2], each));
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace holdfast::compress

int main(int count, char** words) {
  using namespace holdfast::compress;
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{64} << 20}) {
    for (const CodecRow& row : catalogue()) {
      const std::string name(row.spec.name);
      if (count > 1 && name != words[1]) continue;
      measure(row, {}, name, bytes);
      if (row.spec.id == CodecId::kInt8) {
        measure(row, {.rounding = Rounding::kStochastic}, name + " stochastic", bytes);
        measure(row, {.grid = Grid::kMinMax}, name + " min-max", bytes);
      }
      if (row.spec.id == CodecId::kOnebit) {
        measure(row, {.sign_scale = SignScale::kL1}, name + " l1", bytes);
      }
      if (row.spec.id == CodecId::kBfloat) {
        measure(row, {.tier = Tier::kDense}, name + " dense", bytes);
      }
    }
  }
  return 0;
}

// Rates of the code of snapshots on one core, beside ISA-L with the same matrices and a copy of the
// same sources: JSON lines, one to code, direction and shard size, then a table.
//
//   erasure_rates [TURNS [SHARD_BYTES]]
//   erasure_rates levels                 at every instruction level
//
// Encoding makes m parity shards of k data shards; decoding restores the first m data shards (all
// that there are, where m is more) from the others. Contestants take turns, and must write the same
// bytes. Rates count bytes of the k source shards, however many are written: "gb_per_s" is that of
// the best turn, since others on the machine only ever take time, "median_gb_per_s" that of the
// median turn. A ratio is that of two best turns; "median_ratio" the median over the turns of the
// other's time by ours in the same turn. memcpy copies the k source shards to k others.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "erasure/code.h"

#if defined(HOLDFAST_ISAL)
#include <isa-l/erasure_code.h>
#endif

namespace holdfast::bench {
namespace {

using erasure::ErasureCode;
using erasure::Symbol;

constexpr double kTurnSeconds = 0.005;

struct Contestant {
  std::string name;
  std::function<void()> once;
  std::vector<double> seconds{};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void take_turns(std::vector<Contestant>& all, int turns) {
  for (int turn = 0; turn < turns; ++turn) {
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

double best(const Contestant& each) { return *std::ranges::min_element(each.seconds); }

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

double median_ratio(const Contestant& other, const Contestant& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.seconds.size(); ++i) {
    ratios.push_back(other.seconds[i] / ours.seconds[i]);
  }
  return median(ratios);
}

// At addresses as a memory of pages has them, and with what no run of zeros would hide.
class Shards {
 public:
  Shards(std::size_t count, std::size_t bytes) {
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < count; ++i) {
      auto* const at = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) & ~4095UL));
      owned_.emplace_back(at, std::free);
      for (std::size_t j = 0; j < bytes; ++j) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        at[j] = static_cast<std::byte>(state >> 56);
      }
      data_.push_back(at);
    }
  }
  const std::vector<std::byte*>& data() const { return data_; }
  std::vector<const std::byte*> inputs() const { return {data_.begin(), data_.end()}; }

 private:
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> owned_;
  std::vector<std::byte*> data_;
};

// What encoding or decoding comes down to.
struct Work {
  std::string code;
  std::string what;
  std::vector<Symbol> coefficients;
  std::size_t inputs;
  std::size_t outputs;
};

std::vector<Work> works_of(int data, int parity) {
  const ErasureCode code = ErasureCode::make({data, parity}).value();
  const std::size_t k = code.data();
  const std::size_t lost = std::min(k, code.parity());
  const std::string name = std::to_string(data) + "+" + std::to_string(parity);
  const std::span<const Symbol> below = code.generator().symbols().subspan(k * k);
  erasure::ShardSet wanted;
  for (std::size_t i = 0; i < lost; ++i) wanted[i] = true;
  erasure::ShardSet present;
  for (std::size_t i = lost; i < code.shards(); ++i) present[i] = true;
  const erasure::DecodePlan plan = code.plan({present, wanted}).value();
  const std::span<const Symbol> inverse = plan.coefficients.symbols();
  return {{name, "encode", {below.begin(), below.end()}, k, code.parity()},
          {name, "decode", {inverse.begin(), inverse.end()}, k, lost}};
}

void must_be_same(const Shards& a, const Shards& b, std::size_t bytes) {
  for (std::size_t i = 0; i < a.data().size(); ++i) {
    if (std::memcmp(a.data()[i], b.data()[i], bytes) != 0) {
      std::fprintf(stderr, "erasure_rates: the two wrote different bytes\n");
      std::abort();
    }
  }
}

#if defined(HOLDFAST_ISAL)
using IsalEncode = void (*)(int, int, int, unsigned char*, unsigned char**, unsigned char**);

Contestant isal(const Work& work, const Shards& from, const Shards& to, std::size_t bytes,
                IsalEncode encode = ec_encode_data) {
  std::vector<unsigned char> matrix(work.coefficients.begin(), work.coefficients.end());
  std::vector<unsigned char> tables(32 * matrix.size());
  const auto inputs = static_cast<int>(work.inputs);
  const auto outputs = static_cast<int>(work.outputs);
  ec_init_tables(inputs, outputs, matrix.data(), tables.data());
  return {"isal", [=, &from, &to]() mutable {
            encode(static_cast<int>(bytes), inputs, outputs, tables.data(),
                   reinterpret_cast<unsigned char**>(const_cast<std::byte**>(from.data().data())),
                   reinterpret_cast<unsigned char**>(const_cast<std::byte**>(to.data().data())));
          }};
}
#endif

double rate(const Work& work, std::size_t bytes, double seconds) {
  return static_cast<double>(work.inputs * bytes) / seconds / 1e9;
}

std::string number(double value, const char* form = "%.2f") {
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

// Prints the JSON line, and returns the table's.
std::string report(const Work& work, std::size_t bytes, const std::vector<Contestant>& all) {
  const Contestant& ours = all[0];
  std::string row = "| " + work.code + " " + work.what + " | " + std::to_string(bytes >> 10) +
                    " KiB | " + number(rate(work, bytes, best(ours)), "%.1f") + " (" +
                    number(rate(work, bytes, median(ours.seconds)), "%.1f") + ")";
  std::printf(
      "{\"name\": \"%s\", \"what\": \"%s\", \"shard_bytes\": %zu, \"gb_per_s\": %.2f, "
      "\"median_gb_per_s\": %.2f",
      work.code.c_str(), work.what.c_str(), bytes, rate(work, bytes, best(ours)),
      rate(work, bytes, median(ours.seconds)));
  for (std::size_t i = 1; i < all.size(); ++i) {
    const char* const name = all[i].name.c_str();
    const double ratio = best(all[i]) / best(ours);
    const double median_of = median_ratio(all[i], ours);
    std::printf(", \"%s_gb_per_s\": %.2f, \"to_%s\": %.3f, \"median_to_%s\": %.3f", name,
                rate(work, bytes, best(all[i])), name, ratio, name, median_of);
    row += " | " + number(rate(work, bytes, best(all[i])), "%.1f") + " | " + number(ratio) + " (" +
           number(median_of) + ")";
  }
  std::printf("}\n");
  std::fflush(stdout);
  return row + " |";
}

std::string measure(const Work& work, std::size_t bytes, int turns) {
  const Shards from(work.inputs, bytes);
  const Shards to(work.outputs, bytes);
  const Shards copies(work.inputs, bytes);
  const std::vector<const std::byte*> inputs = from.inputs();
  std::vector<Contestant> all;
  all.push_back({"ours", [&] {
                   erasure::multiply_tiles({inputs, to.data(), work.coefficients, bytes});
                 }});
#if defined(HOLDFAST_ISAL)
  const Shards theirs(work.outputs, bytes);
  isal(work, from, theirs, bytes).once();
  all[0].once();
  must_be_same(theirs, to, bytes);
  all.push_back(isal(work, from, to, bytes));
#endif
  all.push_back({"memcpy", [&] {
                   for (std::size_t i = 0; i < work.inputs; ++i) {
                     std::memcpy(copies.data()[i], inputs[i], bytes);
                   }
                 }});
  take_turns(all, turns);
  return report(work, bytes, all);
}

void report_level(const Work& work, std::size_t bytes, Contestant each) {
  std::vector<Contestant> one{std::move(each)};
  take_turns(one, 5);
  std::printf(
      "{\"name\": \"%s\", \"what\": \"%s\", \"shard_bytes\": %zu, \"level\": \"%s\", "
      "\"gb_per_s\": %.2f}\n",
      work.code.c_str(), work.what.c_str(), bytes, one[0].name.c_str(),
      rate(work, bytes, best(one[0])));
  std::fflush(stdout);
}

void measure_levels(const Work& work, std::size_t bytes) {
  const Shards from(work.inputs, bytes);
  const Shards to(work.outputs, bytes);
  const std::vector<const std::byte*> inputs = from.inputs();
  for (const CpuLevel level : cpu_levels()) {
    for (const bool galois : {false, true}) {
      const erasure::ProductLoop loop = erasure::product_loop(level, galois && has_galois());
      if (galois && loop == erasure::product_loop(level, false)) continue;
      const std::string name = std::string(cpu_level_name(level)) + (galois ? " with GFNI" : "");
      report_level(work, bytes,
                   {name, [&, loop] {
                      erasure::multiply_tiles({inputs, to.data(), work.coefficients, bytes}, loop);
                    }});
    }
  }
#if defined(HOLDFAST_ISAL)
  Contestant theirs = isal(work, from, to, bytes);
  theirs.name = "ISA-L's choice";
  report_level(work, bytes, theirs);
#if defined(__x86_64__)
  Contestant avx2 = isal(work, from, to, bytes, ec_encode_data_avx2);
  avx2.name = "ISA-L's AVX2";
  report_level(work, bytes, avx2);
#endif
#endif
}

void measure_all(int turns, const std::vector<std::size_t>& sizes) {
  std::vector<std::string> rows;
  for (const auto& [data, parity] : {std::pair{2, 1}, {4, 2}, {8, 2}, {16, 4}}) {
    for (const Work& work : works_of(data, parity)) {
      for (const std::size_t bytes : sizes) rows.push_back(measure(work, bytes, turns));
    }
  }
#if defined(HOLDFAST_ISAL)
  std::printf(
      "\n| code | shard | GB/s (median) | ISA-L | ratio (median) | memcpy | ratio (median) |\n"
      "|---|---|---|---|---|---|---|\n");
#else
  std::printf(
      "\nBuilt without ISA-L.\n\n| code | shard | GB/s (median) | memcpy | ratio (median) |\n"
      "|---|---|---|---|---|\n");
#endif
  for (const std::string& row : rows) std::printf("%s\n", row.c_str());
}

}  // namespace
}  // namespace holdfast::bench

int main(int count, char** words) {
  using namespace holdfast::bench;
  if (count > 1 && std::string(words[1]) == "levels") {
    for (const Work& work : works_of(4, 2)) measure_levels(work, 64 << 10);
    for (const Work& work : works_of(16, 4)) measure_levels(work, 64 << 10);
    return 0;
  }
  const int turns = count > 1 ? std::max(1, std::atoi(words[1])) : 15;
  std::vector<std::size_t> sizes{64 << 10, 1 << 20, 32 << 20};
  if (count > 2) sizes = {std::strtoull(words[2], nullptr, 10)};
  measure_all(turns, sizes);
  return 0;
}

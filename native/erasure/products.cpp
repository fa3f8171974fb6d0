#include "erasure/products.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace holdfast::erasure {
namespace {

// More outputs than a loop has registers for read their inputs again, block by block, from the
// second-level cache, which holds as much on every processor of the last ten years.
constexpr std::size_t kBlockBytes = 192 * 1024;
constexpr std::size_t kLeastBlock = 4 * kLineBytes;

// From here on outputs go past the caches: they would push out what else is in there, and every
// line would be read before it is written. Below, they cost more than that where memory is idle: a
// third of the speed of 16+4 with tiles of 1 MiB.
constexpr std::size_t kPastBytes = 8 << 20;

std::size_t misplaced(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kLineBytes;
}

// Whether all outputs begin alike within a cache line, so that their vectors are aligned together.
bool alike(std::span<std::byte* const> outputs) {
  return std::ranges::all_of(outputs, [&](const std::byte* each) {
    return misplaced(each) == misplaced(outputs.front());
  });
}

// All rows of [begin, end), as many at a time as the loop takes, evenly.
void multiply_block(const TileProducts& products, ProductRun run, ProductLoop loop) {
  const std::size_t rows = products.outputs.size();
  const std::size_t groups = (rows + kMostRows - 1) / kMostRows;
  std::size_t row = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t next = rows * (group + 1) / groups;
    run.outputs = products.outputs.data() + row;
    run.coefficients = products.coefficients.data() + row * run.count;
    run.rows = next - row;
    loop(run);
    row = next;
  }
}

void run_one(Symbol coefficient, std::span<const std::byte> in, std::span<std::byte> out, bool add,
             ProductLoop loop) {
  CHECK(in.size() == out.size());
  const std::byte* const input = in.data();
  std::byte* const output = out.data();
  loop({.inputs = &input,
        .outputs = &output,
        .coefficients = &coefficient,
        .count = 1,
        .rows = 1,
        .begin = 0,
        .end = out.size(),
        .add = add,
        .past = false});
}

}  // namespace

ProductLoop product_loop(CpuLevel level, [[maybe_unused]] bool galois) {
  switch (level) {
    case CpuLevel::kReference: return product_loop_reference();
    case CpuLevel::kBaseline: return product_loop_baseline();
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return galois ? product_loop_galois256() : product_loop_avx2();
    case CpuLevel::kAvx512: return galois ? product_loop_galois512() : product_loop_avx512();
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return product_loop_neon();
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

ProductLoop best_product_loop() { return product_loop(best_cpu_level()); }

void multiply_tiles(const TileProducts& products, ProductLoop loop) {
  const std::size_t count = products.inputs.size();
  const std::size_t rows = products.outputs.size();
  CHECK(count >= 1 && count <= kMostInputs && products.coefficients.size() == count * rows);
  if (rows == 0) return;
  ProductRun run{.inputs = products.inputs.data(),
                 .outputs = products.outputs.data(),
                 .coefficients = products.coefficients.data(),
                 .count = count,
                 .rows = rows,
                 .begin = 0,
                 .end = 0,
                 .add = false,
                 .past = false};
  // Blocks begin at cache lines of the outputs, if any.
  const std::size_t head = (kLineBytes - misplaced(products.outputs.front())) % kLineBytes;
  const bool past = rows * products.bytes >= kPastBytes && alike(products.outputs);
  if (past && head > 0) {
    run.end = head;
    multiply_block(products, run, loop);
    run.begin = head;
  }
  run.past = past;
  const std::size_t block =
      rows <= kMostRows ? products.bytes
                        : std::max(kBlockBytes / count / kLineBytes * kLineBytes, kLeastBlock);
  while (run.begin < products.bytes) {
    run.end = run.begin + std::min(block, products.bytes - run.begin);
    multiply_block(products, run, loop);
    run.begin = run.end;
  }
}

void multiply(Symbol coefficient, std::span<const std::byte> in, std::span<std::byte> out,
              ProductLoop loop) {
  run_one(coefficient, in, out, false, loop);
}

void multiply_add(Symbol coefficient, std::span<const std::byte> in, std::span<std::byte> out,
                  ProductLoop loop) {
  run_one(coefficient, in, out, true, loop);
}

void xor_add(std::span<const std::byte> in, std::span<std::byte> out, ProductLoop loop) {
  run_one(1, in, out, true, loop);
}

}  // namespace holdfast::erasure

// The catalogue of kernels: one line per set.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "device/kernel.h"
#include "device/kernel_sets.h"

namespace holdfast::device {
namespace {

constexpr std::array kSets{
    reduce_kernels,  block_codec_kernels, topk_kernels, bfloat_kernels,     sum_residual_kernels,
    strided_kernels, block_list_kernels,  rows_kernels, state_hash_kernels, tile_products_kernels};

std::vector<KernelRow> all_kernels() {
  std::vector<KernelRow> all;
  for (const auto set : kSets) {
    const auto rows = set();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace

std::span<const KernelRow> kernels() {
  static const std::vector<KernelRow> all = all_kernels();
  return all;
}

const KernelRow* find_kernel(std::string_view name) {
  const auto rows = kernels();
  const auto found = std::ranges::find(rows, name, &KernelRow::name);
  return found == rows.end() ? nullptr : &*found;
}

KernelLaunch persistent(std::uint64_t threads_of_work, std::uint32_t processors) {
  const std::uint64_t most = std::uint64_t{processors} * kBlocksPerProcessor;
  const std::uint64_t wanted = threads_of_work / kThreads + (threads_of_work % kThreads != 0);
  return {static_cast<std::uint32_t>(
              std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(most, 1))),
          kThreads};
}

}  // namespace holdfast::device

#include "erasure/device/tile_products.h"

#include "base/check.h"

namespace holdfast::erasure {

const device::KernelRow& multiply_tiles_kernel() {
  const device::KernelRow* found = device::find_kernel("holdfast_multiply_tiles");
  CHECK(found != nullptr);
  return *found;
}

std::uint32_t tile_unit(std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs) {
  std::uintptr_t all = 0;
  for (const std::byte* const each : inputs) all |= reinterpret_cast<std::uintptr_t>(each);
  for (const std::byte* const each : outputs) all |= reinterpret_cast<std::uintptr_t>(each);
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
}

std::uint64_t tile_threads(const TileProductsArgument& argument) {
  return argument.bytes / argument.unit_bytes + 1;
}

}  // namespace holdfast::erasure

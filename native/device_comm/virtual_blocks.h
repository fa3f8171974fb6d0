// Virtual blocks: how an op's blocks name the elements of an array with gaps. Blocks are runs of
// memory, which such an array has none of; so it gets an address where no memory can be, and the
// op's blocks lie there as if its elements followed each other. When the op starts, the elements
// are packed into memory of the device, and the blocks moved there.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "device_comm/packed.h"

namespace holdfast::device_comm {

struct VirtualBlock {
  std::uintptr_t at = 0;  // virtual_block_address() of its number
  GappedArray array;
  bool written = false;
};

// Most arrays with gaps that one op may have, and the bytes of address space for each.
inline constexpr std::size_t kMostVirtualBlocks = std::size_t{1} << 15;
inline constexpr std::uint64_t kVirtualBlockBytes = std::uint64_t{1} << 48;

// Never the address of a program on any machine of ours: the upper half is the kernel's, or unused.
inline constexpr std::uintptr_t virtual_block_address(std::size_t number) {
  return std::uintptr_t{1} << 63 | number * kVirtualBlockBytes;
}

// Packs all arrays on the stream, and moves the request's blocks and residual to the packed memory.
// `packed` gets what has been packed, also after an error. Errors: as Packed::make().
Status pack_all(const std::shared_ptr<Staged>& staged, std::span<const VirtualBlock> virtual_blocks,
                device::CuStream stream, comm::OpRequest& request, std::vector<Packed>& packed);

}  // namespace holdfast::device_comm

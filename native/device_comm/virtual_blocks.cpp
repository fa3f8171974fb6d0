#include "device_comm/virtual_blocks.h"

#include "device_comm/staged.h"

namespace holdfast::device_comm {
namespace {

// Moves a pointer into the virtual block to the packed elements.
template <class T>
void move(T*& block, const VirtualBlock& from, const Packed& to) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (address < from.at || address - from.at > to.bytes()) return;
  block = reinterpret_cast<T*>(to.at() + (address - from.at));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

Status pack_all(const std::shared_ptr<Staged>& staged, std::span<const VirtualBlock> virtual_blocks,
                device::CuStream stream, comm::OpRequest& request, std::vector<Packed>& packed) {
  if (virtual_blocks.size() > kMostVirtualBlocks) {
    return {Code::kUnsupported,
            std::to_string(virtual_blocks.size()) +
                " arrays with gaps in one op; accepted: " + std::to_string(kMostVirtualBlocks)};
  }
  for (const VirtualBlock& one : virtual_blocks) {
    auto made = Packed::make(staged, one.array, one.written, stream);
    if (!made.is_ok()) return made.status();
    packed.push_back(std::move(made).value());
    TRY(packed.back().pack(staged->kernels(), stream));
    for (comm::BlockList* blocks : {&request.input, &request.output}) {
      for (comm::Block& block : *blocks) move(block.data, one, packed.back());
    }
    for (float*& residual : request.residual) move(residual, one, packed.back());
  }
  return Status::ok();
}

}  // namespace holdfast::device_comm

// Request shape: what checks of a plain request, and the choice of its path, depend on besides its
// memory. A call with the shape of an accepted one needs no second check.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/communicator.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

struct RequestShape {
  Collective collective{};
  DType dtype{};
  ReduceOp op{};
  Rank root{};
  bool equal_blocks = false;
  FoldOrder order{};
  std::uint64_t user_element = 0;  // of a user operator; 0: there is none
  bool commutes = false;           // a user operator does
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  std::uint64_t input_count = 0;  // elements of each block
  std::uint64_t output_count = 0;
  friend bool operator==(const RequestShape&, const RequestShape&) = default;
};

// Nothing for a request that is more than plain, whose blocks have several sizes, or whose memory
// may be refused.
inline std::optional<RequestShape> shape_of(const OpRequest& request) {
  if (request.codec || !request.residual.empty() || !request.algorithm.empty()) return std::nullopt;
  if (request.weight) return std::nullopt;
  for (const auto* blocks : {&request.input, &request.output}) {
    for (const Block& block : *blocks) {
      if (block.data == nullptr || block.count != blocks->front().count) return std::nullopt;
    }
  }
  if (!may_be_in_place(request.collective)) {
    for (const Block& in : request.input) {
      for (const Block& out : request.output) {
        if (in.data == out.data) return std::nullopt;
      }
    }
  }
  const auto count = [](const BlockList& blocks) {
    return blocks.empty() ? std::uint64_t{0} : blocks.front().count;
  };
  const UserOp* user = request.user.get();
  return RequestShape{request.collective,
                      request.dtype,
                      request.op,
                      request.root,
                      request.equal_blocks,
                      request.order,
                      user == nullptr ? 0 : user->element_bytes,
                      user != nullptr && user->commutative,
                      request.input.size(),
                      request.output.size(),
                      count(request.input),
                      count(request.output)};
}

}  // namespace holdfast::comm

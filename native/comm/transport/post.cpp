#include "comm/transport/post.h"

#include "base/copy.h"

namespace holdfast::comm {

Status Post::mismatch(const FrameHeader& header) const {
  if (total_bytes != header.total_bytes) {
    return {Code::kProtocolError, "calls do not match: this rank's message has " +
                                      std::to_string(total_bytes) + " bytes, the peer's has " +
                                      std::to_string(header.total_bytes)};
  }
  if ((key.op & kPointToPoint) != 0) {
    return {Code::kProtocolError, "calls do not match: the dtypes of send and recv differ"};
  }
  return {Code::kProtocolError,
          "calls do not match: this call, or an earlier one, differs from the peer's"};
}

void RecvPost::store(std::byte* to, std::span<const std::byte> bytes) const {
  if (!combine.kernel) {
    copy_bytes(to, bytes.data(), bytes.size());
    return;
  }
  const std::uint64_t count = bytes.size() / combine.element_bytes;
  const std::byte* operand = combine.operand + done;
  if (combine.scale != 1) {
    const ScaledOperand own{operand, combine.scale};
    const ScaledOperand other{bytes.data()};
    combine_scaled(combine.kernel, combine.dtype, to, combine.operand_first ? own : other,
                   combine.operand_first ? other : own, count);
  } else if (combine.operand_first) {
    combine.kernel(to, operand, bytes.data(), count);
  } else {
    combine.kernel(to, bytes.data(), operand, count);
  }
  combine.finish(to, count);
}

}  // namespace holdfast::comm

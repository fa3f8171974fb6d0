#include "comm/transport/post.h"

#include <cstring>

namespace holdfast::comm {

void RecvPost::store(std::byte* to, std::span<const std::byte> bytes) const {
  if (combine.kernel == nullptr) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  const std::uint64_t count = bytes.size() / combine.element_bytes;
  const std::byte* operand = combine.operand + done;
  if (combine.operand_first) {
    combine.kernel(to, operand, bytes.data(), count);
  } else {
    combine.kernel(to, bytes.data(), operand, count);
  }
  if (combine.divide != nullptr) combine.divide(to, count, combine.divisor);
}

}  // namespace holdfast::comm

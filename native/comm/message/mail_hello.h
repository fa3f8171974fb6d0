// Mail hello: what a mailbox says of itself first, to each other one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/transport/process_memory.h"

namespace holdfast::comm {

struct MailHello {
  MemoryOwner owner;    // of the sender's memory
  std::string segment;  // with a ring for each of the two directions; empty: none
  std::uint32_t ring_bytes = 0;
};

std::vector<std::byte> encode(const MailHello& hello);
// kProtocolError for anything encode() does not make.
Result<MailHello> decode_mail_hello(std::span<const std::byte> bytes);

}  // namespace holdfast::comm

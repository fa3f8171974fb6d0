#include "comm/message/mail_hello.h"

#include <bit>

#include "base/bytes.h"
#include "comm/message/mail_ring.h"

namespace holdfast::comm {
namespace {

// Longer than any name that Segment makes.
constexpr std::size_t kMostName = 256;

}  // namespace

std::vector<std::byte> encode(const MailHello& hello) {
  Writer out;
  out.number(hello.owner.process);
  out.number(hello.owner.address);
  out.number(hello.owner.nonce);
  out.number(hello.ring_bytes);
  out.text(hello.segment);
  return out.take();
}

Result<MailHello> decode_mail_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  MailHello hello;
  hello.owner.process = in.number<std::uint64_t>();
  hello.owner.address = in.number<std::uint64_t>();
  hello.owner.nonce = in.number<std::uint64_t>();
  hello.ring_bytes = in.number<std::uint32_t>();
  hello.segment = in.text(kMostName);
  const bool fits = hello.segment.empty() ? hello.ring_bytes == 0
                                          : std::has_single_bit(hello.ring_bytes) &&
                                                hello.ring_bytes >= kLeastMailRing &&
                                                hello.ring_bytes <= kMostMailRing;
  if (!in.ended() || !fits) return Status{Code::kProtocolError, "broken peer: its mailbox's hello"};
  return hello;
}

}  // namespace holdfast::comm

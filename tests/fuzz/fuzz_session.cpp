// Any bytes on an open link: the session must answer with a status, never crash, never hoard
// memory. Input: a stream of frames as a socket would deliver it; a few posts are waiting on the
// other side.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "comm/transport/session.h"

namespace {

using namespace holdfast;
using namespace holdfast::comm;

using Header = std::array<std::byte, kFrameHeaderBytes>;

// The corpus has frames of earlier versions, which would all end at the same early check.
Header of_this_version(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  constexpr std::size_t kVersionAt = 2;  // behind the magic number
  Header header;
  std::copy(bytes.begin(), bytes.end(), header.begin());
  if (header[kVersionAt] < std::byte{kProtocolVersion}) {
    header[kVersionAt] = std::byte{kProtocolVersion};
  }
  return header;
}

void feed(Session& session, std::span<const std::byte> bytes) {
  while (bytes.size() >= kFrameHeaderBytes) {
    auto header = parse_header(of_this_version(bytes.first<kFrameHeaderBytes>()));
    if (!header.is_ok()) return;
    bytes = bytes.subspan(kFrameHeaderBytes);
    if (!session.begin_frame(header.value()).is_ok()) return;
    while (session.payload_left() > 0) {
      if (bytes.empty()) return;
      const std::uint64_t taken = session.payload(bytes);
      if (taken == 0) return;  // the rest of an element never came
      bytes = bytes.subspan(taken);
    }
    while (session.take_control()) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Session session;
  // Less credit than the message needs, and few notices.
  const EarlyLimits limits{4096, 2};
  session.limit_early(limits);
  bool touched = false;
  std::vector<std::byte> memory(1 << 16);
  SendPost send;
  RecvPost small;
  RecvPost large;
  RecvPost frame;  // of at most so many bytes
  for (Post* post : {static_cast<Post*>(&send), static_cast<Post*>(&small),
                     static_cast<Post*>(&large), static_cast<Post*>(&frame)}) {
    post->touched = &touched;
  }
  send.key.op = 1;
  send.total_bytes = send.ready = memory.size();
  send.unused = 1000;
  send.data = memory.data();
  small.key.op = 2;
  small.total_bytes = small.limit = 64;
  small.data = memory.data();
  large.key.op = 3;
  large.total_bytes = large.limit = memory.size();
  large.data = memory.data();
  session.post(send);
  session.post(small);
  std::vector<std::byte> room(1 << 16);
  frame.key.op = 4;
  frame.total_bytes = frame.limit = room.size();
  frame.data = room.data();
  frame.may_end_early = true;
  session.post(large);
  session.post(frame);
  session.retire({9}, {0});
  feed(session, std::as_bytes(std::span(data, size)));
  session.has_arrived({{}, {}, 5, 0});
  if (session.early_bytes() > limits.bytes) __builtin_trap();
  OutFrame out;
  while (session.next_frame(4096, out)) {
    session.sent(out);
    out = {};
  }
  session.cancel(send);
  session.cancel(small);
  session.cancel(large);
  if (frame.finished && frame.done > frame.total_bytes) __builtin_trap();
  session.cancel(frame);
  return 0;
}

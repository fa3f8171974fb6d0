#include "sim/lanes/lane_ledger.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace holdfast::sim {
namespace {

using comm::FrameKind;
using comm::TrunkStream;

// Bytes that belong to one frame of one trunk and to no other.
std::vector<std::byte> payload_of(std::uint64_t trunk, int from, std::uint64_t number,
                                  std::size_t bytes) {
  Random random(trunk * 0x9e37 + number * 2 + static_cast<std::uint64_t>(from));
  std::vector<std::byte> payload(bytes);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(payload.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return payload;
}

FrameKind kind_of(TrunkStream stream, std::size_t bytes) {
  if (stream == TrunkStream::kBulk) return FrameKind::kMail;
  return bytes == 0 ? FrameKind::kHeartbeat : FrameKind::kMembership;
}

TrunkStream stream_of_kind(FrameKind kind) {
  return kind == FrameKind::kMail ? TrunkStream::kBulk : TrunkStream::kControl;
}

}  // namespace

void LaneLedger::begin(int end, std::uint64_t trunk) {
  LedgerEnd fresh;
  fresh.trunk = trunk;
  ends_.at(static_cast<std::size_t>(end)) = fresh;
}

void LaneLedger::send(int end, comm::Session& session, std::uint64_t trunk, TrunkStream stream,
                      std::size_t bytes) {
  LedgerEnd& from = ends_.at(static_cast<std::size_t>(end));
  auto& sent = from.sent.at(static_cast<std::size_t>(stream));
  comm::FrameHeader header;
  header.kind = kind_of(stream, bytes);
  header.key.comm = CommId{trunk};
  header.key.op = static_cast<std::uint32_t>(sent);
  header.signature = static_cast<std::uint32_t>(bytes);
  session.send_control(header, payload_of(trunk, end, sent, bytes));
  ++sent;
  if (bytes > 0) from.due.at(static_cast<std::size_t>(stream)) = sent;
}

void LaneLedger::send_goodbye(int, comm::Session& session) {
  session.send_control(FrameKind::kGoodbye, {}, {}, {});
}

void LaneLedger::post(int end, comm::Session& sender, comm::Session& receiver, std::uint64_t trunk,
                      std::size_t bytes) {
  LedgerMessage& message = messages_.emplace_back();
  message.from = end;
  message.trunk = trunk;
  message.bytes = payload_of(trunk, end, messages_.size(), bytes);
  message.room.resize(bytes);
  for (comm::Post* one :
       {static_cast<comm::Post*>(&message.send), static_cast<comm::Post*>(&message.receive)}) {
    one->key.comm = CommId{trunk};
    one->key.op = static_cast<std::uint32_t>(messages_.size());
    one->total_bytes = bytes;
    one->touched = &message.touched;
  }
  message.send.ready = message.receive.limit = bytes;
  message.send.data = message.bytes.data();
  message.receive.data = message.room.data();
  receiver.post(message.receive);
  sender.post(message.send);
}

void LaneLedger::take(int end, comm::Session& session, std::uint64_t trunk) {
  while (const auto frame = session.take_control()) take(end, *frame, trunk);
  for (LedgerMessage& message : messages_) {
    if (message.is_whole || !message.receive.finished) continue;
    message.is_whole = true;
    if (message.bytes != message.room) {
      wrong("end " + std::to_string(end) + ": a message has other bytes than were sent");
    }
  }
}

void LaneLedger::take(int end, const comm::ControlFrame& frame, std::uint64_t trunk) {
  LedgerEnd& here = ends_.at(static_cast<std::size_t>(end));
  const comm::FrameHeader& header = frame.header;
  const std::string what = "end " + std::to_string(end) + ": frame " +
                           std::to_string(header.key.op) + " of trunk " +
                           std::to_string(header.key.comm.value);
  if (here.closed) return wrong(what + " arrives after the peer was said to be gone");
  ++frames_;
  here.bytes += comm::kFrameHeaderBytes + frame.payload.size();
  if (header.kind == FrameKind::kGoodbye) {
    here.told = true;
    return;
  }
  if (header.key.comm.value != trunk) {
    return wrong(what + " arrives over trunk " + std::to_string(trunk));
  }
  auto& next = here.arrived.at(static_cast<std::size_t>(stream_of_kind(header.kind)));
  if (header.key.op != next) {
    return wrong(what + " arrives where " + std::to_string(next) + " is awaited");
  }
  ++next;
  const bool whole = frame.payload.size() == header.signature;
  if (!whole || frame.payload != payload_of(trunk, 1 - end, header.key.op, header.signature)) {
    wrong(what + " has other bytes than were sent");
  }
}

bool LaneLedger::has_all_of(int end) const {
  const LedgerEnd& from = ends_.at(static_cast<std::size_t>(end));
  const LedgerEnd& to = ends_.at(static_cast<std::size_t>(1 - end));
  if (from.trunk != to.trunk) return false;
  for (std::size_t i = 0; i < comm::kTrunkStreams; ++i) {
    if (to.arrived.at(i) < from.due.at(i)) return false;
  }
  return std::ranges::all_of(messages_, [&](const LedgerMessage& message) {
    if (message.from != end || message.trunk != from.trunk) return true;
    return message.send.finished && message.is_whole;
  });
}

}  // namespace holdfast::sim

#include "comm/message/mail_ring.h"

#include <algorithm>
#include <string>

namespace holdfast::comm {
namespace {

// In front of each frame's header: its stamp, and nothing.
constexpr std::size_t kStampBytes = 8;
constexpr std::size_t kRingFront = kStampBytes + kMailHeaderBytes;
// As the kind of a frame: it fills the ring's end.
constexpr std::uint8_t kFill = 0xff;
// A frame takes at most this part of a ring, so that both ends work at the same time.
constexpr std::size_t kFrameShare = 4;

std::atomic_ref<std::uint32_t> stamp_at(std::byte* line) {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(line));
}

// Never 0.
std::uint32_t stamp_of(std::uint64_t at) { return static_cast<std::uint32_t>(at) | 0x8000'0000U; }

std::uint64_t lines_of(std::uint64_t payload_bytes) {
  return (kRingFront + payload_bytes + kMailLine - 1) / kMailLine;
}

}  // namespace

MailRingWriter::MailRingWriter(std::byte* memory, std::size_t ring_bytes)
    : cursors_(reinterpret_cast<MailRingCursors*>(memory)),
      lines_(memory + sizeof(MailRingCursors)),
      mask_(ring_bytes / kMailLine - 1),
      most_payload_(static_cast<std::uint32_t>(
          std::min<std::size_t>(ring_bytes / kFrameShare - kRingFront, kMaxMailPayload))) {}

// One line more is needed than the frame has: the stamp behind it is cleared. Where there is no
// room, the reader is told before the last look.
bool MailRingWriter::has_room(std::uint64_t lines) {
  const std::uint64_t all = mask_ + 1;
  if (head_ + lines + 1 - read_ <= all) return true;
  // acquire: what the reader has read may be overwritten
  read_ = std::min(cursors_->read.load(std::memory_order_acquire), head_);
  if (head_ + lines + 1 - read_ <= all) return true;
  // seq_cst: see MailRingReader::consume()
  cursors_->writer_waits.store(1, std::memory_order_seq_cst);
  read_ = std::min(cursors_->read.load(std::memory_order_seq_cst), head_);
  return head_ + lines + 1 - read_ <= all;
}

std::byte* MailRingWriter::begin(const MailHeader& header) {
  const std::uint64_t lines = lines_of(header.payload_bytes);
  const std::uint64_t to_end = mask_ + 1 - (head_ & mask_);
  if (lines > to_end) {
    if (!has_room(to_end + lines)) return nullptr;
    line(head_)[kStampBytes] = std::byte{kFill};
    publish(to_end);
  } else if (!has_room(lines)) {
    return nullptr;
  }
  building_ = lines;
  encode_mail_header(header, line(head_) + kStampBytes);
  return line(head_) + kRingFront;
}

void MailRingWriter::commit() {
  publish(building_);
  written_ = true;
}

void MailRingWriter::publish(std::uint64_t lines) {
  // relaxed: it becomes visible with the stamp below
  stamp_at(line(head_ + lines)).store(0, std::memory_order_relaxed);
  // release: the frame
  stamp_at(line(head_)).store(stamp_of(head_), std::memory_order_release);
  head_ += lines;
}

void MailRingWriter::attend(bool begins) {
  if (!begins && attending_ == 0) return;  // of a ring that was there before this one
  attending_ = begins ? attending_ + 1 : attending_ - 1;
  // relaxed: see is_attended()
  cursors_->attends.store(attending_, std::memory_order_relaxed);
}

MailRingReader::MailRingReader(std::byte* memory, std::size_t ring_bytes)
    : cursors_(reinterpret_cast<MailRingCursors*>(memory)),
      lines_(memory + sizeof(MailRingCursors)),
      mask_(ring_bytes / kMailLine - 1) {}

// acquire: the frame
std::uint32_t MailRingReader::stamp(std::uint64_t at) const {
  return stamp_at(lines_ + (at & mask_) * kMailLine).load(std::memory_order_acquire);
}

Result<std::optional<MailRingReader::RingMail>> MailRingReader::peek() {
  for (;;) {
    const std::uint32_t found = stamp(at_);
    if (found == 0) return std::optional<RingMail>{};
    if (found != stamp_of(at_)) {
      return Status{Code::kProtocolError, "broken peer: no mail frame where one should be"};
    }
    const std::byte* front = lines_ + (at_ & mask_) * kMailLine;
    const std::uint64_t to_end = mask_ + 1 - (at_ & mask_);
    if (front[kStampBytes] == std::byte{kFill}) {
      at_ += to_end;
      // release: the lines may be written again
      cursors_->read.store(at_, std::memory_order_release);
      continue;
    }
    auto header = parse_mail_header(
        std::span<const std::byte, kMailHeaderBytes>(front + kStampBytes, kMailHeaderBytes));
    if (!header.is_ok()) return header.status();
    const std::uint64_t lines = lines_of(header.value().payload_bytes);
    if (lines > to_end) {
      return Status{Code::kProtocolError, "broken peer: a mail frame of " +
                                              std::to_string(header.value().payload_bytes) +
                                              " bytes beyond its ring"};
    }
    next_ = at_ + lines;
    return std::optional<RingMail>{
        {header.value(), {front + kRingFront, header.value().payload_bytes}}};
  }
}

bool MailRingReader::consume() {
  at_ = next_;
  // seq_cst: either the writer sees this, or it has said before that it waits
  cursors_->read.store(at_, std::memory_order_seq_cst);
  if (cursors_->writer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return cursors_->writer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace holdfast::comm

// Mail ring: mail frames from one process to another of its host, through memory that both have
// mapped. A frame lies in whole cache lines; its first word is a stamp, which the writer sets last
// and the reader polls, so that a small message and the news of it come in one line. The writer
// clears the next frame's stamp first, so that a reader never takes old bytes for a frame. The
// reader says in a line of its own how far it is; the writer says there whether a thread of its
// process does nothing but wait until what it sends is taken.
//
// Thread: one at each end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "comm/message/mail_lane.h"

namespace holdfast::comm {

inline constexpr std::size_t kMailLine = 64;

// What lies in front of a ring's lines. The reader writes `read`, the writer `attends` and, with
// the reader, `writer_waits`.
struct alignas(kMailLine) MailRingCursors {
  std::atomic<std::uint64_t> read;  // lines
  std::atomic<std::uint32_t> writer_waits;
  std::atomic<std::uint32_t> attends;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(MailRingCursors) == kMailLine);

inline constexpr std::size_t kLeastMailRing = 16 * 1024;
inline constexpr std::size_t kMostMailRing = 1024 * 1024;

// Parts of a large message: while one end copies one of them, the other copies the one before, and
// they lie in the second level of the cache.
inline constexpr std::uint32_t kRingPart = 32 * 1024;

// Bytes of memory for a ring of so many bytes, a power of two between the limits above.
constexpr std::size_t mail_ring_memory(std::size_t ring_bytes) {
  return sizeof(MailRingCursors) + ring_bytes;
}

class MailRingWriter final : public MailLane {
 public:
  // `memory` is mail_ring_memory(ring_bytes) long, and was zero.
  MailRingWriter(std::byte* memory, std::size_t ring_bytes);

  std::byte* begin(const MailHeader& header) override;
  void commit() override;
  std::uint32_t most_payload() const override { return most_payload_; }
  std::uint32_t part_payload() const override { return std::min(most_payload_, kRingPart); }
  // Whether frames were committed since the last call: the reader may have to be woken.
  bool take_written() { return std::exchange(written_, false); }
  // A thread begins to wait for what this end sends, or has ended.
  void attend(bool begins);

 private:
  bool has_room(std::uint64_t lines);
  std::byte* line(std::uint64_t at) const { return lines_ + (at & mask_) * kMailLine; }
  void publish(std::uint64_t lines);

  MailRingCursors* cursors_;
  std::byte* lines_;
  std::uint64_t mask_;
  std::uint32_t most_payload_;
  std::uint64_t head_ = 0;       // the next frame's first line
  std::uint64_t read_ = 0;       // as last seen
  std::uint64_t building_ = 0;   // lines of the frame that was begun
  std::uint32_t attending_ = 0;  // threads
  bool written_ = false;
};

class MailRingReader {
 public:
  MailRingReader(std::byte* memory, std::size_t ring_bytes);

  struct RingMail {
    MailHeader header;
    std::span<const std::byte> payload;
  };
  // The next frame; nothing: none has come. An error: the peer is broken.
  Result<std::optional<RingMail>> peek();
  // Whether the next call of peek() has anything to say; cheaper.
  bool has_next() const { return stamp(at_) != 0; }
  // Whether the writer's end waits for what it sends; a hint.
  bool is_attended() const {
    // relaxed: nothing depends on it but the way that bytes take
    return cursors_->attends.load(std::memory_order_relaxed) != 0;
  }
  // Done with what peek() gave. Whether the writer waits for room, and is to be woken.
  bool consume();

 private:
  std::uint32_t stamp(std::uint64_t at) const;

  MailRingCursors* cursors_;
  std::byte* lines_;
  std::uint64_t mask_;
  std::uint64_t at_ = 0;
  std::uint64_t next_ = 0;  // behind the frame that peek() gave
};

}  // namespace holdfast::comm

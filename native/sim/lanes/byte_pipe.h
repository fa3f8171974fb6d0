// Byte pipe: one direction of a simulated connection, as TCP has it: bytes arrive in order, late,
// and are sent again by a timer that doubles while the path is out. What the sender has not heard
// of takes room at the sender.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/lanes/outages.h"
#include "sim/random.h"

namespace holdfast::sim {

// The path of one connection.
struct PathTerms {
  int connection = 0;
  Duration latency{};
  double bytes_per_ns = 1;
  std::size_t room = 0;  // bytes that the sender's side keeps
  int loss_percent = 0;  // of pieces, which are sent again a round trip later
};

class BytePipe {
 public:
  BytePipe(int from, const PathTerms& path, const Outages& outages)
      : from_(from), path_(path), outages_(outages) {}

  // Takes what there is room for; 0: there is none.
  std::size_t write(Instant now, std::span<const iovec> parts, Random& random);
  std::size_t read(Instant now, std::span<const iovec> parts);
  bool has_room(Instant now) {
    settle(now);
    // A third, as the kernel has it: else pieces would become ever smaller.
    return 3 * (written_ - answered_bytes_) <= 2 * path_.room;
  }
  bool has_arrived(Instant now) const;
  // Of what has not been read; kNever: nothing comes.
  Instant next_arrival() const;
  // When the sender hears of more; kNever: it waits for nothing.
  Instant next_answer() const;
  // An outage has begun: what is under way may be lost.
  void replan(Instant now);
  // All bytes after the next `kept` ones are lost, and all that are written later.
  void cut(std::size_t kept);
  std::size_t unread() const { return bytes_.size() - read_; }
  // When the last byte arrives, and with it an end that was sent after it; kNever: it does not.
  Instant end_arrival(Instant now) const;

  // What the sender's kernel knows.
  void settle(Instant now);
  std::uint8_t timeouts(Instant now) const;
  std::uint64_t delivered() const { return answered_bytes_; }
  // When something was last heard by the sender, of its own, and by the receiver.
  Instant answered() const { return answered_; }
  Instant arrived() const { return arrived_; }

 private:
  // Bytes that were written together.
  struct WrittenPiece {
    std::uint64_t end = 0;  // bytes of the pipe up to it
    Instant departs;
    Duration extra{};  // it was lost, and sent again
    Instant first;     // first time that it was sent
    Instant sent;      // and the time that it got through
    Instant arrives;
    Instant answered;
  };
  void plan(std::size_t place);
  Duration patience() const;

  int from_;
  const PathTerms& path_;
  const Outages& outages_;
  std::vector<std::byte> bytes_;  // those before read_ have been read
  std::size_t read_ = 0;
  std::uint64_t begin_ = 0;  // number of the first byte of bytes_
  std::vector<WrittenPiece> pieces_;
  std::size_t arrived_pieces_ = 0;
  std::size_t answered_pieces_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t arrived_bytes_ = 0;
  std::uint64_t answered_bytes_ = 0;
  Instant arrived_;
  Instant answered_;
  bool cut_ = false;
};

}  // namespace holdfast::sim

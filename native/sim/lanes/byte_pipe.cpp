#include "sim/lanes/byte_pipe.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace holdfast::sim {
namespace {

// Of a kernel: the least time until it sends again, the most, and how often it does.
constexpr Duration kLeastPatience = std::chrono::milliseconds(200);
constexpr Duration kMostPatience = std::chrono::seconds(120);
constexpr int kMostAttempts = 15;
// Bytes that have been read and are kept until they are moved away together.
constexpr std::size_t kMostRead = 64 * 1024;

}  // namespace

Duration BytePipe::patience() const { return kLeastPatience + 2 * path_.latency; }

// When the piece is sent, arrives, and is answered, by the outages that are known.
void BytePipe::plan(std::size_t place) {
  WrittenPiece& piece = pieces_[place];
  const WrittenPiece before = place > 0 ? pieces_[place - 1] : WrittenPiece{};
  piece.first = std::max(piece.departs, before.sent);
  piece.sent = piece.arrives = piece.answered = kNever;
  if (cut_ || (place > 0 && before.sent == kNever)) return;
  Instant at = piece.first;
  Duration wait = patience();
  for (int i = 0; i < kMostAttempts; ++i) {
    const Instant there = at + path_.latency + piece.extra;
    const bool arrives = !outages_.loses(from_, path_.connection, there);
    if (arrives && piece.sent == kNever) {
      piece.sent = at;
      piece.arrives = std::max(there, before.arrives);
    }
    const Instant back = there + path_.latency;
    if (arrives && !outages_.loses(1 - from_, path_.connection, back)) {
      piece.answered = std::max({back, piece.arrives + path_.latency, before.answered});
      return;
    }
    at = at + wait;
    wait = std::min(2 * wait, kMostPatience);
  }
}

std::size_t BytePipe::write(Instant now, std::span<const iovec> parts, Random& random) {
  settle(now);
  const std::uint64_t kept = written_ - answered_bytes_;
  std::size_t room = kept >= path_.room ? 0 : path_.room - static_cast<std::size_t>(kept);
  if (room > 1 && random.chance(10)) room = 1 + random.below(room);  // any piece of a frame
  std::size_t count = 0;
  for (const iovec& part : parts) {
    const std::size_t some = std::min(part.iov_len, room - count);
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    if (!cut_) bytes_.insert(bytes_.end(), from, from + some);
    count += some;
  }
  if (count == 0) return 0;
  written_ += count;
  WrittenPiece piece;
  piece.end = written_;
  const Instant free = pieces_.empty() ? now : std::max(now, pieces_.back().departs);
  piece.departs =
      free +
      Duration(1 + static_cast<std::int64_t>(static_cast<double>(count) / path_.bytes_per_ns));
  if (random.chance(path_.loss_percent)) piece.extra = 2 * path_.latency;
  pieces_.push_back(piece);
  plan(pieces_.size() - 1);
  return count;
}

void BytePipe::settle(Instant now) {
  for (; arrived_pieces_ < pieces_.size() && pieces_[arrived_pieces_].arrives <= now;
       ++arrived_pieces_) {
    arrived_bytes_ = pieces_[arrived_pieces_].end;
    arrived_ = pieces_[arrived_pieces_].arrives;
  }
  for (; answered_pieces_ < pieces_.size() && pieces_[answered_pieces_].answered <= now;
       ++answered_pieces_) {
    answered_bytes_ = pieces_[answered_pieces_].end;
    answered_ = pieces_[answered_pieces_].answered;
  }
  // One is kept: what comes later goes by it.
  const std::size_t gone = std::min(arrived_pieces_, answered_pieces_);
  if (gone < 64) return;
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(gone - 1));
  arrived_pieces_ -= gone - 1;
  answered_pieces_ -= gone - 1;
}

bool BytePipe::has_arrived(Instant now) const {
  if (std::min<std::uint64_t>(arrived_bytes_, begin_ + bytes_.size()) > begin_ + read_) return true;
  return arrived_pieces_ < pieces_.size() && pieces_[arrived_pieces_].arrives <= now &&
         read_ < bytes_.size();
}

std::size_t BytePipe::read(Instant now, std::span<const iovec> parts) {
  settle(now);
  const std::uint64_t here = std::min<std::uint64_t>(arrived_bytes_, begin_ + bytes_.size());
  std::size_t count = 0;
  for (const iovec& part : parts) {
    const auto left = static_cast<std::size_t>(here - begin_ - read_);
    const std::size_t some = std::min(part.iov_len, left);
    if (some > 0) std::memcpy(part.iov_base, bytes_.data() + read_, some);
    read_ += some;
    count += some;
  }
  if (read_ == bytes_.size() || read_ > kMostRead) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(read_));
    begin_ += read_;
    read_ = 0;
  }
  return count;
}

Instant BytePipe::next_arrival() const {
  return arrived_pieces_ < pieces_.size() ? pieces_[arrived_pieces_].arrives : kNever;
}

Instant BytePipe::next_answer() const {
  return answered_pieces_ < pieces_.size() ? pieces_[answered_pieces_].answered : kNever;
}

void BytePipe::replan(Instant now) {
  settle(now);
  for (std::size_t i = std::min(arrived_pieces_, answered_pieces_); i < pieces_.size(); ++i) {
    const Instant arrived = pieces_[i].arrives;
    const Instant sent = pieces_[i].sent;
    plan(i);
    if (i >= arrived_pieces_) continue;
    pieces_[i].arrives = arrived;  // it has come, whatever is known of it
    pieces_[i].sent = sent;
  }
}

void BytePipe::cut(std::size_t kept) {
  if (cut_) return;
  bytes_.resize(read_ + std::min(kept, unread()));
  for (std::size_t i = answered_pieces_; i < pieces_.size(); ++i) pieces_[i].answered = kNever;
  cut_ = true;
}

Instant BytePipe::end_arrival(Instant now) const {
  const Instant last = pieces_.empty() ? Instant{} : pieces_.back().arrives;
  if (last == kNever) return kNever;
  Instant at = now;
  Duration wait = patience();
  for (int i = 0; i < kMostAttempts; ++i) {
    const Instant there = at + path_.latency;
    if (!outages_.loses(from_, path_.connection, there)) return std::max(there, last);
    at = at + wait;
    wait = 2 * wait;
  }
  return kNever;
}

std::uint8_t BytePipe::timeouts(Instant now) const {
  if (answered_pieces_ == pieces_.size()) return 0;
  std::uint8_t count = 0;
  Instant at = pieces_[answered_pieces_].first;
  if (at == kNever) at = pieces_[answered_pieces_].departs;
  for (Duration wait = patience(); at + wait <= now && count < kMostAttempts; ++count) {
    at = at + wait;
    wait = std::min(2 * wait, kMostPatience);
  }
  return count;
}

}  // namespace holdfast::sim

#include "device/scratch.h"

#include <algorithm>
#include <string>

namespace holdfast::device {
namespace {

// The driver's granularity of memory that processes share.
constexpr std::uint64_t kScratchStep = 2ULL << 20;
// An idle piece may be this many times as large as the request.
constexpr std::uint64_t kScratchSlack = 4;

}  // namespace

Scratch::~Scratch() {
  for (const Piece& piece : idle_) device_.driver().mem_free(piece.at);
  for (const LentScratch& lent : lent_) {
    for (const CuEvent event : lent.events) device_.give_event(event);
    device_.driver().mem_free(lent.piece.at);
  }
}

Result<Scratch::Piece> Scratch::take(std::uint64_t bytes) {
  const std::uint64_t wanted =
      (std::max<std::uint64_t>(bytes, 1) + kScratchStep - 1) / kScratchStep * kScratchStep;
  std::vector<Piece> small;
  {
    const std::lock_guard lock(mutex_);
    take_back();
    const auto fits = std::find_if(idle_.begin(), idle_.end(), [&](const Piece& piece) {
      return piece.bytes >= wanted && piece.bytes / kScratchSlack <= wanted;
    });
    if (fits != idle_.end()) {
      const Piece piece = *fits;
      idle_.erase(fits);
      return piece;
    }
    small.swap(idle_);
    for (const Piece& piece : small) bytes_ -= piece.bytes;
  }
  for (const Piece& piece : small) device_.driver().mem_free(piece.at);
  Piece piece{0, wanted};
  TRY(device_.check(device_.driver().mem_alloc(&piece.at, wanted),
                    "allocating " + std::to_string(wanted) + " bytes of device memory"));
  const std::lock_guard lock(mutex_);
  bytes_ += wanted;
  return piece;
}

// The caller holds mutex_.
void Scratch::take_back() {
  std::erase_if(lent_, [this](const LentScratch& lent) {
    const bool pending = std::any_of(lent.events.begin(), lent.events.end(), [this](CuEvent event) {
      return device_.driver().event_query(event) == Cu::kNotReady;
    });
    if (pending) return false;
    for (const CuEvent event : lent.events) device_.give_event(event);
    idle_.push_back(lent.piece);
    return true;
  });
}

void Scratch::give(const Piece& piece) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(piece);
}

void Scratch::give_after(const Piece& piece, std::vector<CuEvent> events) {
  const std::lock_guard lock(mutex_);
  lent_.push_back({piece, std::move(events)});
}

std::uint64_t Scratch::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace holdfast::device

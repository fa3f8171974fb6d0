#include "comm/transport/trunk/sent_frames.h"

#include <string>
#include <utility>

#include "base/planted.h"

namespace holdfast::comm {
namespace {

constexpr std::size_t kSpareFrames = 16;

}  // namespace

void SentFrames::add(const OutFrame& frame) {
  std::shared_ptr<SentFrame> kept;
  // A lane may still be writing a frame that another one has delivered.
  while (!spare_.empty() && !kept) {
    if (spare_.back().use_count() == 1) kept = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!kept) kept = std::make_shared<SentFrame>();
  kept->number = first_ + kept_.size();
  kept->bytes.resize(kFrameHeaderBytes);
  encode_header(frame.header,
                std::span<std::byte, kFrameHeaderBytes>(kept->bytes.data(), kFrameHeaderBytes));
  kept->bytes.insert(kept->bytes.end(), frame.payload.begin(), frame.payload.end());
  bytes_ += kept->bytes.size();
  waiting_.insert(kept->number);
  kept_.push_back({std::move(kept), kNoLane});
}

std::shared_ptr<const SentFrame> SentFrames::take(LaneId lane) {
  if (waiting_.empty()) return nullptr;
  KeptFrame& kept = kept_[*waiting_.begin() - first_];
  waiting_.erase(waiting_.begin());
  kept.lane = lane;
  return kept.frame;
}

Status SentFrames::confirm(std::uint64_t seen) {
  if (seen > first_ + kept_.size()) {
    return {Code::kProtocolError, "broken peer: it has seen frame " + std::to_string(seen - 1) +
                                      ", and " + std::to_string(first_ + kept_.size()) +
                                      " were sent"};
  }
  for (; first_ < seen; ++first_) {
    const std::uint64_t size = kept_.front().frame->bytes.size();
    bytes_ -= size;
    confirmed_bytes_ += size;
    waiting_.erase(first_);
    if (spare_.size() < kSpareFrames) spare_.push_back(std::move(kept_.front().frame));
    kept_.pop_front();
  }
  return Status::ok();
}

std::uint64_t SentFrames::give_back(LaneId lane) {
  std::uint64_t bytes = 0;
  std::uint64_t last = 0;
  for (KeptFrame& kept : kept_) {
    if (kept.lane != lane) continue;
    kept.lane = kNoLane;
    bytes += kept.frame->bytes.size();
    waiting_.insert(kept.frame->number);
    last = kept.frame->number;
  }
  if (is_planted(Planted::kSkipReplayed) && bytes > 0) waiting_.erase(last);
  return bytes;
}

}  // namespace holdfast::comm

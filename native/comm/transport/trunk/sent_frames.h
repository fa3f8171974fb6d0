// Sent frames: the frames of one stream of a trunk that the other side has not confirmed. They are
// kept, so that they can be sent again over another lane when theirs is lost.
//
// Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "comm/transport/controls.h"
#include "comm/transport/trunk/lane_stream.h"

namespace holdfast::comm {

struct SentFrame {
  std::uint64_t number = 0;
  std::vector<std::byte> bytes;  // header and payload
};

class SentFrames {
 public:
  // Copies the frame, which then waits for a lane.
  void add(const OutFrame& frame);
  // Gives the lane the first frame that waits; null: none does.
  std::shared_ptr<const SentFrame> take(LaneId lane);
  // The other side has all frames below `seen`. kProtocolError: they were not all sent.
  Status confirm(std::uint64_t seen);
  // What the lane was given and has not been confirmed waits for another lane: so many bytes.
  std::uint64_t give_back(LaneId lane);

  // All frames with lower numbers have been confirmed.
  std::uint64_t first_kept() const { return first_; }
  // Whether the frame has been sent and not confirmed.
  bool is_kept(std::uint64_t number) const { return number >= first_; }
  bool has_waiting() const { return !waiting_.empty(); }
  // Of the frames that have not been confirmed.
  std::size_t frames() const { return kept_.size(); }
  std::uint64_t bytes() const { return bytes_; }
  // Of all frames that have been confirmed.
  std::uint64_t confirmed_bytes() const { return confirmed_bytes_; }

 private:
  struct KeptFrame {
    std::shared_ptr<SentFrame> frame;
    LaneId lane = kNoLane;
  };
  std::deque<KeptFrame> kept_;  // in the order of their numbers, without a gap
  std::uint64_t first_ = 0;     // number of the first of them
  std::set<std::uint64_t> waiting_;
  std::uint64_t bytes_ = 0;
  std::uint64_t confirmed_bytes_ = 0;
  std::vector<std::shared_ptr<SentFrame>> spare_;
};

}  // namespace holdfast::comm

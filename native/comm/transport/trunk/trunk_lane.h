// Lane: one connection of a trunk. It moves headers and frames, and knows neither their order nor
// what becomes of them when it is lost.
//
// Thread: only the holder of the runtime.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/transport/frame_order.h"
#include "comm/transport/trunk/lane_header.h"
#include "comm/transport/trunk/lane_stream.h"
#include "comm/transport/trunk/sent_frames.h"
#include "comm/transport/trunk/trunk_meter.h"

namespace holdfast::comm {

class TrunkLane {
 public:
  // What came over a lane: a header, and the frame after it if there is one.
  struct LaneArrival {
    LaneHeader lane;
    FrameHeader frame;
    FrameBuffer payload;  // of frame.payload_bytes
  };

  // `bulk`: whether it is meant for that.
  TrunkLane(LaneId id, std::unique_ptr<LaneStream> stream, bool bulk);

  LaneId id() const { return id_; }
  const LaneStream& stream() const { return *stream_; }
  // The place among a trunk's lanes: those for what is not bulk, those for bulk, those that have
  // stalled. A lane keeps to what it was made for, as far as there are enough: its congestion
  // control has found out what it may send.
  int order() const { return is_stalled() ? 2 : bulk_ ? 1 : 0; }
  bool is_for_bulk() const { return bulk_; }
  bool is_relayed() const { return stream_->is_relayed(); }
  // What the kernel knows of the connection: asks it.
  void look() { stream_->look(path_); }
  const TcpPath& path() const { return path_; }
  // Whether what was sent has been without an answer for so long that the kernel has sent it again
  // by its timer.
  bool is_stalled() const { return path_.timeouts > 0; }
  void hang_up();
  LaneControl control() const { return control_; }
  std::string_view control_name() const { return stream_->control_name(); }
  // Where the system does not let this process have it, the lane keeps the system's.
  void set_control(LaneControl control);
  // Bytes a second at most; 0: no bound.
  void set_pace(std::uint64_t bytes_per_s);

  // Not ok: the connection has ended, or what came is not what a peer sends.
  const Status& status() const { return status_; }
  LaneCut cut() const { return cut_; }  // after that: why it has
  void set_readable() { readable_ = true; }
  void set_writable() { blocked_ = false; }
  // Whether the other side has said anything over this lane.
  bool is_answered() const { return received_ > 0; }
  std::uint64_t received() const { return received_; }
  std::uint64_t sent() const { return sent_; }

  // Reads once. Arrivals that are whole are taken by take().
  bool fill();
  std::optional<LaneArrival> take(FrameOrder& rooms);
  bool is_readable() const { return (readable_ || write_error_ != 0) && status_.is_ok(); }

  // Whether a frame that is queued now goes out now, or waits in the kernel behind little.
  bool takes_more() const;
  bool is_blocked() const { return blocked_; }
  void queue(const LaneHeader& header, std::shared_ptr<const SentFrame> frame);
  bool has_queued() const { return next_out_ < out_.size() || stream_->holds(); }
  // Writes what is queued, as far as the socket takes it; whether anything went.
  bool flush();

 private:
  struct OutgoingFrame {
    std::array<std::byte, kLaneHeaderBytes> header;
    std::shared_ptr<const SentFrame> frame;  // null: none follows the header
    std::size_t size() const { return kLaneHeaderBytes + (frame ? frame->bytes.size() : 0); }
  };
  bool flush_stream();
  void on_written(std::size_t bytes);
  bool on_received(ssize_t count, std::size_t asked);
  void on_write_error();
  void fail(Status why, LaneCut cut = LaneCut::kError) {
    if (!status_.is_ok()) return;
    status_ = std::move(why);
    cut_ = cut;
  }

  const LaneId id_;
  const bool bulk_;
  std::unique_ptr<LaneStream> stream_;
  Status status_;
  LaneCut cut_ = LaneCut::kError;
  TcpPath path_;
  LaneControl control_ = LaneControl::kSystem;
  std::uint64_t pace_ = 0;
  bool readable_ = true;
  bool blocked_ = false;
  int write_error_ = 0;  // errno of a send that failed
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;

  std::vector<OutgoingFrame> out_;
  std::size_t next_out_ = 0;  // the first that has not gone
  std::size_t written_ = 0;   // bytes of it that have

  std::vector<std::byte> in_;  // bytes read and not yet taken: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<LaneArrival> coming_;  // whose payload has not come whole
  std::size_t come_ = 0;               // bytes of it
};

// Tells how many lanes a trunk has, and by which congestion controls they carry bulk: see
// first_bulk().
void show_lanes(std::span<const std::unique_ptr<TrunkLane>> lanes, TrunkMeter& meter);

}  // namespace holdfast::comm

#include "comm/transport/trunk/trunk_lane.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/copy.h"
#include "comm/transport/trunk/trunk_terms.h"

namespace holdfast::comm {
namespace {

// Bytes that are read together with a payload's end, so that small frames need few calls.
constexpr std::size_t kLaneReadAhead = 8192;
// Frames and bytes that are gathered for one call, and wait in this lane while others are idle.
constexpr std::size_t kMostGathered = 16;
constexpr std::size_t kGatheredBytes = 64 * 1024;

}  // namespace

TrunkLane::TrunkLane(LaneId id, std::unique_ptr<LaneStream> stream, bool bulk)
    : id_(id), bulk_(bulk), stream_(std::move(stream)), in_(kLaneReadAhead) {}

void TrunkLane::set_control(LaneControl control) {
  if (stream_->set_control(control)) control_ = control;
}

void TrunkLane::set_pace(std::uint64_t bytes_per_s) {
  if (bytes_per_s != pace_) stream_->set_pace(bytes_per_s);
  pace_ = bytes_per_s;
}

void TrunkLane::hang_up() {
  stream_->hang_up();
  readable_ = true;
}

bool TrunkLane::on_received(ssize_t count, std::size_t asked) {
  if (count > 0) {
    readable_ = static_cast<std::size_t>(count) == asked || stream_->receives_in_parts();
    received_ += static_cast<std::uint64_t>(count);
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    readable_ = errno == EINTR;
    return false;
  }
  const LaneCut cut = lane_cut_of(count == 0 ? 0 : errno);
  if (count == 0) {
    fail({Code::kPeerLost, "connection closed by the peer"}, cut);
  } else if (cut == LaneCut::kAltered) {
    fail({Code::kPeerLost, "what came over the connection is not what was sent"}, cut);
  } else {
    fail({Code::kPeerLost, std::string("receive: ") + std::strerror(errno)}, cut);
  }
  return false;
}

// Reads the rest of a payload straight to its place, and what follows it into the buffer.
bool TrunkLane::fill() {
  if (!is_readable()) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t left = coming_ ? coming_->frame.payload_bytes - come_ : 0;
  const bool direct = left > 0 && end_ == 0;
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  if (direct) parts[count++] = {coming_->payload.memory.get() + come_, left};
  parts[count++] = {in_.data() + end_, in_.size() - end_};
  const std::size_t asked = (direct ? left : 0) + in_.size() - end_;
  const ssize_t got = stream_->receive(std::span(parts).first(count));
  if (!on_received(got, asked)) {
    // What the peer sent before it closed has been read.
    if (write_error_ != 0) {
      fail({Code::kPeerLost, std::string("send: ") + std::strerror(write_error_)},
           lane_cut_of(write_error_));
    }
    return false;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t placed = direct ? std::min(bytes, left) : 0;
  come_ += placed;
  end_ += bytes - placed;
  return true;
}

std::optional<TrunkLane::LaneArrival> TrunkLane::take(FrameOrder& rooms) {
  if (!coming_) {
    const auto bytes = std::span<const std::byte>(in_).subspan(begin_, end_ - begin_);
    if (bytes.size() < kLaneHeaderBytes) return std::nullopt;
    auto lane = parse_lane_header(bytes.first<kLaneHeaderBytes>());
    if (!lane.is_ok()) return fail(lane.status()), std::nullopt;
    if (!lane.value().stream) {
      begin_ += kLaneHeaderBytes;
      return LaneArrival{lane.value(), {}, {}};
    }
    if (bytes.size() < kLaneHeaderBytes + kFrameHeaderBytes) return std::nullopt;
    auto frame = parse_header(bytes.subspan(kLaneHeaderBytes).first<kFrameHeaderBytes>());
    if (!frame.is_ok()) return fail(frame.status()), std::nullopt;
    begin_ += kLaneHeaderBytes + kFrameHeaderBytes;
    coming_.emplace(
        LaneArrival{lane.value(), frame.value(), rooms.room(frame.value().payload_bytes)});
    come_ = 0;
  }
  const std::size_t left = coming_->frame.payload_bytes - come_;
  const std::size_t here = std::min(left, end_ - begin_);
  if (here > 0) copy_bytes(coming_->payload.memory.get() + come_, in_.data() + begin_, here);
  come_ += here;
  begin_ += here;
  if (here < left) return std::nullopt;
  return std::exchange(coming_, std::nullopt);
}

bool TrunkLane::takes_more() const {
  if (blocked_ || !status_.is_ok()) return false;
  std::size_t bytes = 0;
  for (std::size_t i = next_out_; i < out_.size(); ++i) bytes += out_[i].size();
  return out_.size() - next_out_ < kMostGathered && bytes < kGatheredBytes;
}

void TrunkLane::queue(const LaneHeader& header, std::shared_ptr<const SentFrame> frame) {
  OutgoingFrame& out = out_.emplace_back();
  encode_lane_header(header, out.header);
  out.frame = std::move(frame);
}

bool TrunkLane::flush_stream() {
  if (stream_->flush()) return true;
  on_write_error();
  return false;
}

void TrunkLane::on_write_error() {
  blocked_ = true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) write_error_ = errno;
}

bool TrunkLane::flush() {
  if (!status_.is_ok() || blocked_) return false;
  if (stream_->holds() && !flush_stream()) return false;
  bool moved = false;
  while (next_out_ < out_.size()) {
    std::array<iovec, 2 * kMostGathered> parts;
    std::size_t count = 0;
    std::size_t gone = written_;
    for (std::size_t i = next_out_; i < out_.size() && count + 2 <= parts.size(); ++i) {
      OutgoingFrame& out = out_[i];
      if (gone < kLaneHeaderBytes) {
        parts[count++] = {out.header.data() + gone, kLaneHeaderBytes - gone};
      }
      const std::size_t at = gone < kLaneHeaderBytes ? 0 : gone - kLaneHeaderBytes;
      if (out.frame) {
        // A stream does not write through the vector; iovec has no const.
        auto* rest = const_cast<std::byte*>(out.frame->bytes.data()) + at;
        parts[count++] = {rest, out.frame->bytes.size() - at};
      }
      gone = 0;
    }
    const ssize_t sent = stream_->send(std::span(parts).first(count));
    if (sent < 0) {
      if (errno == EINTR) continue;
      on_write_error();
      return moved;
    }
    moved = true;
    on_written(static_cast<std::size_t>(sent));
    if (stream_->holds() && !flush_stream()) return moved;
  }
  return moved;
}

void TrunkLane::on_written(std::size_t bytes) {
  sent_ += bytes;
  written_ += bytes;
  while (next_out_ < out_.size() && written_ >= out_[next_out_].size()) {
    written_ -= out_[next_out_].size();
    out_[next_out_++].frame.reset();
  }
  if (next_out_ < out_.size()) return;
  out_.clear();
  next_out_ = 0;
}

void show_lanes(std::span<const std::unique_ptr<TrunkLane>> lanes, TrunkMeter& meter) {
  meter.lanes.set(static_cast<std::int64_t>(lanes.size()));
  std::int64_t controls = 0;
  for (const auto& lane : lanes.subspan(first_bulk(lanes.size()))) {
    const std::string_view name = lane->control_name();
    if (!name.empty()) controls |= std::int64_t{1} << tcp_control_index(name);
  }
  if (controls != 0) meter.controls.set(controls);
}

}  // namespace holdfast::comm

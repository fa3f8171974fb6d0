// Link: the transport port. One link joins this process to one peer. Its Session decides what goes
// over it, and the pipe that implements pump() decides how bytes get across.
//
// Thread: only the holder of the runtime. No call blocks.
#pragma once

#include <string_view>

#include "base/result.h"
#include "comm/transport/link_meter.h"
#include "comm/transport/session.h"

namespace holdfast::comm {

class Link {
 public:
  virtual ~Link() = default;

  Session& session() { return session_; }
  const Session& session() const { return session_; }

  virtual std::string_view transport() const = 0;  // name in the catalogue, or "inproc"
  // Moves all that can be moved now in both directions; whether anything moved. After a failure it
  // moves nothing.
  virtual bool pump() = 0;
  // ok, or the reason why the link cannot be used any more (the peer died, broke the protocol,
  // closed).
  const Status& status() const { return status_; }
  // After a failure: whether it came from the other side. It does not tell whether the peer's
  // process or something between closed the connection.
  virtual bool closed_by_peer() const { return false; }
  // Bytes received so far, if the link counts them.
  virtual std::uint64_t received() const { return 0; }

  // Counts the link's traffic in `meter` from now on; `meter` outlives the link. What is known of
  // the path goes with it.
  void set_meter(LinkMeter* meter) {
    const auto pass_on = [](const metrics::Gauge& from, metrics::Gauge& to) {
      if (to.value() == 0) to.set(from.value());
    };
    pass_on(meter_->round_trip_ns, meter->round_trip_ns);
    pass_on(meter_->least_round_trip_ns, meter->least_round_trip_ns);
    pass_on(meter_->bytes_per_s, meter->bytes_per_s);
    pass_on(meter_->relayed, meter->relayed);
    leave_meter();
    meter_ = meter;
  }
  // Whether the link goes through a relay, for its meter.
  void show_relayed(bool relayed) { meter_->relayed.set(relayed ? 1 : 0); }
  void count_way_out_of_relay() { meter_->went_direct.add(1); }
  // What has been measured of the path so far; zeros where nothing is measured.
  const LinkMeter& measured() const { return *meter_; }

  // Ends a post early. Afterwards neither the session nor the pipe refers to the post or to its
  // memory.
  void cancel(SendPost& post) {
    release(post);
    session_.cancel(post);
  }
  void cancel(RecvPost& post) { session_.cancel(post); }

 protected:
  // The pipe may hold a half-written frame of this post: it must let go of the post's memory.
  virtual void release(const SendPost& post) = 0;
  LinkMeter* meter() const { return meter_; }
  void count_sent(std::uint64_t bytes) { meter_->sent.add(bytes); }
  void count_received(std::uint64_t bytes) { meter_->received.add(bytes); }
  void fail(Status why) {
    if (status_.is_ok()) status_ = std::move(why);
  }
  void recover() { status_ = Status::ok(); }
  // What it says of the present is no longer so.
  void leave_meter() {
    meter_->relayed.set(0);
    meter_->trunk.end();
  }

 private:
  LinkMeter own_meter_;  // until another is set
  LinkMeter* meter_ = &own_meter_;
  Session session_;
  Status status_;
};

}  // namespace holdfast::comm

// Trunk link: a link that outlives its connections. It has up to sixteen of them, its lanes. Each
// frame of the session is numbered, copied and kept until the other side has confirmed it, goes
// over whichever lane takes it, and goes again over another one when its lane is lost; the receiver
// puts frames in order. So a session above a trunk never learns that a connection broke: as long as
// no lane is left, its frames wait.
//
// The link does not connect: it says what lanes it wants, and the runtime calls the peer.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0168-a-link-outlives-its-connections.md
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "comm/transport/stream_link.h"
#include "comm/transport/trunk/control_trial.h"
#include "comm/transport/trunk/cut_log.h"
#include "comm/transport/trunk/lane_growth.h"
#include "comm/transport/trunk/path_pace.h"
#include "comm/transport/trunk/trunk_lane.h"
#include "comm/transport/trunk/trunk_terms.h"

namespace holdfast::comm {

// What a stream keeps at most before it takes no more frames: bytes, and frames, of which a
// receiver keeps kMostAhead.
inline constexpr std::uint64_t kMostControls = 28U << 20;
inline constexpr std::size_t kMostUnconfirmed = kMostAhead - 64;

// Bytes of bulk that may always be unconfirmed, and at most; in between it is twice what the path
// holds. The receiver keeps no more than kMostBytesAhead.
inline constexpr std::uint64_t kLeastWindow = 1U << 20;
inline constexpr std::uint64_t kMostWindow = 24U << 20;

class TrunkLink final : public StreamLink {
 public:
  TrunkLink(Connection first, const TrunkTerms& terms);
  // Over whatever streams and watches there are.
  TrunkLink(std::unique_ptr<LaneStream> first, const TrunkTerms& terms,
            std::unique_ptr<LaneWatch> watch);
  ~TrunkLink() override = default;
  TrunkLink(const TrunkLink&) = delete;
  TrunkLink& operator=(const TrunkLink&) = delete;

  std::string_view transport() const override { return "tcp"; }
  bool pump() override;

  // An epoll descriptor that has all lanes.
  int fd() const override { return watch_->fd(); }
  void sever(Status why) override;
  void renew(Connection connection) override;
  void renew(std::unique_ptr<LaneStream> stream);
  void hang_up() override;
  void set_readable() override { poll_ = true; }
  void set_writable() override { poll_ = true; }
  bool awaits() const override { return session().awaits(); }
  bool wants_to_write() override;
  bool closed_by_peer() const override { return closed_by_peer_; }
  std::uint64_t received() const override { return received_; }
  void look_at_path() override;
  TrunkLink* trunk() override { return this; }

  const TrunkTerms& terms() const { return terms_; }
  // Of the next renew(): the two ends have greeted anew.
  void set_terms(const TrunkTerms& terms) { terms_ = terms; }
  // A further connection to the peer, which has taken it into its trunk as well. Where it is a
  // direct one, those that go through a relay end.
  void join(Connection connection);
  void join(std::unique_ptr<LaneStream> stream);
  // Ends lanes that are more than was agreed on, and those through a relay beside a direct one,
  // when none has come for so long that all calls have been answered. One of the two sides does
  // this, that which called first: if each gave up another lane, none might be left.
  void trim(Instant now);
  // Asks the kernel about the lanes, and finds out how many are worth having; to be called every
  // kLookPause while the trunk is busy(), and otherwise as often as anything is.
  void look(Instant now);
  bool busy() const { return unconfirmed() > 0 || is_down(); }

  // No lane is left, and the link still stands.
  bool is_down() const { return lanes_.empty() && status().is_ok(); }
  // Whether there is no direct lane.
  bool is_relayed() const;
  // Nothing has come over any lane, or over one of them, for so long that it should be replaced.
  bool is_stalled() const;
  bool has_stalled() const;
  std::size_t lanes() const { return lanes_.size(); }
  // What has been sent and not confirmed.
  const SentFrames& kept(TrunkStream which) const {
    return streams_[static_cast<std::size_t>(which)].sent;
  }
  // How many there should be, as far as this side and the other one know.
  std::size_t wanted_lanes() const;
  Duration round_trip() const { return round_trip_; }  // the least that was seen; 0: not known

 protected:
  void release(const SendPost&) override {}  // frames are copied at once

 private:
  struct TrunkFrames {
    SentFrames sent;
    FrameOrder order{kMaxLanePayload};
    std::uint64_t awaited = 0;  // the first frame that was not confirmed at the last look
    Instant probes{};           // when it will have been so for long
  };
  TrunkFrames& stream(TrunkStream which) { return streams_[static_cast<std::size_t>(which)]; }
  const TrunkFrames& bulk() const { return streams_[static_cast<std::size_t>(TrunkStream::kBulk)]; }

  void poll_lanes();
  bool receive(TrunkLane& lane);
  void take(TrunkLane::LaneArrival arrival);
  void pull_controls();
  bool pull_bulk();
  std::size_t live_lanes() const;
  bool send(std::size_t place, std::size_t live);
  void feed(TrunkLane& lane, bool control, bool bulk);
  void confirm();
  LaneHeader header_now() const;
  // Queues a header without a frame, if the lane takes more.
  bool tell(TrunkLane& lane) const;
  void put(TrunkLane& lane, std::shared_ptr<const SentFrame> frame, TrunkStream which);
  void drop_lost();
  void drop_quietest();
  // `why`: nothing where it is no loss.
  void drop(std::size_t place, std::optional<LaneCut> why);
  void give_back(LaneId lane);
  void give_up_stalled();
  void probe(Instant now);
  void sort_lanes();
  bool has_left() const;
  std::size_t own_wanted() const;
  void try_controls(Instant now, bool busy);
  void keep_pace(Instant now, bool busy);
  void echo();
  std::uint64_t unconfirmed() const { return streams_[0].sent.bytes() + streams_[1].sent.bytes(); }
  void reset();

  TrunkTerms terms_;
  std::unique_ptr<LaneWatch> watch_;
  std::vector<LaneNews> news_;  // of the last poll
  bool poll_ = true;
  std::vector<std::unique_ptr<TrunkLane>> lanes_;  // see first_bulk()
  LaneId last_id_ = kNoLane;
  std::array<TrunkFrames, kTrunkStreams> streams_;
  LaneGrowth growth_;
  ControlTrial trial_;
  PathPace pace_;
  std::vector<std::shared_ptr<const SentFrame>> echoes_;  // see echo()
  std::uint64_t arrived_ = 0;     // bytes of all lanes that the other kernel has
  std::uint64_t sent_again_ = 0;  // by this kernel, likewise
  Duration bulk_round_trip_{};    // of the lanes that carry bulk, as it is now
  CutLog cuts_;
  std::uint64_t window_;  // of bulk that has not been confirmed
  bool waited_ = false;   // bulk waited for lanes or for the window since the last look
  // False: all lanes were lost, and frames wait until the other side has said what has come.
  bool resumed_ = true;
  std::uint8_t peer_wants_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t unsaid_bytes_ = 0;  // received, and not confirmed yet
  std::size_t unsaid_frames_ = 0;
  // The number of the frame by which the peer has said goodbye. It is heard when its turn comes:
  // what is missing before it may yet be sent again.
  std::optional<std::uint64_t> goodbye_;
  bool closed_by_peer_ = false;
  Duration round_trip_{};
  LaneId trimmed_id_ = kNoLane;  // the last lane when trim() was last called
  Instant trims_{};
};

// How often a busy trunk is looked at.
inline constexpr Duration kLookPause = std::chrono::milliseconds(25);

}  // namespace holdfast::comm

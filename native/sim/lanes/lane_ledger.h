// Lane ledger: what the two ends of a simulated trunk have sent each other, and whether it arrived
// once, in order, and as it was.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/transport/session.h"
#include "comm/transport/trunk/lane_header.h"
#include "sim/random.h"

namespace holdfast::sim {

class LaneLedger {
 public:
  // The end sends a frame of the stream over this trunk; its payload has so many bytes; a heartbeat
  // has none.
  void send(int end, comm::Session& session, std::uint64_t trunk, comm::TrunkStream stream,
            std::size_t bytes);
  void send_goodbye(int end, comm::Session& session);
  // Both ends are to have a message; the sender's is due now.
  void post(int end, comm::Session& sender, comm::Session& receiver, std::uint64_t trunk,
            std::size_t bytes);
  // The end has a new trunk: what it had sent and not delivered may be lost.
  void begin(int end, std::uint64_t trunk);
  // What has arrived at the end, whose trunk this is.
  void take(int end, comm::Session& session, std::uint64_t trunk);
  // Nothing may arrive at the end any more.
  void close(int end) { ends_.at(static_cast<std::size_t>(end)).closed = true; }

  // Whether all that the end sent over its last trunk has arrived, but for heartbeats.
  bool has_all_of(int end) const;
  bool has_messages() const { return !messages_.empty(); }
  bool has_goodbye_at(int end) const { return ends_.at(static_cast<std::size_t>(end)).told; }
  // Bytes of frames that the end has taken over this trunk, headers included.
  std::uint64_t taken(int end) const { return ends_.at(static_cast<std::size_t>(end)).bytes; }
  std::uint64_t frames() const { return frames_; }
  void wrong(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  const std::string& violation() const { return violation_; }

 private:
  struct LedgerEnd {
    std::uint64_t trunk = 0;
    std::array<std::uint64_t, comm::kTrunkStreams> sent{};
    std::array<std::uint64_t, comm::kTrunkStreams> due{};      // without the last heartbeats
    std::array<std::uint64_t, comm::kTrunkStreams> arrived{};  // at this end
    std::uint64_t bytes = 0;
    bool closed = false;
    bool told = false;  // the other end has said goodbye
  };
  struct LedgerMessage {
    int from = 0;
    std::uint64_t trunk = 0;
    std::vector<std::byte> bytes;
    std::vector<std::byte> room;
    comm::SendPost send;
    comm::RecvPost receive;
    bool touched = false;
    bool is_whole = false;  // it has arrived, and was compared
  };
  void take(int end, const comm::ControlFrame& frame, std::uint64_t trunk);

  std::array<LedgerEnd, 2> ends_;
  std::deque<LedgerMessage> messages_;
  std::uint64_t frames_ = 0;
  std::string violation_;
};

}  // namespace holdfast::sim

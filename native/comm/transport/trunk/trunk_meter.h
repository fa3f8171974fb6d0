// Trunk meter: what a trunk tells of itself. Its reader owns it; the trunk only writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/metrics/instruments.h"

namespace holdfast::comm {

// Why a trunk has lost a connection, as far as this side knows.
enum class LaneCut : std::uint8_t {
  kReset,    // either side's system, or something between, has reset it
  kClosed,   // the other side's system has closed it, and the peer has not said goodbye
  kTimeout,  // the system gave it up: for too long nothing was answered, or there was no way
  kStalled,  // it stood still, and a new one has its place
  kSurplus,  // a new one came where there were enough, and it was silent for longest
  kAltered,  // what came over it is not what was sealed
  kError     // the system says something else
};
inline constexpr std::size_t kLaneCutCount = 7;
std::string_view lane_cut_name(LaneCut cut);  // "reset", ...
// By what the system says of a connection: an errno, or 0 where it has ended in order.
LaneCut lane_cut_of(int error);

// Linux's congestion controls; the first one stands for all that are not listed.
inline constexpr std::array<std::string_view, 13> kTcpControls = {
    "other",    "bbr",   "cubic",    "reno", "dctcp", "htcp",    "vegas",
    "westwood", "hybla", "illinois", "bic",  "yeah",  "scalable"};
std::size_t tcp_control_index(std::string_view name);

struct TrunkMeter {
  metrics::Gauge exists;  // 1: the link is a trunk, or has been one
  metrics::Gauge stands;  // 1: it is one now
  metrics::Gauge lanes;
  metrics::Gauge controls;      // bits, by kTcpControls: those of the lanes that carry bulk
  metrics::Counter sent_again;  // bytes
  metrics::Counter resumed;     // how often the link went on after all lanes were lost
  std::array<metrics::Counter, kLaneCutCount> cuts;
  metrics::Gauge recent_cuts;    // of the last minute
  metrics::Gauge last_cut;       // LaneCut
  metrics::Gauge last_cut_ns;    // when, as an instant; 0: there was none
  metrics::Gauge down_since_ns;  // since when it has no lane, likewise; 0: it has one

  void end() {
    stands.set(0);
    recent_cuts.set(0);
  }
};

}  // namespace holdfast::comm

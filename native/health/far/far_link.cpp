#include "health/far/far_link.h"

#include <algorithm>
#include <tuple>

namespace holdfast::health {
namespace {

constexpr std::uint8_t kRelayedBit = 1;
constexpr std::uint8_t kDownBit = 2;

std::uint8_t small(std::int64_t value) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255));
}

std::int64_t age_of(std::int64_t instant_ns, Instant now) {
  return instant_ns == 0 ? -1 : std::max<std::int64_t>(0, now.since_origin.count() - instant_ns);
}

FarLink far_link_of(Rank peer, const comm::LinkMeter& meter, Instant now) {
  const comm::TrunkMeter& trunk = meter.trunk;
  FarLink link{peer};
  link.relayed = meter.relayed.value() != 0;
  link.bytes_per_s = static_cast<std::uint64_t>(meter.bytes_per_s.value());
  link.round_trip_ns = meter.round_trip_ns.value();
  link.lanes = 1;
  if (trunk.stands.value() == 0) return link;
  link.lanes = small(trunk.lanes.value());
  link.down = link.lanes == 0;
  link.controls = static_cast<std::uint32_t>(trunk.controls.value());
  link.sent_again = trunk.sent_again.value();
  for (const auto& cut : trunk.cuts) link.cuts += cut.value();
  link.resumed = trunk.resumed.value();
  link.recent_cuts = small(trunk.recent_cuts.value());
  link.last_cut = static_cast<comm::LaneCut>(trunk.last_cut.value());
  link.cut_ns = age_of(trunk.last_cut_ns.value(), now);
  link.down_ns = link.down ? age_of(trunk.down_since_ns.value(), now) : -1;
  return link;
}

}  // namespace

std::vector<FarLink> far_links_of(const Metrics& metrics, Instant now) {
  std::vector<std::pair<FarLink, std::uint64_t>> found;  // with its bytes
  for (std::size_t t = 0; t < comm::kTransportCount; ++t) {
    if (comm::transports()[t].make_stream == nullptr) continue;
    for (std::size_t p = 0; p <= Metrics::kPeers; ++p) {
      const comm::LinkMeter& meter = metrics.links[t][p];
      if (meter.trunk.stands.value() == 0 && meter.relayed.value() == 0) continue;
      const Rank peer = p == Metrics::kPeers ? kOtherPeers : Rank{static_cast<std::int32_t>(p)};
      found.emplace_back(far_link_of(peer, meter, now),
                         meter.sent.value() + meter.received.value());
    }
  }
  // A transport has a link to a peer; control channels are one transport's.
  const auto matters = [](const auto& a, const auto& b) {
    const auto key = [](const auto& link) {
      const auto age = static_cast<std::uint64_t>(link.first.cut_ns);  // none: the largest
      return std::tuple(!link.first.down, age, ~link.second);
    };
    return key(a) < key(b);
  };
  std::sort(found.begin(), found.end(), matters);
  found.resize(std::min(found.size(), kMostFarLinks));
  std::vector<FarLink> links;
  links.reserve(found.size());
  for (const auto& [link, bytes] : found) links.push_back(link);
  std::sort(links.begin(), links.end(),
            [](const FarLink& a, const FarLink& b) { return a.peer < b.peer; });
  return links;
}

void encode_far_link(Writer& w, const FarLink& link) {
  w.number(link.peer.value);
  w.number(static_cast<std::uint8_t>((link.relayed ? kRelayedBit : 0) |  //
                                     (link.down ? kDownBit : 0)));
  w.number(link.lanes);
  w.number(link.recent_cuts);
  w.number(static_cast<std::uint8_t>(link.last_cut));
  w.number(link.controls);
  for (const std::uint64_t n : {link.bytes_per_s, link.sent_again, link.cuts, link.resumed}) {
    w.number(n);
  }
  for (const std::int64_t n : {link.round_trip_ns, link.cut_ns, link.down_ns}) w.number(n);
}

bool parse_far_link(Reader& r, FarLink& link) {
  link.peer = {r.number<std::int32_t>()};
  const auto flags = r.number<std::uint8_t>();
  link.relayed = (flags & kRelayedBit) != 0;
  link.down = (flags & kDownBit) != 0;
  link.lanes = r.number<std::uint8_t>();
  link.recent_cuts = r.number<std::uint8_t>();
  const auto last = r.number<std::uint8_t>();
  link.last_cut = static_cast<comm::LaneCut>(last);
  link.controls = r.number<std::uint32_t>();
  for (auto* n : {&link.bytes_per_s, &link.sent_again, &link.cuts, &link.resumed}) {
    *n = r.number<std::uint64_t>();
  }
  for (auto* n : {&link.round_trip_ns, &link.cut_ns, &link.down_ns}) *n = r.number<std::int64_t>();
  return link.peer >= kOtherPeers && link.peer.value <= kHighestPeer &&
         flags <= (kRelayedBit | kDownBit) && last < comm::kLaneCutCount &&
         link.controls >> comm::kTcpControls.size() == 0 && link.round_trip_ns >= 0 &&
         link.cut_ns >= -1 && link.down_ns >= -1;
}

}  // namespace holdfast::health

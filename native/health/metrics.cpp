#include "health/metrics.h"

#include <utility>

#include "comm/transport/frame.h"
#include "health/families.h"

namespace holdfast::health {
namespace {

using metrics::Family;
using metrics::TextEncoder;

std::string peer_label(std::size_t index) {
  return index == Metrics::kPeers ? "other" : std::to_string(index);
}

std::string_view collective(std::size_t index) {
  return comm::collective_name(static_cast<comm::Collective>(index));
}

// Writes every cell that was ever counted; a cell at zero would be a useless series.
template <class Table>
void write_by_path(TextEncoder& out, const Family& family, const Table& table) {
  out.family(family);
  for (std::size_t c = 0; c < table.size(); ++c) {
    for (std::size_t p = 0; p < table[c].size(); ++p) {
      const std::uint64_t value = table[c][p].value();
      if (value == 0) continue;
      const auto path = comm::op_path_name(static_cast<comm::OpPath>(p));
      out.sample({{"collective", collective(c)}, {"path", path}}, value);
    }
  }
}

// Calls `write` for links of transports that carry control channels; their paths are measured.
template <class Write>
void each_measured(const Metrics& metrics, const Write& write) {
  for (std::size_t t = 0; t < comm::kTransportCount; ++t) {
    if (comm::transports()[t].make_stream == nullptr) continue;
    for (std::size_t p = 0; p <= Metrics::kPeers; ++p) {
      if (metrics.links[t][p].sent.value() > 0) write(peer_label(p), metrics.links[t][p]);
    }
  }
}

}  // namespace

void Metrics::write_ops(TextEncoder& out) const {
  write_by_path(out, family::kOps, ops);
  write_by_path(out, family::kOpBytes, op_bytes);
  out.family(family::kOpDuration);
  for (std::size_t c = 0; c < op_duration.size(); ++c) {
    if (op_duration[c].sum() == Duration::zero()) continue;
    out.histogram({{"collective", collective(c)}}, op_duration[c]);
  }
  out.family(family::kOpsFailed);
  for (std::size_t code = 1; code < ops_failed.size(); ++code) {
    out.sample({{"cause", code_name(static_cast<Code>(code))}}, ops_failed[code].value());
  }
  out.family(family::kQueueDepth);
  // Every op begins before it ends: read in this order, the difference is never negative.
  const std::uint64_t over = ended.value();
  const std::uint64_t all = begun.value();
  out.sample({}, all > over ? all - over : 0);
}

void Metrics::write_overlap(TextEncoder& out) const {
  const auto time = [](const metrics::Coverage& c) {
    return Duration(static_cast<std::int64_t>(c.total_ns()));
  };
  // Read in this order: exposed time was active before.
  const Duration waited = time(exposed);
  out.family(family::kActive);
  out.sample({}, time(active));
  out.family(family::kExposed);
  out.sample({}, waited);
}

void Metrics::write_codecs(TextEncoder& out) const {
  const auto each = [this](const auto& write) {
    for (const compress::CodecRow& row : compress::catalogue()) {
      const CodecMetrics& codec = codecs[static_cast<std::size_t>(row.spec.id)];
      if (codec.raw.value() > 0) write(row.spec.name, codec);
    }
  };
  out.family(family::kCodecRaw);
  each([&](auto name, const CodecMetrics& c) { out.sample({{"codec", name}}, c.raw.value()); });
  out.family(family::kCodecWire);
  each([&](auto name, const CodecMetrics& c) { out.sample({{"codec", name}}, c.wire.value()); });
  out.family(family::kCodecResidual);
  each([&](auto name, const CodecMetrics& c) {
    if (c.residual_norm.is_set()) out.sample({{"codec", name}}, c.residual_norm.value());
  });
}

void Metrics::write_calls(TextEncoder& out) const {
  out.family(family::kCalls);
  for (std::size_t number = 1; number < calls.size(); ++number) {
    const char* const name = callers.name_of(number);
    if (name != nullptr) out.sample({{"call", name}}, calls[number].value());
  }
  const auto each = [this, &out](const Family& family, const auto& count) {
    out.family(family);
    for (std::size_t p = 0; p <= kPeers; ++p) {
      const std::string peer = peer_label(p);
      for (const auto& [direction, traffic] :
           {std::pair("sent", &mail[p].sent), std::pair("received", &mail[p].received)}) {
        if (traffic->messages.value() == 0) continue;
        out.sample({{"peer", peer}, {"direction", direction}}, count(*traffic));
      }
    }
  };
  using MailTraffic = comm::MailMeter::MailTraffic;
  each(family::kMessages, [](const MailTraffic& traffic) { return traffic.messages.value(); });
  each(family::kMessageBytes, [](const MailTraffic& traffic) { return traffic.bytes.value(); });
}

void Metrics::write_peers(TextEncoder& out) const {
  out.family(family::kPeerWait);
  for (std::size_t p = 0; p <= kPeers; ++p) {
    const std::uint64_t waited = peer_wait_ns[p].value();
    if (waited == 0) continue;
    out.sample({{"peer", peer_label(p)}}, Duration(static_cast<std::int64_t>(waited)));
  }
}

void Metrics::write_links(TextEncoder& out) const {
  out.family(family::kLinkBytes);
  for (std::size_t t = 0; t < links.size(); ++t) {
    for (std::size_t p = 0; p <= kPeers; ++p) {
      const comm::LinkMeter& link = links[t][p];
      if (link.sent.value() + link.received.value() == 0) continue;
      const std::string peer = peer_label(p);
      const std::string_view name = comm::transports()[t].name;
      out.sample({{"peer", peer}, {"direction", "sent"}, {"transport", name}}, link.sent.value());
      out.sample({{"peer", peer}, {"direction", "received"}, {"transport", name}},
                 link.received.value());
    }
  }
  out.family(family::kLinkRtt);
  each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
    const std::int64_t rtt = link.round_trip_ns.value();
    if (rtt > 0) out.sample({{"peer", peer}}, Duration(rtt));
  });
  out.family(family::kLinkLeastRtt);
  each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
    const std::int64_t rtt = link.least_round_trip_ns.value();
    if (rtt > 0) out.sample({{"peer", peer}}, Duration(rtt));
  });
  out.family(family::kLinkRate);
  each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
    const std::int64_t rate = link.bytes_per_s.value();
    if (rate > 0) out.sample({{"peer", peer}}, static_cast<double>(rate));
  });
  out.family(family::kRetransmits);
  each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
    out.sample({{"peer", peer}}, link.retransmits.value());
  });
}

void Metrics::write_trunks(TextEncoder& out) const {
  const auto each_trunk = [&](const Family& family, const auto& write) {
    out.family(family);
    each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
      if (link.trunk.exists.value() != 0) write(peer, link);
    });
  };
  const auto each_standing = [&](const Family& family, const metrics::Gauge comm::TrunkMeter::*of) {
    each_trunk(family, [&](const std::string& peer, const comm::LinkMeter& link) {
      const bool stands = link.trunk.stands.value() != 0;
      if (stands) out.sample({{"peer", peer}}, static_cast<double>((link.trunk.*of).value()));
    });
  };
  each_standing(family::kLanes, &comm::TrunkMeter::lanes);
  each_trunk(family::kLinkControl, [&](const std::string& peer, const comm::LinkMeter& link) {
    for (std::size_t i = 0; i < comm::kTcpControls.size(); ++i) {
      const bool used = (link.trunk.controls.value() >> i & 1) != 0;
      if (!used || link.trunk.stands.value() == 0) continue;
      out.sample({{"peer", peer}, {"control", comm::kTcpControls[i]}}, std::uint64_t{1});
    }
  });
  each_trunk(family::kLinkCuts, [&](const std::string& peer, const comm::LinkMeter& link) {
    for (std::size_t i = 0; i < comm::kLaneCutCount; ++i) {
      const auto why = comm::lane_cut_name(static_cast<comm::LaneCut>(i));
      out.sample({{"peer", peer}, {"why", why}}, link.trunk.cuts[i].value());
    }
  });
  each_standing(family::kRecentCuts, &comm::TrunkMeter::recent_cuts);
  each_trunk(family::kResumed, [&](const std::string& peer, const comm::LinkMeter& link) {
    out.sample({{"peer", peer}}, link.trunk.resumed.value());
  });
  each_trunk(family::kSentAgain, [&](const std::string& peer, const comm::LinkMeter& link) {
    out.sample({{"peer", peer}}, link.trunk.sent_again.value());
  });
}

void Metrics::write_relayed(TextEncoder& out) const {
  const auto each = [&](const Family& family, const auto& value) {
    out.family(family);
    each_measured(*this, [&](const std::string& peer, const comm::LinkMeter& link) {
      const bool had_relay = link.relayed.value() != 0 || link.went_direct.value() > 0;
      if (!had_relay && link.trunk.stands.value() == 0) return;
      out.sample({{"peer", peer}}, std::uint64_t{value(link)});
    });
  };
  each(family::kRelayed,
       [](const auto& link) { return static_cast<std::uint64_t>(link.relayed.value()); });
  each(family::kWentDirect, [](const auto& link) { return link.went_direct.value(); });
}

void Metrics::write_views(TextEncoder& out) const {
  out.family(family::kEpoch);
  out.sample({}, static_cast<double>(epoch.value()));
  out.family(family::kMembers);
  out.sample({}, static_cast<double>(members.value()));
  out.family(family::kRank);
  out.sample({}, static_cast<double>(rank.value()));
  out.family(family::kLosses);
  for (std::size_t c = 0; c < losses.size(); ++c) {
    out.sample({{"cause", comm::loss_cause_name(static_cast<comm::LossCause>(c))}},
               losses[c].value());
  }
  out.family(family::kRepairs);
  out.sample({}, repairs.value());
  out.family(family::kJoins);
  out.sample({}, joins.value());
  out.family(family::kRecovery);
  out.histogram({}, recovery);
}

void write_build(TextEncoder& out) {
  out.family(family::kBuild);
  out.sample({{"version", version_text()}, {"protocol", std::to_string(comm::kProtocolVersion)}},
             std::uint64_t{1});
}

const char* version_text() { return HOLDFAST_VERSION; }

std::string Metrics::text(metrics::TextFormat format, Duration wall_offset, Instant now) const {
  TextEncoder out(format, wall_offset);
  write_build(out);
  write_ops(out);
  write_overlap(out);
  write_codecs(out);
  layers.write(out, now);
  write_calls(out);
  write_peers(out);
  write_links(out);
  write_trunks(out);
  write_relayed(out);
  write_views(out);
  maps.write(out, wall_offset);
  return out.take();
}

}  // namespace holdfast::health

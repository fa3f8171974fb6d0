#include "health/status_json.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "health/far/far_link_json.h"
#include "health/json.h"
#include "health/metrics.h"

namespace holdfast::health {
namespace {

// A rank that others wait for less than this part of the time is no straggler.
constexpr double kLeastShare = 0.05;

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// Shares and rates are estimates: four digits after the point are plenty, and half the text.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

bool is_well(RankState state) { return state == RankState::kWell || state == RankState::kVacant; }

// Whether the rank's latest numbers still describe it.
bool speaks(const RankStatus& status) {
  switch (status.state) {
    case RankState::kGone:
    case RankState::kLeft:
    case RankState::kLost: return false;
    default: return status.numbers != nullptr;
  }
}

struct Waits {
  double share = 0;           // fraction of time, mean of all other ranks
  std::uint64_t waiters = 0;  // ranks that wait for it more than kLeastShare
};

// Indexed by the rank that is waited for.
std::map<Rank, Waits> waits_of(const WorldStatus& world) {
  std::map<Rank, Waits> waits;
  std::size_t speakers = 0;
  for (const RankStatus& status : world.ranks()) {
    if (!speaks(status)) continue;
    ++speakers;
    for (const RankNumbers::LinkSummary& link : status.numbers->links()) {
      Waits& to = waits[link.total.peer];
      to.share += link.wait_share;
      to.waiters += link.wait_share >= kLeastShare ? 1 : 0;
    }
  }
  waits.erase(kOtherPeers);
  const double others = std::max(1.0, static_cast<double>(speakers) - 1);
  for (auto& [rank, to] : waits) to.share /= others;
  return waits;
}

class WorldText {
 public:
  WorldText(const WorldStatus& world, const StatusHeader& header, JsonWriter& out)
      : world_(world), header_(header), out_(out), waits_(waits_of(world)) {}

  void write() {
    out_.open("", '{');
    out_.text("name", world_.name());
    out_.number("epoch", std::uint64_t{world_.epoch().value});
    out_.number("members", std::uint64_t{world_.members()});
    out_.number("size", std::uint64_t{world_.ranks().size()});
    out_.number("waiting", std::uint64_t{world_.waiting()});
    out_.text("blocked", world_.blocked());
    write_map();
    write_ranks();
    write_links();
    write_far_links();
    write_stragglers();
    write_epochs();
    out_.close('}');
  }

 private:
  const RankStatus& status_of(std::size_t rank) const { return world_.ranks()[rank]; }
  double share_of(std::size_t rank) const {
    const auto at = waits_.find(Rank{static_cast<std::int32_t>(rank)});
    return at == waits_.end() ? 0 : at->second.share;
  }

  // Ranks that are not well come first, then those that others wait for.
  std::vector<std::size_t> chosen_ranks() const {
    std::vector<std::size_t> ranks(world_.ranks().size());
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = r;
    if (ranks.size() <= kRanksShown) return ranks;
    std::stable_sort(ranks.begin(), ranks.end(), [this](std::size_t a, std::size_t b) {
      const bool well_a = is_well(status_of(a).state);
      const bool well_b = is_well(status_of(b).state);
      return well_a != well_b ? well_b : share_of(a) > share_of(b);
    });
    ranks.resize(kRanksShown);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  void write_map() {
    const comm::MapFacts& map = world_.map();
    if (map.ranks == 0) return;
    out_.open("map", '{');
    out_.number("version", std::uint64_t{map.version});
    out_.text("digest", hex_digits(map.digest));
    out_.number("ranks", std::uint64_t{map.ranks});
    out_.number("time_s", seconds(world_.map_since().since_origin + header_.wall_offset));
    out_.close('}');
  }

  void write_ranks() {
    const std::vector<std::size_t> chosen = chosen_ranks();
    out_.open("ranks", '[');
    for (const std::size_t r : chosen) write_rank(r);
    out_.close(']');
    out_.number("ranks_left_out", std::uint64_t{world_.ranks().size() - chosen.size()});
  }

  void write_rank(std::size_t r) {
    const RankStatus& s = status_of(r);
    out_.open("", '{');
    out_.number("rank", std::uint64_t{r});
    out_.text("state", rank_state_name(s.state));
    out_.text("cause", s.cause);
    out_.text("host", s.host);
    out_.text("http", s.http);
    age("heard_s", s.heard);
    age("since_s", s.since);
    if (s.numbers) {
      const RankSummary& total = s.numbers->total();
      const double now = speaks(s) ? 1 : 0;
      double waits = 0;
      for (const auto& link : s.numbers->links()) waits = std::max(waits, now * link.wait_share);
      out_.number("epoch", total.epoch);
      out_.number("ops", total.ops);
      out_.number("ops_per_s", rounded(now * s.numbers->ops_rate()));
      out_.number("bytes", total.bytes);
      out_.number("bytes_per_s", rounded(now * s.numbers->bytes_rate()));
      out_.number("failed", total.failed);
      out_.number("queue", total.queue);
      out_.number("waits", rounded(waits));
      const Duration since = std::max(Duration::zero(), header_.now - s.numbers->at());
      if (speaks(s)) write_state(total.state, since, out_);
    }
    out_.number("waited_for", rounded(share_of(r)));
    out_.close('}');
  }

  void age(std::string_view name, Instant since) {
    if (since == Instant{}) return out_.nothing(name);
    out_.number(name, rounded(std::max(0.0, seconds(header_.now - since))));
  }

  void write_links() {
    std::vector<std::pair<std::size_t, const RankNumbers::LinkSummary*>> links;
    for (std::size_t r = 0; r < world_.ranks().size(); ++r) {
      if (!status_of(r).numbers) continue;
      for (const auto& link : status_of(r).numbers->links()) links.emplace_back(r, &link);
    }
    const std::size_t shown = std::min(links.size(), kLinksShown);
    const auto more = [](const auto& a, const auto& b) {
      const RankNumbers::LinkSummary& x = *a.second;
      const RankNumbers::LinkSummary& y = *b.second;
      if (x.wait_share != y.wait_share) return x.wait_share > y.wait_share;
      if (x.total.wait_ns != y.total.wait_ns) return x.total.wait_ns > y.total.wait_ns;
      return x.total.sent + x.total.received > y.total.sent + y.total.received;
    };
    const auto end = links.begin() + static_cast<std::ptrdiff_t>(shown);
    std::partial_sort(links.begin(), end, links.end(), more);
    out_.open("links", '[');
    for (auto at = links.begin(); at != end; ++at) write_link(at->first, *at->second);
    out_.close(']');
    out_.number("links_left_out", std::uint64_t{links.size() - shown});
  }

  void write_link(std::size_t rank, const RankNumbers::LinkSummary& link) {
    out_.open("", '{');
    const double now = speaks(status_of(rank)) ? 1 : 0;
    out_.number("rank", std::uint64_t{rank});
    if (link.total.peer == kOtherPeers) {
      out_.text("peer", "other");
    } else {
      out_.number("peer", static_cast<std::uint64_t>(link.total.peer.value));
    }
    out_.number("wait_s", static_cast<double>(link.total.wait_ns) / 1e9);
    out_.number("wait_share", rounded(now * link.wait_share));
    out_.number("sent_bytes", link.total.sent);
    out_.number("received_bytes", link.total.received);
    out_.number("bytes_per_s", rounded(now * link.bytes_rate));
    out_.close('}');
  }

  // Nothing where there are none.
  void write_far_links() {
    std::vector<FarLinkText> links;
    for (std::size_t r = 0; r < world_.ranks().size(); ++r) {
      const RankStatus& status = status_of(r);
      if (!speaks(status)) continue;
      const Duration since = std::max(Duration::zero(), header_.now - status.numbers->at());
      for (const FarLink& link : status.numbers->total().far_links) {
        links.push_back({r, &link, since});
      }
    }
    write_far_links_of(std::move(links), out_);
  }

  void write_stragglers() {
    std::vector<std::pair<Rank, Waits>> slow;
    for (const auto& [rank, waits] : waits_) {
      const bool known = static_cast<std::size_t>(rank.value) < world_.ranks().size();
      if (known && waits.share >= kLeastShare) slow.emplace_back(rank, waits);
    }
    std::sort(slow.begin(), slow.end(),
              [](const auto& a, const auto& b) { return a.second.share > b.second.share; });
    slow.resize(std::min(slow.size(), kStragglersShown));
    out_.open("stragglers", '[');
    for (const auto& [rank, waits] : slow) {
      out_.open("", '{');
      out_.number("rank", static_cast<std::uint64_t>(rank.value));
      out_.text("host", status_of(static_cast<std::size_t>(rank.value)).host);
      out_.number("waited_for", rounded(waits.share));
      out_.number("waiters", waits.waiters);
      out_.close('}');
    }
    out_.close(']');
  }

  void write_epochs() {
    out_.open("epochs", '[');
    for (const ViewRecord& view : world_.views()) {
      out_.open("", '{');
      out_.number("epoch", std::uint64_t{view.epoch.value});
      out_.number("time_s", seconds(view.began.since_origin + header_.wall_offset));
      out_.number("members", std::uint64_t{view.members});
      out_.number("joined", std::uint64_t{view.joined});
      out_.number("lost", std::uint64_t{view.lost});
      out_.number("left", std::uint64_t{view.left});
      out_.close('}');
    }
    out_.close(']');
  }

  const WorldStatus& world_;
  const StatusHeader& header_;
  JsonWriter& out_;
  const std::map<Rank, Waits> waits_;
};

// Of a process that is a relay.
void write_relay_fields(const RelayNumbers& relay, JsonWriter& out) {
  out.open("relay", '{');
  out.number("members", relay.members);
  out.number("waiting", relay.waiting);
  out.number("pairs", relay.pairs);
  out.number("joined", relay.joined);
  out.number("passed_bytes", relay.passed);
  out.open("refused", '{');
  for (std::size_t i = 0; i < kRelayRefusals; ++i) {
    out.number(relay_refusal_name(static_cast<RelayRefusal>(i)), relay.refused[i]);
  }
  out.close('}');
  out.close('}');
}

void write_event(const StatusEvent& event, const StatusHeader& header, JsonWriter& out) {
  out.open("", '{');
  out.number("time_s", seconds(event.at.since_origin + header.wall_offset));
  out.text("world", event.world);
  out.text("kind", event.kind);
  out.text("cause", event.cause);
  out.number("epoch", std::uint64_t{event.epoch.value});
  out.number("count", std::uint64_t{event.count});
  out.open("ranks", '[');
  for (const Rank rank : event.ranks) out.number("", static_cast<std::uint64_t>(rank.value));
  out.close(']');
  out.open("hosts", '[');
  for (const std::string& host : event.hosts) out.text("", host);
  out.close(']');
  out.text("why", event.why);
  out.close('}');
}

}  // namespace

std::string status_json(const StatusSnapshot& state, const StatusHeader& header) {
  JsonWriter out;
  out.open("", '{');
  out.number("format", std::uint64_t{1});
  out.text("version", version_text());
  out.text("role", header.coordinates ? "coordinator" : "rank");
  out.number("time_s", seconds(header.now.since_origin + header.wall_offset));
  out.number("age_s", std::max(0.0, seconds(header.now - state.seen)));
  out.number("heartbeat_s", seconds(header.heartbeat));
  out.text("sickness", header.sickness);
  if (state.relay) write_relay_fields(*state.relay, out);
  out.open("worlds", '[');
  for (const WorldStatus& world : state.worlds) WorldText(world, header, out).write();
  out.close(']');
  out.open("events", '[');
  for (const StatusEvent& event : state.events) write_event(event, header, out);
  out.close(']');
  out.close('}');
  return out.take() + "\n";
}

}  // namespace holdfast::health

#include "health/rank_summary.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"

namespace holdfast::health {
namespace {

// Time constant of the rates: a page that people watch must neither jump nor lag.
constexpr double kMemorySeconds = 5;
// Each layout has its own number, so that an old member's summary is refused, not misread.
constexpr std::uint8_t kLayout = 5;
constexpr std::size_t kCellBytes = 4 + 3 * 8;

using Cell = RankSummary::Cell;

std::vector<Cell> all_cells(const Metrics& metrics) {
  std::vector<Cell> cells;
  for (std::size_t p = 0; p <= Metrics::kPeers; ++p) {
    Cell cell{p == Metrics::kPeers ? kOtherPeers : Rank{static_cast<std::int32_t>(p)}};
    cell.wait_ns = metrics.peer_wait_ns[p].value();
    for (const auto& by_peer : metrics.links) {
      cell.sent += by_peer[p].sent.value();
      cell.received += by_peer[p].received.value();
    }
    if (cell.wait_ns + cell.sent + cell.received > 0) cells.push_back(cell);
  }
  return cells;
}

// Keeps the cells with the most wait in one half, and those with the most bytes in the other.
void keep_the_most(std::vector<Cell>& cells) {
  if (cells.size() <= kMaxCells) return;
  const auto half = cells.begin() + kMaxCells / 2;
  std::partial_sort(cells.begin(), half, cells.end(),
                    [](const Cell& a, const Cell& b) { return a.wait_ns > b.wait_ns; });
  std::partial_sort(half, half + kMaxCells / 2, cells.end(), [](const Cell& a, const Cell& b) {
    return a.sent + a.received > b.sent + b.received;
  });
  cells.resize(kMaxCells);
}

// Growth per second; 0 for a counter that fell, which belongs to another process.
double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  return after < before ? 0 : static_cast<double>(after - before) / seconds;
}

}  // namespace

RankSummary summarize(const Metrics& metrics, comm::Standing standing, Instant now) {
  RankSummary summary;
  summary.standing = standing;
  summary.epoch = static_cast<std::uint64_t>(metrics.epoch.value());
  for (const auto& by_path : metrics.ops) {
    for (const auto& count : by_path) summary.ops += count.value();
  }
  for (const auto& by_path : metrics.op_bytes) {
    for (const auto& count : by_path) summary.bytes += count.value();
  }
  for (std::size_t code = 1; code < metrics.ops_failed.size(); ++code) {
    summary.failed += metrics.ops_failed[code].value();
  }
  // Read in this order, as in Metrics::write_ops: the difference is never negative.
  const std::uint64_t over = metrics.ended.value();
  const std::uint64_t all = metrics.begun.value();
  summary.queue = all > over ? all - over : 0;
  summary.map = metrics.maps.latest();
  summary.state = metrics.layers.state().summary(now);
  summary.cells = all_cells(metrics);
  keep_the_most(summary.cells);
  std::sort(summary.cells.begin(), summary.cells.end(),
            [](const Cell& a, const Cell& b) { return a.peer < b.peer; });
  summary.far_links = far_links_of(metrics, now);
  return summary;
}

std::vector<std::byte> encode_summary(const RankSummary& summary) {
  Writer w;
  w.number(kLayout);
  w.number(static_cast<std::uint8_t>(summary.standing));
  const auto& s = summary;
  for (const std::uint64_t n : {s.epoch, s.ops, s.bytes, s.failed, s.queue}) w.number(n);
  w.number(s.map.version);
  w.number(s.map.digest);
  w.number(s.map.ranks);
  encode_state(w, s.state);
  w.list(summary.cells, [&](const Cell& cell) {
    w.number(cell.peer.value);
    w.number(cell.wait_ns);
    w.number(cell.sent);
    w.number(cell.received);
  });
  w.list(summary.far_links, [&](const FarLink& link) { encode_far_link(w, link); });
  return w.take();
}

Result<RankSummary> parse_summary(std::span<const std::byte> bytes) {
  Reader r(bytes);
  const auto layout = r.number<std::uint8_t>();
  const auto standing = r.number<std::uint8_t>();
  RankSummary summary;
  summary.standing = static_cast<comm::Standing>(standing);
  auto& s = summary;
  for (auto* n : {&s.epoch, &s.ops, &s.bytes, &s.failed, &s.queue}) {
    *n = r.number<std::uint64_t>();
  }
  s.map.version = r.number<std::uint32_t>();
  s.map.digest = r.number<std::uint64_t>();
  s.map.ranks = r.number<std::uint32_t>();
  bool sound = layout == kLayout && standing <= static_cast<std::uint8_t>(comm::Standing::kEnded);
  sound = parse_state(r, s.state) && sound;
  r.list(kMaxCells, kCellBytes, [&] {
    Cell cell{{r.number<std::int32_t>()}};
    cell.wait_ns = r.number<std::uint64_t>();
    cell.sent = r.number<std::uint64_t>();
    cell.received = r.number<std::uint64_t>();
    sound = sound && cell.peer >= kOtherPeers && cell.peer.value <= kHighestPeer;
    sound = sound && (summary.cells.empty() || summary.cells.back().peer < cell.peer);
    summary.cells.push_back(cell);
  });
  auto& far = summary.far_links;
  r.list(kMostFarLinks, kFarLinkBytes, [&] {
    FarLink link;
    sound = parse_far_link(r, link) && sound && (far.empty() || far.back().peer < link.peer);
    far.push_back(link);
  });
  if (!sound || !r.ended()) return Status{Code::kProtocolError, "malformed rank summary"};
  return summary;
}

void RankNumbers::update(const RankSummary& next, Instant now) {
  const double seconds = std::chrono::duration<double>(now - at_).count();
  // After a pause one turn may bring two heartbeats: the later one counts next time.
  constexpr double kLeastSeconds = 0.01;
  if (begun_ && seconds < kLeastSeconds) return;
  // A rank's first summary counts what it did before this process listened, so it gives no rate.
  // Later rates are means over all time, until kMemorySeconds have passed.
  if (begun_) take_rates(next, seconds);
  if (!begun_) {
    for (const Cell& cell : next.cells) links_.push_back({cell});
  }
  total_ = next;
  at_ = now;
  begun_ = true;
}

void RankNumbers::take_rates(const RankSummary& next, double seconds) {
  const double keep =
      std::min(std::exp(-seconds / kMemorySeconds), watched_ / (watched_ + seconds));
  watched_ += seconds;
  const auto blend = [keep](double old, double fresh) { return old * keep + fresh * (1 - keep); };
  // A peer without a cell has counted nothing, unless there was no room for its cell.
  const bool told_all = total_.cells.size() < kMaxCells;
  std::vector<LinkSummary> links;
  auto before = links_.begin();
  for (const Cell& cell : next.cells) {
    while (before != links_.end() && before->total.peer < cell.peer) ++before;
    const bool known = before != links_.end() && before->total.peer == cell.peer;
    const LinkSummary was = known ? *before : LinkSummary{told_all ? Cell{cell.peer} : cell};
    const double waits = rate(was.total.wait_ns, cell.wait_ns, seconds) * 1e-9;
    const double moves =
        rate(was.total.sent, cell.sent, seconds) + rate(was.total.received, cell.received, seconds);
    links.push_back({cell, blend(was.wait_share, std::min(1.0, waits)),  //
                     blend(was.bytes_rate, moves)});
  }
  links_ = std::move(links);
  ops_rate_ = blend(ops_rate_, rate(total_.ops, next.ops, seconds));
  bytes_rate_ = blend(bytes_rate_, rate(total_.bytes, next.bytes, seconds));
}

}  // namespace holdfast::health

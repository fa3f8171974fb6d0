// Instruments and their text: buckets, exemplars, the two formats.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/metrics/instruments.h"
#include "base/metrics/text.h"
#include "health/metrics.h"

namespace holdfast::metrics {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

TEST_CASE("a duration falls into the first bucket whose bound is not below it") {
  for (int b = 0; b < Histogram::kBounds; ++b) {
    CHECK(Histogram::bucket_of(Histogram::bound(b)) == b);
    CHECK(Histogram::bucket_of(Histogram::bound(b) + nanoseconds(1)) == b + 1);
  }
  CHECK(Histogram::bound(0) == nanoseconds(1024));
  for (const Duration none : {Duration(0), Duration(-5), Duration(1)}) {
    CHECK(Histogram::bucket_of(none) == 0);
  }
  CHECK(Histogram::bucket_of(Duration::max()) == Histogram::kBounds);
}

TEST_CASE("a histogram keeps counts, the sum, and the last example of each bucket") {
  Histogram h;
  h.record({1, 7, microseconds(1), {}});
  h.record({1, 8, nanoseconds(900), {}});
  h.record({1, 9, seconds(100), {}});
  CHECK(h.count(0) == 2);
  CHECK(h.count(Histogram::kBounds) == 1);
  CHECK(h.sum() == microseconds(1) + nanoseconds(900) + seconds(100));
  CHECK(h.exemplar(0)->sequence == 8);
  CHECK(h.exemplar(Histogram::kBounds)->value == seconds(100));
  CHECK_FALSE(h.exemplar(1).has_value());
}

TEST_CASE("an example is never read half old and half new") {
  Histogram h;
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (std::uint32_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      h.record({i, i, nanoseconds(i % 1000), {nanoseconds(i)}});
    }
  });
  int whole = 0;
  const auto until = std::chrono::steady_clock::now() + seconds(10);
  while (whole < 1000 && std::chrono::steady_clock::now() < until) {
    const auto e = h.exemplar(0);
    if (!e) continue;
    ++whole;
    REQUIRE(e->group == e->sequence);
    REQUIRE(e->at.since_origin.count() == static_cast<std::int64_t>(e->group));
  }
  stop = true;
  CHECK(whole == 1000);
}

constexpr Family kCounted{"a_bytes", Type::kCounter, "bytes", "With \"quotes\".\n"};
constexpr Family kTimed{"t_seconds", Type::kHistogram, "seconds", "T."};

TEST_CASE("openmetrics names families without _total, gives units, and ends") {
  TextEncoder out(TextFormat::kOpenMetrics);
  out.family(kCounted);
  out.sample({{"who", "a\\b\"c\nd"}}, std::uint64_t{18446744073709551615U});
  const std::string text = out.take();
  CHECK(text ==
        "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes With \\\"quotes\\\".\\n\n"
        "a_bytes_total{who=\"a\\\\b\\\"c\\nd\"} 18446744073709551615\n# EOF\n");
}

TEST_CASE("the plain format names families as their samples, without unit, example and end") {
  TextEncoder out(TextFormat::kPlain);
  out.family(kCounted);
  out.sample({}, 0.25);
  Histogram h;
  h.record({1, 2, microseconds(3), {}});
  out.family(kTimed);
  out.histogram({}, h);
  const std::string text = out.take();
  CHECK(has(text, "# TYPE a_bytes_total counter\n"));
  CHECK(has(text, "\na_bytes_total 0.25\n"));
  CHECK(text.find("EOF") == std::string::npos);
  CHECK(text.find("UNIT") == std::string::npos);
  CHECK(text.find(" # {") == std::string::npos);
}

TEST_CASE("buckets add up, end at +Inf, and carry the op and its wall-clock time") {
  Histogram h;
  h.record({0xab, 42, microseconds(3), {seconds(1)}});
  h.record({0xab, 43, microseconds(30), {seconds(2)}});
  TextEncoder out(TextFormat::kOpenMetrics, seconds(1000));
  out.family(kTimed);
  out.histogram({{"collective", "barrier"}}, h);
  const std::string text = out.take();
  const std::string labels = "{collective=\"barrier\",le=\"";
  CHECK(has(text, "t_seconds_bucket" + labels + "2.048e-06\"} 0\n"));
  CHECK(has(text, "t_seconds_bucket" + labels + "4.096e-06\"} 1 # {op=\"ab:42\"} 3e-06 1001\n"));
  CHECK(has(text, "t_seconds_bucket" + labels + "3.2768e-05\"} 2 # {op=\"ab:43\"} 3e-05 1002\n"));
  CHECK(has(text, "t_seconds_bucket" + labels + "+Inf\"} 2\n"));
  CHECK(has(text, "t_seconds_sum{collective=\"barrier\"} 3.3e-05\n"));
  CHECK(has(text, "t_seconds_count{collective=\"barrier\"} 2\n"));
}

TEST_CASE("whoever accepts openmetrics gets it, everybody else the plain format") {
  CHECK(format_for("application/openmetrics-text;version=1.0.0,*/*;q=0.1") ==
        TextFormat::kOpenMetrics);
  for (const auto* accept : {"", "*/*", "text/html", "text/plain;version=0.0.4"}) {
    CHECK(format_for(accept) == TextFormat::kPlain);
  }
}

TEST_CASE("a process's metrics are bounded however many ranks there are") {
  auto metrics = std::make_unique<health::Metrics>();
  for (int rank = 0; rank < 10'000; ++rank) {
    metrics->peer_wait_ns[health::Metrics::peer_index({rank})].add(1'000'000'000);
    metrics->link({rank}, "tcp")->sent.add(10);
  }
  const std::string text = metrics->text(TextFormat::kPlain, {}, {});
  CHECK(has(text, "holdfast_peer_wait_seconds_total{peer=\"63\"} 1\n"));
  CHECK(has(text, "holdfast_peer_wait_seconds_total{peer=\"other\"} 9936\n"));
  CHECK(text.find("peer=\"64\"") == std::string::npos);
  CHECK(health::Metrics::peer_index({-1}) == health::Metrics::kPeers);
}

TEST_CASE("a trunk's metrics appear with it, and those of the present end with it") {
  auto metrics = std::make_unique<health::Metrics>();
  comm::LinkMeter& link = *metrics->link({3}, "tcp");
  link.sent.add(10);
  metrics->link({4}, "tcp")->sent.add(10);
  const auto text = [&] { return metrics->text(TextFormat::kPlain, {}, {}); };
  CHECK(text().find("holdfast_link_cuts_total{") == std::string::npos);
  CHECK(text().find("holdfast_link_relayed{") == std::string::npos);
  link.trunk.exists.set(1);
  link.trunk.stands.set(1);
  link.trunk.lanes.set(5);
  link.trunk.controls.set(std::int64_t{1} << comm::tcp_control_index("cubic"));
  link.trunk.cuts[static_cast<std::size_t>(comm::LaneCut::kReset)].add(2);
  CHECK(has(text(), "holdfast_link_lanes{peer=\"3\"} 5\n"));
  CHECK(has(text(), "holdfast_link_control_info{peer=\"3\",control=\"cubic\"} 1\n"));
  CHECK(has(text(), "holdfast_link_cuts_total{peer=\"3\",why=\"reset\"} 2\n"));
  CHECK(has(text(), "holdfast_link_cuts_total{peer=\"3\",why=\"stalled\"} 0\n"));
  CHECK(has(text(), "holdfast_link_relayed{peer=\"3\"} 0\n"));
  CHECK(text().find("holdfast_link_relayed{peer=\"4\"}") == std::string::npos);
  link.trunk.end();
  CHECK(text().find("holdfast_link_lanes{") == std::string::npos);
  CHECK(has(text(), "holdfast_link_cuts_total{peer=\"3\",why=\"reset\"} 2\n"));
}

TEST_CASE("what was never counted has no series, but failures and losses have theirs from zero") {
  const auto metrics = std::make_unique<health::Metrics>();
  const std::string text = metrics->text(TextFormat::kOpenMetrics, {}, {});
  CHECK(text.find("holdfast_ops_total{") == std::string::npos);
  CHECK(has(text, "holdfast_ops_failed_total{cause=\"Timeout\"} 0\n"));
  CHECK(has(text, "holdfast_losses_total{cause=\"died\"} 0\n"));
  CHECK(has(text, "holdfast_queue_depth 0\n"));
  CHECK(has(text, "# TYPE holdfast_build info\n"));
}

struct Span {
  int begin;
  int end;
  std::uint64_t before = 0;  // covered when its op began
};

std::uint64_t covered(std::initializer_list<Span> spans) {
  Coverage coverage;
  for (const Span& s : spans) {
    coverage.add({seconds(s.begin)}, {seconds(s.end)}, s.before * 1'000'000'000);
  }
  return coverage.total_ns() / 1'000'000'000;
}

TEST_CASE("spans that overlap are covered once, in a chain and within each other") {
  CHECK(covered({{0, 3}, {5, 7}}) == 5);
  CHECK(covered({{0, 10}, {1, 20}, {2, 30}}) == 30);
  CHECK(covered({{50, 51}, {60, 61}, {0, 100}}) == 100);
  CHECK(covered({{0, 2}, {4, 5, 2}, {3, 10, 2}, {9, 12, 2}}) == 11);
  CHECK(covered({{5, 5}, {7, 6}}) == 0);
}

TEST_CASE("methods are as many as fit, and the rest is one other") {
  health::LayerMetrics layers;
  for (std::size_t i = 0; i < 2 * health::LayerMetrics::kMostMethods; ++i) {
    layers.add_saving("method" + std::to_string(i), {4, 1});
  }
  layers.set_residual_norm("method0", 0.5);
  layers.add_sync({1, 2, 3, 0.25});
  TextEncoder out(TextFormat::kPlain);
  layers.write(out, {});
  const std::string text = out.take();
  CHECK(has(text, "holdfast_reducer_raw_bytes_total{method=\"method0\"} 4\n"));
  CHECK(has(text, "holdfast_reducer_wire_bytes_total{method=\"method15\"} 1\n"));
  CHECK(has(text, "holdfast_reducer_wire_bytes_total{method=\"other\"} 16\n"));
  CHECK(text.find("method16") == std::string::npos);
  CHECK(has(text, "holdfast_reducer_residual_norm{method=\"method0\"} 0.5\n"));
  CHECK(text.find("residual_norm{method=\"method1\"}") == std::string::npos);
  CHECK(has(text, "holdfast_sync_bytes_total{direction=\"received\"} 2\n"));
  CHECK(has(text, "holdfast_sync_seconds_total 0.25\n"));
}

TEST_CASE("a state has an age from its first snapshot on, and a reason while it is unprotected") {
  using Reached = health::StateMetrics::Reached;
  health::LayerMetrics layers;
  const auto text = [&](int now) {
    TextEncoder out(TextFormat::kPlain);
    layers.write(out, {std::chrono::seconds(now)});
    return out.take();
  };
  CHECK(text(1).find("holdfast_state_age_seconds{") == std::string::npos);
  CHECK(text(1).find("\nholdfast_state_protected ") == std::string::npos);
  CHECK(has(text(1), "holdfast_state_restores_total{source=\"decoded\"} 0\n"));
  auto& state = layers.state();
  state.set_exposed(std::string("a\n\xc3\xa4\"") + std::string(500, 'x'), {seconds(2)});
  CHECK(has(text(5), "holdfast_state_protected 0\n"));
  CHECK(has(text(5), "holdfast_state_unprotected_seconds{why=\"a???\\\"" +
                         std::string(health::kMostReason - 5, 'x') + "\"} 3\n"));
  CHECK(text(5).find("state=\"committed\"") == std::string::npos);
  state.reach(Reached::kCommitted, 7, {seconds(4)});
  state.reach(Reached::kFlushed, 5, {seconds(1)});
  state.set_exposed("", {seconds(4)});
  state.add({0.5, 100, 30, 20, 2});
  state.add({-1, 1, 0, 0, 0});
  state.add_restore("decoded");
  state.add_restore("nobody knows");
  const std::string later = text(11);
  CHECK(has(later, "holdfast_state_age_seconds{state=\"committed\"} 7\n"));
  CHECK(has(later, "holdfast_state_age_seconds{state=\"flushed\"} 10\n"));
  CHECK(has(later, "holdfast_state_step{state=\"flushed\"} 5\n"));
  CHECK(has(later, "holdfast_state_protected 1\n"));
  CHECK(later.find("holdfast_state_unprotected_seconds{") == std::string::npos);
  CHECK(has(later, "holdfast_state_stall_seconds_total 0.5\n"));
  CHECK(has(later, "holdfast_state_bytes_total{what=\"captured\"} 101\n"));
  CHECK(has(later, "holdfast_state_restores_total{source=\"decoded\"} 1\n"));
  CHECK(later.find("nobody knows") == std::string::npos);
  CHECK(has(later, "holdfast_state_damaged_tiles_total 2\n"));
  state.end();
  CHECK(text(12).find("holdfast_state_age_seconds{") == std::string::npos);
  CHECK(has(text(12), "holdfast_state_bytes_total{what=\"sent\"} 30\n"));
  CHECK_FALSE(state.summary({seconds(12)}).known);
}

}  // namespace
}  // namespace holdfast::metrics

// The status page's data: what heartbeats bring, what a status makes of it, and that ten thousand
// ranks fit.
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>

#include "health/status_json.h"
#include "health/status_model.h"
#include "health/status_page.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Contacted = ft::Contact::ContactState;

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

Instant at(Duration d) { return {seconds(1000) + d}; }

health::FarLink far_link(std::int32_t peer) {
  health::FarLink link{{peer}};
  link.lanes = 4;
  link.controls = 1U << comm::tcp_control_index("bbr");
  link.bytes_per_s = 12'500'000;
  link.round_trip_ns = 40'200'000;
  link.sent_again = 65536;
  return link;
}

// One that was cut so long before it was told of.
health::FarLink far_link_cut(std::int32_t peer, Duration before) {
  health::FarLink link = far_link(peer);
  link.cuts = 3;
  link.recent_cuts = 2;
  link.resumed = 1;
  link.last_cut = comm::LaneCut::kStalled;
  link.cut_ns = before.count();
  return link;
}

health::RankSummary a_summary() {
  health::RankSummary summary;
  summary.standing = comm::Standing::kMember;
  summary.epoch = 3;
  summary.ops = 17;
  summary.bytes = 1'000'000'007;
  summary.failed = 2;
  summary.queue = 1;
  summary.state = {true, 12, 3400, 500, "keeper \"gone\""};
  summary.map = {2, 0xfedc'ba98'7654'3210, 1024};
  summary.cells = {{health::kOtherPeers, 5, 6, 7}, {{0}, 1, 2, 3}, {{63}, ~std::uint64_t{0}, 0, 9}};
  summary.far_links = {far_link(1), far_link(63)};
  return summary;
}

TEST_CASE("a summary arrives as it was sent, and nothing else is taken for one") {
  const auto bytes = health::encode_summary(a_summary());
  CHECK(health::parse_summary(bytes).value() == a_summary());
  CHECK(health::parse_summary(health::encode_summary({})).value() == health::RankSummary{});
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(health::parse_summary(std::span(bytes).first(n)).is_ok());
  }
  const auto refuses = [](auto change) {
    health::RankSummary summary = a_summary();
    change(summary);
    const auto parsed = health::parse_summary(health::encode_summary(summary));
    return !parsed.is_ok() && parsed.status().code() == Code::kProtocolError;
  };
  CHECK(refuses([](auto& s) { s.standing = static_cast<comm::Standing>(9); }));
  CHECK(refuses([](auto& s) { s.cells[0].peer = {-2}; }));
  CHECK(refuses([](auto& s) { s.cells[2].peer = {64}; }));
  CHECK(refuses([](auto& s) { s.cells[1].peer = {63}; }));  // twice
  CHECK(refuses([](auto& s) { s.cells.resize(health::kMaxCells + 1); }));
  CHECK(refuses([](auto& s) { s.far_links[0].peer = {64}; }));
  CHECK(refuses([](auto& s) { s.far_links[0].peer = {63}; }));
  CHECK(refuses([](auto& s) { s.far_links[0].controls = ~0U; }));
  CHECK(refuses([](auto& s) { s.far_links[0].last_cut = static_cast<comm::LaneCut>(7); }));
  CHECK(refuses([](auto& s) { s.far_links[0].cut_ns = -2; }));
  CHECK(refuses([](auto& s) { s.far_links.resize(health::kMostFarLinks + 1); }));
  CHECK(refuses([](auto& s) { s.state.step = -2; }));
  CHECK(refuses([](auto& s) { s.state.age_ms = -1; }));
  CHECK(refuses([](auto& s) { s.state.exposed_ms = -1; }));
  CHECK(refuses([](auto& s) { s.state.why = "two\nlines"; }));
  CHECK(refuses([](auto& s) { s.state.why = std::string(health::kMostReason + 1, 'x'); }));
  auto other = bytes;
  other[0] = std::byte{1};
  CHECK_FALSE(health::parse_summary(other).is_ok());
}

TEST_CASE("a summary has the peers with the most wait and the most bytes, and stays small") {
  health::Metrics metrics;
  for (std::int32_t p = 0; p < 64; ++p) {
    metrics.peer_wait_ns[health::Metrics::peer_index({p})].add(static_cast<std::uint64_t>(p) + 1);
    metrics.link({p}, "tcp")->sent.add(static_cast<std::uint64_t>(1000 - p));
  }
  for (std::int32_t p = 0; p < 64; ++p) {
    comm::TrunkMeter& trunk = metrics.link({p}, "tcp")->trunk;
    trunk.stands.set(1);
    trunk.lanes.set(p == 50 ? 0 : 2);
    if (p >= 40) trunk.last_cut_ns.set(1000 + p);
  }
  metrics.link({2}, "tcp")->trunk.stands.set(0);
  metrics.ops[0][1].add(3);
  metrics.op_bytes[0][1].add(300);
  metrics.begun.add(5);
  metrics.ended.add(3);
  const health::RankSummary summary =
      health::summarize(metrics, comm::Standing::kMember, {Duration(2000)});
  CHECK(summary.ops == 3);
  CHECK(summary.bytes == 300);
  CHECK(summary.queue == 2);
  REQUIRE(summary.cells.size() == health::kMaxCells);
  for (std::size_t i = 0; i < health::kMaxCells / 2; ++i) {
    CHECK(summary.cells[i].peer.value == static_cast<std::int32_t>(i));  // bytes
    CHECK(summary.cells[health::kMaxCells - 1 - i].peer.value == 63 - static_cast<std::int32_t>(i));
  }
  // The one that is down, and those that were cut last.
  REQUIRE(summary.far_links.size() == health::kMostFarLinks);
  CHECK(summary.far_links.front() == [] {
    health::FarLink latest{{48}};
    latest.lanes = 2;
    latest.cut_ns = 952;
    return latest;
  }());
  CHECK(summary.far_links[2].peer == Rank{50});
  CHECK(summary.far_links[2].down);
  CHECK(health::encode_summary(summary).size() < 2200);
}

TEST_CASE("rates follow what a rank says, and forget what it did before anybody listened") {
  health::RankNumbers numbers;
  health::RankSummary summary;
  summary.ops = 1'000'000;
  summary.cells = {{{1}, 0, 0, 0}};
  numbers.update(summary, at(seconds(0)));
  CHECK(numbers.ops_rate() == 0);
  for (int i = 1; i <= 200; ++i) {
    if (i == 3)
      CHECK(numbers.links()[0].wait_share ==
            doctest::Approx(0.5));  // half of the time it waits for rank 1
    summary.ops += 50;
    summary.cells[0].wait_ns += 250'000'000;
    summary.cells[0].sent += 1000;
    numbers.update(summary, at(milliseconds(500) * i));
  }
  CHECK(numbers.ops_rate() == doctest::Approx(100).epsilon(0.01));
  CHECK(numbers.links()[0].wait_share == doctest::Approx(0.5).epsilon(0.01));
  CHECK(numbers.links()[0].bytes_rate == doctest::Approx(2000).epsilon(0.01));
  summary.ops = 0;  // another process
  numbers.update(summary, at(seconds(101)));
  CHECK(numbers.ops_rate() < 100);
  CHECK(numbers.ops_rate() >= 0);
}

// ---- a status
// ------------------------------------------------------------------------------------

// To the status a card is a text that somebody else can read; a host's name may have blanks.
std::string card_of(std::uint64_t member, const std::string& host) {
  return host + "\n10.0.0.1:" + std::to_string(9000 + member);
}

health::MemberPlace place_of(const std::string& card) {
  const std::size_t end = card.find('\n');
  if (end == std::string::npos) return {};
  return {card.substr(0, end), card.substr(end + 1)};
}

struct Scene {
  ft::WorldView view;
  std::map<MemberId, ft::Contact> contacts;
  health::StatusModel status{place_of};
  health::StatusHeader header;
  std::string name = "job/default";
  std::string blocked;
  bool at_boundary = false;

  Scene() { header.coordinates = true; }
  void seat(std::size_t rank, std::uint64_t member, const std::string& host = "a") {
    view.members.resize(std::max(view.members.size(), rank + 1), ft::kNobody);
    view.cards.resize(view.members.size());
    view.members[rank] = {member};
    view.cards[rank] = card_of(member, host);
    contacts[{member}] = {Contacted::kHeard, at({})};
  }
  void vacate(std::size_t rank) {
    view.members[rank] = ft::kNobody;
    view.cards[rank].clear();
  }
  std::string look(Duration now) {
    const auto contact = [this](MemberId member) { return contacts[member]; };
    status.set({{name, &view, 0, blocked, at_boundary}}, contact, at(now));
    header.now = at(now);
    return health::status_json(status.state(), header);
  }
};

struct ThreeRanks : Scene {
  ThreeRanks() {
    view.epoch = {1};
    for (std::size_t r = 0; r < 3; ++r) seat(r, r + 10, r == 2 ? "b" : "a");
  }
};

TEST_CASE("a rank goes red when its connection ends, and is lost by its cause in the next view") {
  ThreeRanks scene;
  CHECK(count(scene.look(seconds(1)), "\"state\":\"well\"") == 3);
  scene.contacts[{12}] = {Contacted::kGone};
  const std::string gone = scene.look(seconds(2));
  CHECK(has(gone, R"("rank":2,"state":"gone","cause":"","host":"b")"));
  CHECK(count(gone, "\"state\":\"well\"") == 2);
  scene.vacate(2);
  scene.view.epoch = {2};
  const std::string lost = scene.look(seconds(3));
  CHECK(has(lost, R"("rank":2,"state":"lost","cause":"died","host":"b")"));
  CHECK(has(lost, R"("epoch":2,"members":2,"size":3)"));
  CHECK(has(lost, R"("kind":"lost","cause":"died","epoch":2,"count":1,"ranks":[2],"hosts":["b"])"));
  // Another process takes the place.
  scene.seat(2, 20, "c");
  scene.view.epoch = {3};
  const std::string back = scene.look(seconds(4));
  CHECK(has(back, R"("rank":2,"state":"well","cause":"","host":"c")"));
  CHECK(has(back, R"("kind":"joined","cause":"","epoch":3,"count":1,"ranks":[2],"hosts":["c"])"));
  CHECK(has(back, R"("members":3,"joined":1,"lost":0,"left":0)"));
}

TEST_CASE("who leaves, by a goodbye or at a step boundary, is not lost") {
  ThreeRanks scene;
  scene.look(seconds(1));
  scene.contacts[{12}] = {Contacted::kLeft};
  scene.vacate(2);
  scene.view.epoch = {2};
  const std::string goodbye = scene.look(seconds(2));
  CHECK(has(goodbye, R"("rank":2,"state":"left","cause":"left","host":"b")"));
  CHECK(has(goodbye, R"("kind":"left","cause":"left","epoch":2,"count":1,"ranks":[2])"));
  CHECK(has(goodbye, R"("joined":0,"lost":0,"left":1)"));
  // An operator has drained it: it was heard until the end.
  scene.vacate(1);
  scene.view.epoch = {3};
  scene.at_boundary = true;
  const std::string drained = scene.look(seconds(3));
  CHECK(has(drained, R"("rank":1,"state":"left","cause":"left","host":"a")"));
  CHECK(count(drained, "\"kind\":\"lost\"") == 0);
}

TEST_CASE("every way to be unwell has its name") {
  ThreeRanks scene;
  const auto state = [&](Contacted contact) {
    scene.contacts[{11}] = {contact, at({})};
    const std::string text = scene.look(seconds(1));
    const std::size_t from = text.find("\"rank\":1,\"state\":\"") + 18;
    return text.substr(from, text.find('"', from) - from);
  };
  CHECK(state(Contacted::kHeard) == "well");
  CHECK(state(Contacted::kSilent) == "silent");
  CHECK(state(Contacted::kCut) == "gone");
  CHECK(state(Contacted::kGone) == "gone");
  CHECK(state(Contacted::kLeft) == "left");
  CHECK(state(Contacted::kUnknown) == "unheard");
  health::RankSummary summary;
  summary.standing = comm::Standing::kChanging;
  scene.status.hear({11}, summary, at(seconds(1)));
  CHECK(state(Contacted::kHeard) == "changing");
  summary.standing = comm::Standing::kEnded;
  scene.status.hear({11}, summary, at(seconds(2)));
  CHECK(state(Contacted::kHeard) == "failed");
  // A rank that nobody has ever had.
  scene.seat(4, 40);
  scene.view.epoch = {2};
  CHECK(has(scene.look(seconds(3)), R"("rank":3,"state":"vacant")"));
}

TEST_CASE("what blocks a decision, and the end of a world, are told once") {
  ThreeRanks scene;
  scene.look(seconds(1));
  scene.blocked = "no quorum: 1 of 3";
  scene.look(seconds(2));
  const std::string text = scene.look(seconds(3));
  CHECK(has(text, R"("blocked":"no quorum: 1 of 3")"));
  CHECK(count(text, R"("kind":"blocked")") == 1);
  CHECK(has(text, R"("why":"no quorum: 1 of 3")"));
  scene.status.set({}, {}, at(seconds(4)));
  scene.status.set({}, {}, at(seconds(5)));
  scene.header.now = at(seconds(5));
  const std::string ended = health::status_json(scene.status.state(), scene.header);
  CHECK(has(ended, "\"worlds\":[]"));
  CHECK(count(ended, R"("kind":"ended")") == 1);
}

TEST_CASE("a rank whose state is unprotected is shown with the reason and since when") {
  ThreeRanks scene;
  health::RankSummary summary;
  scene.status.hear({12}, summary, at(seconds(1)));
  CHECK_FALSE(has(scene.look(seconds(1)), "state_kept"));
  summary.state = {true, 12, 3000, 500, "no \"keeper\""};
  scene.status.hear({12}, summary, at(seconds(2)));
  CHECK(has(
      scene.look(seconds(4)),
      R"("state_kept":{"step":12,"age_s":5,"unprotected":"no \"keeper\"","unprotected_s":2.5})"));
  summary.state = {true, -1, 0, 0, ""};
  scene.status.hear({12}, summary, at(seconds(5)));
  CHECK(has(scene.look(seconds(5)),
            R"("state_kept":{"step":null,"age_s":null,"unprotected":"","unprotected_s":null})"));
}

TEST_CASE("the newest map that a rank tells of is shown, and told once") {
  ThreeRanks scene;
  const std::string none = scene.look(seconds(1));
  CHECK_FALSE(has(none, "\"map\""));
  health::RankSummary summary;
  const auto tell = [&](std::uint64_t member, std::uint32_t version, int second) {
    summary.map = {version, 0xab00 + version, 3};
    scene.status.hear({member}, summary, at(seconds(second)));
    return scene.look(seconds(second));
  };
  const std::string first = tell(11, 1, 2);
  CHECK(has(first, R"("map":{"version":1,"digest":"000000000000ab01","ranks":3,"time_s":1002})"));
  tell(10, 1, 3);
  // The ranks go on to the next map one by one.
  tell(12, 2, 4);
  tell(11, 2, 5);
  const std::string last = tell(10, 2, 6);
  CHECK(has(last, R"("map":{"version":2,"digest":"000000000000ab02","ranks":3,"time_s":1004})"));
  CHECK(count(last, R"("kind":"map")") == 2);
  CHECK(has(last, R"("why":"version 2, digest 000000000000ab02, 3 ranks")"));
}

TEST_CASE("the straggler is the rank that the others wait for") {
  ThreeRanks scene;
  for (int i = 0; i < 40; ++i) {
    for (const std::int32_t r : {0, 1}) {
      health::RankSummary summary;
      const auto waited = static_cast<std::uint64_t>(i) * 400'000'000;
      summary.cells = {{{1 - r}, waited / 100, 1, 1}, {{2}, waited, 5, 7}};
      std::sort(summary.cells.begin(), summary.cells.end(),
                [](const auto& a, const auto& b) { return a.peer < b.peer; });
      scene.status.hear({10 + static_cast<std::uint64_t>(r)}, summary, at(milliseconds(500) * i));
    }
    scene.status.hear({12}, health::RankSummary{}, at(milliseconds(500) * i));
  }
  const std::string text = scene.look(seconds(20));
  const std::string slow = text.substr(text.find("\"stragglers\""));
  CHECK(has(slow, R"("stragglers":[{"rank":2,"host":"b","waited_for":0.8,)"));
  CHECK(has(slow, R"("waiters":2}])"));
  CHECK(has(text, R"({"rank":0,"peer":2,"wait_s":15.6,"wait_share":0.8,)"));
  CHECK(has(text, R"("sent_bytes":5,"received_bytes":7)"));
  // One that is gone waits for nobody any more, and what it counted stays.
  scene.contacts[{10}] = {Contacted::kGone};
  const std::string gone = scene.look(seconds(21));
  CHECK(has(gone, R"({"rank":0,"peer":2,"wait_s":15.6,"wait_share":0,)"));
  CHECK(has(gone, R"("waiters":1}])"));
}

TEST_CASE("far links are told where there are some, those that were cut last first") {
  ThreeRanks scene;
  health::RankSummary summary;
  scene.status.hear({10}, summary, at(seconds(1)));
  CHECK(count(scene.look(seconds(1)), "far_links") == 0);
  summary.far_links = {far_link(1), far_link_cut(2, seconds(3))};
  scene.status.hear({10}, summary, at(seconds(2)));
  summary.far_links = {far_link_cut(0, seconds(90))};
  summary.far_links[0].relayed = true;
  scene.status.hear({11}, summary, at(seconds(2)));
  summary.far_links[0].down = true;
  summary.far_links[0].lanes = 0;
  summary.far_links[0].down_ns = 500'000'000;
  scene.status.hear({12}, summary, at(seconds(2)));
  const std::string text = scene.look(seconds(3));
  const std::string far = text.substr(text.find("\"far_links\""));
  CHECK(has(far, R"("far_links":[{"rank":2,"peer":0,"state":"cut","relayed":true,"lanes":0,)"));
  CHECK(has(far, R"("cut_why":"stalled","cut_s":91,"down_s":1.5},{"rank":0,"peer":2,)"
                 R"("state":"mended","relayed":false,"lanes":4,"control":"bbr",)"
                 R"("bytes_per_s":12500000,"rtt_s":0.0402,"sent_again_bytes":65536,"resumed":1,)"
                 R"("cuts":3,"recent_cuts":2,"cut_why":"stalled","cut_s":4,"down_s":null},)"));
  CHECK(has(far, R"({"rank":1,"peer":0,"state":"well","relayed":true,)"));
  CHECK(has(far, R"("cut_why":"","cut_s":null,"down_s":null}],"far_links_left_out":0)"));
  // What one says that is gone is not how it is.
  scene.contacts[{12}] = {Contacted::kGone};
  CHECK(has(scene.look(seconds(4)), R"("far_links":[{"rank":0,"peer":2,)"));
}

TEST_CASE("a relay's numbers are in the status and the metrics of the process that is one") {
  ThreeRanks scene;
  CHECK(count(scene.look(seconds(1)), "\"relay\"") == 0);
  health::RelayNumbers relay{5, 1, 2, 7, 4096, {}};
  relay.refused[static_cast<std::size_t>(health::RelayRefusal::kFull)] = 3;
  scene.status.set_relay(relay);
  CHECK(has(scene.look(seconds(1)),
            R"("relay":{"members":5,"waiting":1,"pairs":2,"joined":7,"passed_bytes":4096,)"
            R"("refused":{"malformed":0,"token":0,"taken":0,"full":3,"absent":0,"revoked":0}})"));
  metrics::TextEncoder out(metrics::TextFormat::kPlain);
  scene.status.write_metrics(out);
  const std::string text = out.take();
  CHECK(has(text, "holdfast_relay_pairs 2\n"));
  CHECK(has(text, "holdfast_relay_passed_bytes_total 4096\n"));
  CHECK(has(text, "holdfast_relay_refused_total{why=\"full\"} 3\n"));
}

TEST_CASE("what peers say of themselves is text, whatever it holds") {
  ThreeRanks scene;
  scene.name = "</script><b>\"\\\x01";
  scene.seat(1, 11, "<img src=x onerror=alert(1)>\"");
  const std::string text = scene.look(seconds(1));
  CHECK(has(text, R"("name":"</script><b>\"\\\u0001")"));
  CHECK(has(text, R"("host":"<img src=x onerror=alert(1)>\"")"));
  CHECK(count(text, "\n") == 1);  // the last character
}

TEST_CASE("ten thousand ranks fit: the sick and the slow are told, the others counted") {
  constexpr std::size_t kRanks = 10'000;
  Scene scene;
  scene.view.epoch = {1};
  for (std::size_t r = 0; r < kRanks; ++r) scene.seat(r, r + 1, "host" + std::to_string(r / 8));
  health::RankSummary summary;
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(health::kMaxCells); ++p) {
    summary.cells.push_back({{p}, 1'000'000'000, 1'000'000'000, 1'000'000'000});
  }
  for (std::size_t r = 0; r < kRanks; ++r) scene.status.hear({r + 1}, summary, at({}));
  scene.contacts[{7778}] = {Contacted::kGone};
  const std::string text = scene.look(seconds(1));
  CHECK(text.size() < 400'000);
  CHECK(has(text, R"("rank":7777,"state":"gone")"));
  CHECK(has(text, "\"ranks_left_out\":" + std::to_string(kRanks - health::kRanksShown)));
  CHECK(has(text, "\"links_left_out\":" +
                      std::to_string(kRanks * health::kMaxCells - health::kLinksShown)));
  CHECK(has(text, R"("kind":"began","cause":"","epoch":1,"count":10000,"ranks":[0,1,2)"));
}

TEST_CASE("events and views of long are forgotten") {
  ThreeRanks scene;
  for (std::uint32_t e = 2; e < 300; ++e) {
    scene.view.epoch = {e};
    scene.seat(2, 100 + e);
    scene.look(seconds(e));
  }
  const health::StatusSnapshot state = scene.status.state();
  CHECK(state.events.size() == health::kEventsKept);
  CHECK(state.worlds[0].views().size() == health::kEpochsKept);
  CHECK(state.worlds[0].views().back().epoch.value == 299);
}

TEST_CASE("the page is one file that asks nobody else for anything") {
  const std::string page(health::status_page());
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(has(page, "prefers-color-scheme: dark"));
  CHECK(has(page, "name=\"viewport\""));
  CHECK(has(page, "\"use strict\""));
  CHECK(page.find("/* style.css */") == std::string::npos);
  CHECK(page.find("/* script.js */") == std::string::npos);
  CHECK(page.find("innerHTML") == std::string::npos);
  // The one address is the name of SVG.
  CHECK(count(page, "http://") == count(page, "http://www.w3.org/2000/svg"));
  CHECK(page.find("https://") == std::string::npos);
}

}  // namespace
}  // namespace holdfast::runtime

// Trunks: frames over lanes that are lost, stall, and come anew.
#include <doctest/doctest.h>

#include <cerrno>
#include <deque>
#include <random>

#include "comm/transport/trunk/trunk_link.h"
#include "link_pairs.h"

namespace holdfast::comm {
namespace {

using testing::make_sockets;
using testing::pump;

constexpr TrunkTerms kTerms{99, 4};

// What both ends of a lane of the test share: the network between them.
class Wire {
 public:
  // `end`: the one that no test closes.
  explicit Wire(int end) : end_(::dup(end)) { REQUIRE(end_ >= 0); }
  ~Wire() { ::close(end_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Both ends notice it, and what was under way is lost.
  void cut() {
    is_cut = true;
    ::shutdown(end_, SHUT_RDWR);
  }

  bool is_cut = false;
  bool silent = false;  // nothing arrives, and nobody notices

 private:
  int end_;
};

// A socket over a wire.
class WireSeal final : public Seal {
 public:
  explicit WireSeal(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ssize_t send(int fd, std::span<const iovec> parts) override {
    if (wire_->is_cut) return errno = ECONNRESET, -1;
    if (wire_->silent) {
      ssize_t lost = 0;
      for (const iovec& part : parts) lost += static_cast<ssize_t>(part.iov_len);
      return lost;
    }
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return ::sendmsg(fd, &message, MSG_NOSIGNAL);
  }
  bool holds() const override { return false; }
  bool flush(int) override { return true; }
  ssize_t receive(int fd, std::span<const iovec> parts) override {
    if (wire_->is_cut) return errno = ECONNRESET, -1;
    if (wire_->silent) return errno = EAGAIN, -1;
    return ::readv(fd, parts.data(), static_cast<int>(parts.size()));
  }
  std::size_t arrived() const override { return 0; }

 private:
  std::shared_ptr<Wire> wire_;
};

struct TrunkPair {
  std::unique_ptr<TrunkLink> a;
  std::unique_ptr<TrunkLink> b;
  std::vector<std::shared_ptr<Wire>> wires;

  explicit TrunkPair(TrunkTerms terms = kTerms) {
    auto [left, right] = connect();
    a = std::make_unique<TrunkLink>(std::move(left), terms);
    b = std::make_unique<TrunkLink>(std::move(right), terms);
  }
  std::pair<Connection, Connection> connect() {
    const auto fds = make_sockets();
    const auto wire = wires.emplace_back(std::make_shared<Wire>(fds[1]));
    return {Connection{fds[0], std::make_unique<WireSeal>(wire)},
            Connection{fds[1], std::make_unique<WireSeal>(wire)}};
  }
  void join() {
    auto [left, right] = connect();
    a->join(std::move(left));
    b->join(std::move(right));
  }
  void turn() {
    pump(*a);
    pump(*b);
  }
  void settle() {
    for (int i = 0; i < 20; ++i) turn();
  }
};

struct Message {
  SendPost send;
  RecvPost receive;
  bool touched = false;
  std::vector<std::byte> from;
  std::vector<std::byte> to;

  Message(TrunkLink& sender, TrunkLink& receiver, std::uint32_t op, std::size_t bytes)
      : from(bytes), to(bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      from[i] = static_cast<std::byte>((i * 31 + i / 251 + op) & 0xff);
    }
    send.key.op = receive.key.op = op;
    send.total_bytes = receive.total_bytes = send.ready = receive.limit = bytes;
    send.data = from.data();
    receive.data = to.data();
    send.touched = receive.touched = &touched;
    receiver.session().post(receive);
    sender.session().post(send);
  }
  bool is_right() const { return send.finished && receive.finished && from == to; }
};

TEST_CASE("lane headers are read as they were written, and others are refused") {
  const LaneHeader frame{TrunkStream::kBulk, 3, 1ULL << 40, {5, 1ULL << 50}};
  const LaneHeader alone{std::nullopt, 16, 0, {1, 2}};
  std::array<std::byte, kLaneHeaderBytes> bytes{};
  for (const LaneHeader& header : {frame, alone}) {
    encode_lane_header(header, bytes);
    CHECK(parse_lane_header(bytes).value() == header);
  }
  const auto is_refused = [&](std::size_t at, unsigned value) {
    auto damaged = bytes;
    damaged[at] = static_cast<std::byte>(value);
    return !parse_lane_header(damaged).is_ok();
  };
  CHECK(is_refused(0, 3));
  CHECK(is_refused(1, kMostTrunkLanes + 1));
  CHECK(is_refused(2, 1));
  CHECK(is_refused(7, 1));
  CHECK(is_refused(8, 1));  // a number, and no frame
}

TEST_CASE("frames are kept until they are confirmed, and wait again when their lane is lost") {
  SentFrames sent;
  for (std::uint32_t i = 0; i < 5; ++i) {
    OutFrame frame;
    frame.header.kind = FrameKind::kHeartbeat;
    sent.add(frame);
  }
  const auto first = sent.take(1);
  CHECK(first->number == 0);
  CHECK(sent.take(2)->number == 1);
  CHECK(sent.take(1)->number == 2);
  CHECK(sent.give_back(1) == 2 * kFrameHeaderBytes);
  CHECK(sent.take(3)->number == 0);  // before those that no lane has had
  CHECK(sent.confirm(2).is_ok());
  CHECK(sent.frames() == 3);
  CHECK(sent.bytes() == 3 * kFrameHeaderBytes);
  CHECK(sent.confirmed_bytes() == 2 * kFrameHeaderBytes);
  CHECK(sent.take(3)->number == 2);
  CHECK(sent.confirm(1).is_ok());  // an old word that comes late
  CHECK(sent.confirm(4).is_ok());  // one that waits for a lane has come after all
  CHECK(sent.take(3)->number == 4);
  CHECK(sent.take(3) == nullptr);
  CHECK(sent.confirm(6).code() == Code::kProtocolError);
  CHECK(first->bytes.size() == kFrameHeaderBytes);  // a lane may still write it
}

TEST_CASE("lanes are added while the rate grows with them") {
  for (const unsigned worth : {1U, 2U, 4U, 15U}) {
    CAPTURE(worth);
    LaneGrowth growth(15);
    Instant now{std::chrono::seconds(1)};
    std::uint64_t delivered = 0;
    for (int i = 0; i < 400; ++i) {
      const unsigned lanes = growth.wanted();
      growth.look({now, delivered, true, std::chrono::milliseconds(100), lanes});
      now = now + std::chrono::milliseconds(50);
      delivered += 1'000'000 * std::min(lanes, worth) / 20;
    }
    // The last doubling brought nothing.
    CHECK(growth.wanted() == std::min(15U, 2 * std::max(worth, LaneGrowth::kFirstLanes)));
    CHECK(growth.rate() >= 900'000 * worth);
    CHECK(growth.rate() <= 1'100'000 * worth);
  }
}

TEST_CASE("a trunk without bulk wants no more lanes") {
  LaneGrowth growth(15);
  Instant now{std::chrono::seconds(1)};
  for (int i = 0; i < 100; ++i) {
    growth.look({now, 0, false, std::chrono::milliseconds(10), 1});
    now = now + std::chrono::milliseconds(50);
  }
  CHECK(growth.wanted() == LaneGrowth::kFirstLanes);
  CHECK(LaneGrowth(1).wanted() == 1);
}

// A path that carries so much, with a queue, looked at every 25 ms: what lanes of a trunk see whose
// own congestion controls would send `eager` times as much.
struct PacedPath {
  double carries = 1'250'000;  // bytes a second
  double queue = 62'500;       // bytes
  double loss = 0;             // part of what is sent, beside what finds no room
  double behind_s = 0;         // a queue of the other direction
  double eager = 2;
  bool is_still = false;
  Instant now{std::chrono::seconds(1)};
  double waits = 0;
  double arrived = 0;
  double again = 0;

  void run(PathPace& pace, int looks) {
    constexpr double kLook = 0.025;
    for (int i = 0; i < looks; ++i) {
      const double bound = pace.rate() > 0 ? static_cast<double>(pace.rate()) : eager * carries;
      const double sent = std::min(bound, eager * carries) * kLook;
      const double carried = is_still ? 0 : std::min(waits + sent, carries * kLook);
      const double dropped = std::max(0.0, waits + sent - carried - queue) + loss * sent;
      waits = std::min(queue, waits + sent - carried);
      arrived += carried;
      again += dropped;
      now = now + std::chrono::milliseconds(25);
      const Duration least = std::chrono::milliseconds(40);
      const Duration behind{static_cast<std::int64_t>((waits / carries + behind_s) * 1e9)};
      pace.look({now, static_cast<std::uint64_t>(arrived), static_cast<std::uint64_t>(again), true,
                 least + behind, least});
    }
  }
};

TEST_CASE("lanes that fill a queue stay below what the path carries, and try more") {
  PacedPath path;
  PathPace pace;
  CHECK(pace.rate() == 0);
  path.run(pace, 40);
  const double again = path.again;
  CHECK(pace.rate() > 0);
  const double before = path.arrived;
  path.run(pace, 4000);  // 100 s
  CHECK(path.arrived - before > 0.95 * 100 * path.carries);
  CHECK(path.again - again < 0.005 * (path.arrived - before));
}

TEST_CASE("a path that changes is followed, and one that loses packets is not bound") {
  PacedPath path;
  PathPace pace;
  path.run(pace, 400);
  path.carries *= 8;
  path.run(pace, 2000);
  CHECK(static_cast<double>(pace.rate()) > 0.8 * path.carries);
  path.carries /= 8;
  path.run(pace, 400);
  CHECK(static_cast<double>(pace.rate()) < 1.2 * path.carries);

  PacedPath lossy;
  lossy.eager = 0.9;  // they find no queue
  lossy.loss = 0.02;
  PathPace unbound;
  lossy.run(unbound, 400);
  CHECK(unbound.rate() == 0);
}

TEST_CASE("an outage says nothing of what a path carries") {
  PacedPath path;
  PathPace pace;
  path.run(pace, 400);
  for (int outage = 0; outage < 10; ++outage) {
    path.is_still = true;
    path.waits = path.queue;
    // The kernel's probes go again.
    for (int i = 0; i < 8 + outage; ++i, path.again += 3000) path.run(pace, 1);
    path.is_still = false;
    path.again += 120'000;
    path.run(pace, 8);
    CHECK(static_cast<double>(pace.rate()) > 0.8 * path.carries);
    path.run(pace, 40);
  }
}

TEST_CASE("a queue of the other direction does not starve this one") {
  PacedPath path;
  path.behind_s = 0.05;
  path.eager = 0.5;
  PathPace pace;
  path.run(pace, 40);
  path.eager = 2;
  const double before = path.arrived;
  path.run(pace, 8000);  // 200 s
  CHECK(path.arrived - before > 0.8 * 200 * path.carries);
}

TEST_CASE("the congestion control that delivers clearly more is chosen") {
  const auto chosen = [](std::uint64_t system, std::uint64_t bbr) {
    ControlTrial trial;
    Instant now{std::chrono::seconds(1)};
    std::array<ControlTrial::LaneDelivery, 2> lanes{
        {{1, LaneControl::kSystem, 0}, {2, LaneControl::kBbr, 0}}};
    for (int i = 0; i < 100; ++i) {
      trial.look(now, true, std::chrono::milliseconds(40), lanes);
      now = now + std::chrono::milliseconds(50);
      lanes[0].bytes += system;
      lanes[1].bytes += bbr;
    }
    return trial.better();
  };
  CHECK(chosen(1000, 2000) == LaneControl::kBbr);
  CHECK(chosen(2000, 1000) == LaneControl::kSystem);
  CHECK_FALSE(chosen(1000, 1100).has_value());
  ControlTrial trial;
  CHECK(trial.next() != trial.next());
}

TEST_CASE("a message outlives all lanes") {
  TrunkPair pair;
  Message message(*pair.a, *pair.b, 1, 8 << 20);
  for (int i = 0; i < 6; ++i) {
    pair.turn();
    pair.wires.back()->cut();
    pair.settle();
    CHECK(pair.a->is_down());
    CHECK(pair.b->is_down());
    CHECK_FALSE(message.receive.finished);
    pair.join();
  }
  for (int i = 0; i < 1000 && !message.receive.finished; ++i) pair.turn();
  CHECK(message.is_right());
  CHECK(pair.a->status().is_ok());
  CHECK(pair.b->status().is_ok());
}

TEST_CASE("heartbeats go past bulk that is missing a frame") {
  TrunkPair pair;
  pair.join();
  pair.settle();
  pair.wires[0]->silent = true;  // the lane of bulk
  Message message(*pair.a, *pair.b, 1, 1 << 20);
  pair.settle();
  CHECK_FALSE(message.receive.finished);
  pair.a->session().send_control(FrameKind::kHeartbeat, {}, {}, {});
  pair.settle();
  const auto heard = pair.b->session().take_control();
  REQUIRE(heard);
  CHECK(heard->header.kind == FrameKind::kHeartbeat);
  pair.wires[0]->cut();
  for (int i = 0; i < 1000 && !message.receive.finished; ++i) pair.turn();
  CHECK(message.is_right());
}

TEST_CASE("a peer that says goodbye ends the trunk, and one that is cut off does not") {
  TrunkPair pair;
  pair.a->session().send_control(FrameKind::kGoodbye, {}, {}, {});
  pair.settle();
  CHECK(pair.b->status().is_ok());
  pair.a->sever({Code::kPeerLost, "it leaves"});
  pair.settle();
  CHECK_FALSE(pair.b->status().is_ok());
  CHECK(pair.b->closed_by_peer());

  TrunkPair other;
  other.a->sever({Code::kPeerLost, "it is cut off"});
  other.settle();
  CHECK(other.b->status().is_ok());
  CHECK(other.b->is_down());
}

TEST_CASE("a new beginning has numbers of its own") {
  TrunkPair pair;
  Message message(*pair.a, *pair.b, 1, 4 << 20);
  pair.turn();
  auto [left, right] = pair.connect();
  pair.a->renew(std::move(left));
  pair.b->renew(std::move(right));
  CHECK(message.send.failed);
  Message second(*pair.a, *pair.b, 2, 4 << 20);
  for (int i = 0; i < 1000 && !second.receive.finished; ++i) pair.turn();
  CHECK(second.is_right());
}

TEST_CASE("where there are too many lanes a new one takes an old one's place") {
  TrunkPair pair({99, 2});
  for (unsigned i = 0; i < 2 * kSurplusLanes; ++i) pair.join();
  pair.settle();
  CHECK(pair.a->lanes() <= 2 + kSurplusLanes);
  CHECK(pair.b->lanes() <= 2 + kSurplusLanes);
  pair.a->trim({});
  CHECK(pair.a->lanes() > 2);  // others may be on their way
  pair.a->trim({std::chrono::minutes(1)});
  pair.settle();
  CHECK(pair.a->lanes() == 2);
  CHECK(pair.b->lanes() <= 2);
  Message message(*pair.a, *pair.b, 1, 1 << 20);
  for (int i = 0; i < 100; ++i) {
    if (pair.a->is_down() || pair.b->is_down()) pair.join();
    pair.turn();
  }
  CHECK(message.is_right());
}

// Each has the other's lane before its own: both would give up the one that the other keeps.
TEST_CASE("two that call each other at once keep a lane") {
  TrunkPair pair({99, 1});
  pair.settle();
  pair.wires.back()->cut();
  pair.settle();
  REQUIRE(pair.a->is_down());
  auto [left, right] = pair.connect();
  auto [further_left, further_right] = pair.connect();
  pair.a->join(std::move(left));
  pair.b->join(std::move(further_right));
  pair.b->join(std::move(right));
  pair.a->join(std::move(further_left));
  pair.settle();
  CHECK_FALSE(pair.a->is_down());
  CHECK_FALSE(pair.b->is_down());
  pair.a->trim({});
  pair.a->trim({std::chrono::minutes(1)});
  pair.settle();
  CHECK(pair.a->lanes() == 1);
  CHECK(pair.b->lanes() == 1);
}

TEST_CASE("a goodbye counts when all that was sent before it has come") {
  const auto fds = make_sockets();
  TrunkLink link({fds[0]}, kTerms);
  std::array<std::byte, kLaneHeaderBytes + kFrameHeaderBytes> bytes{};
  const auto say = [&](int fd, FrameKind kind, std::uint64_t number) {
    const std::span<std::byte> all = bytes;
    encode_lane_header({TrunkStream::kBulk, 1, number, {}}, all.first<kLaneHeaderBytes>());
    FrameHeader header;
    header.kind = kind;
    encode_header(header, all.subspan<kLaneHeaderBytes, kFrameHeaderBytes>());
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  };
  say(fds[1], FrameKind::kGoodbye, 1);
  pump(link);
  ::close(fds[1]);
  pump(link);
  CHECK(link.is_down());
  const auto again = make_sockets();
  link.join({again[0]});
  say(again[1], FrameKind::kMail, 0);
  pump(link);
  CHECK(link.session().take_control()->header.kind == FrameKind::kMail);
  CHECK(link.session().take_control()->header.kind == FrameKind::kGoodbye);
  ::close(again[1]);
  pump(link);
  CHECK(link.closed_by_peer());
}

TEST_CASE("a trunk tells how it is: lanes, cuts by reason, and since when it is down") {
  LinkMeter meter;
  const Instant begun{std::chrono::seconds(1000)};
  TrunkPair pair;
  pair.a->set_meter(&meter);
  pair.join();
  pair.settle();
  pair.a->look(begun);
  const TrunkMeter& told = meter.trunk;
  CHECK(told.stands.value() == 1);
  CHECK(told.lanes.value() == 2);
  CHECK(told.last_cut_ns.value() == 0);
  CHECK(told.down_since_ns.value() == 0);

  pair.wires[1]->cut();
  pair.settle();
  pair.a->look(begun + std::chrono::seconds(1));
  CHECK(told.lanes.value() == 1);
  CHECK(told.cuts[static_cast<std::size_t>(LaneCut::kReset)].value() == 1);
  CHECK(static_cast<LaneCut>(told.last_cut.value()) == LaneCut::kReset);
  CHECK(told.last_cut_ns.value() == (begun + std::chrono::seconds(1)).since_origin.count());
  CHECK(told.recent_cuts.value() == 1);

  pair.wires[0]->cut();
  pair.settle();
  pair.a->look(begun + std::chrono::seconds(2));
  pair.a->look(begun + std::chrono::seconds(3));
  CHECK(told.lanes.value() == 0);
  CHECK(told.recent_cuts.value() == 2);
  CHECK(told.down_since_ns.value() == (begun + std::chrono::seconds(2)).since_origin.count());

  pair.join();
  pair.settle();
  pair.a->look(begun + std::chrono::seconds(4));
  CHECK(told.down_since_ns.value() == 0);
  CHECK(told.resumed.value() == 1);
  pair.a->look(begun + std::chrono::seconds(2) + kRecentCut);
  CHECK(told.recent_cuts.value() == 0);

  pair.a->sever({Code::kPeerLost, "it leaves"});
  CHECK(told.stands.value() == 0);
}

TEST_CASE("a peer that has said goodbye cuts nothing, and one that just closes does") {
  const auto closed = static_cast<std::size_t>(LaneCut::kClosed);
  for (const bool says_goodbye : {true, false}) {
    TrunkPair pair;
    if (says_goodbye) pair.a->session().send_control(FrameKind::kGoodbye, {}, {}, {});
    pair.settle();
    pair.a->sever({Code::kPeerLost, "it leaves"});
    pair.settle();
    CHECK(pair.b->measured().trunk.cuts[closed].value() == (says_goodbye ? 0 : 1));
  }
}

TEST_CASE("a direct lane takes the place of one through a relay, and that is no cut") {
  TrunkPair pair;
  auto [left, right] = pair.connect();
  left.relayed = right.relayed = true;
  pair.a->renew(std::move(left));
  pair.b->renew(std::move(right));
  pair.settle();
  CHECK(pair.a->is_relayed());
  pair.join();
  pair.settle();
  CHECK_FALSE(pair.a->is_relayed());
  for (const TrunkLink* each : {pair.a.get(), pair.b.get()}) {
    for (const auto& cut : each->measured().trunk.cuts) CHECK(cut.value() == 0);
  }
}

TEST_CASE("what the system says of a connection has a name") {
  CHECK(lane_cut_name(lane_cut_of(0)) == "closed");
  CHECK(lane_cut_name(lane_cut_of(ECONNRESET)) == "reset");
  CHECK(lane_cut_name(lane_cut_of(ETIMEDOUT)) == "timeout");
  CHECK(lane_cut_name(lane_cut_of(EBADMSG)) == "altered");
  CHECK(lane_cut_name(lane_cut_of(ENOBUFS)) == "error");
  CHECK(kTcpControls[tcp_control_index("bbr")] == "bbr");
  CHECK(kTcpControls[tcp_control_index("a new one")] == "other");
}

// Lanes are cut, fall silent and come anew at random, in both directions at once.
TEST_CASE("messages are whole and in order whatever becomes of the lanes") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    TrunkPair pair;
    std::deque<Message> messages;
    for (std::uint32_t op = 0; op < 24; ++op) {
      const std::size_t bytes = random() % 4 == 0 ? random() % 3'000'000 : random() % 50'000;
      const bool forth = random() % 2 == 0;
      messages.emplace_back(forth ? *pair.a : *pair.b, forth ? *pair.b : *pair.a, op + 1, bytes);
    }
    std::size_t heartbeats = 0;
    constexpr std::size_t kBeats = 30;
    std::size_t told = 0;
    for (int turn = 0; turn < 4000; ++turn) {
      pair.turn();
      while (pair.b->session().take_control()) ++told;
      if (random() % 20 == 0 && heartbeats < kBeats) {
        pair.a->session().send_control(FrameKind::kHeartbeat, {}, {}, {});
        ++heartbeats;
      }
      if (random() % 25 == 0) pair.join();
      Wire& wire = *pair.wires[random() % pair.wires.size()];
      const auto what = turn < 600 ? random() % 40 : 2;
      if (what == 0) wire.cut();
      if (what == 1) wire.silent = true;
      // One that is silent is noticed in the end.
      if (what == 2 && wire.silent) wire.cut();
      REQUIRE(pair.a->status().is_ok());
      REQUIRE(pair.b->status().is_ok());
    }
    for (const Message& message : messages) CHECK(message.is_right());
    CHECK(told == heartbeats);
    CHECK(pair.a->session().idle());
    CHECK(pair.b->session().idle());
  }
}

TEST_CASE("bytes that no peer sends end the trunk") {
  const auto fds = make_sockets();
  TrunkLink link({fds[0]}, kTerms);
  const std::array<char, 64> nonsense{0x7f};
  REQUIRE(::write(fds[1], nonsense.data(), nonsense.size()) == 64);
  pump(link);
  CHECK(link.status().code() == Code::kProtocolError);
  ::close(fds[1]);
}

TEST_CASE("a confirmation of what was never sent ends the trunk") {
  const auto fds = make_sockets();
  TrunkLink link({fds[0]}, kTerms);
  std::array<std::byte, kLaneHeaderBytes> bytes{};
  encode_lane_header({std::nullopt, 0, 0, {0, 1000}}, bytes);
  REQUIRE(::write(fds[1], bytes.data(), bytes.size()) == kLaneHeaderBytes);
  pump(link);
  CHECK(link.status().code() == Code::kProtocolError);
  ::close(fds[1]);
}

}  // namespace
}  // namespace holdfast::comm

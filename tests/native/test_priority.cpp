// Priorities of ops: who goes first on a link and among the runs of a rank, and that nobody
// starves.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/gate.h"
#include "comm/view/view_communicator.h"
#include "health/flight_recorder.h"
#include "host_areas.h"
#include "worlds.h"

namespace holdfast::comm {
namespace {

using holdfast::testing::all_reduce;
using holdfast::testing::expect_no_errors;
using holdfast::testing::Member;
using holdfast::testing::run_world;
using std::chrono::seconds;

// A message whose receiver is ready for all of it.
struct Message {
  Message(std::uint32_t op, std::size_t bytes, int priority) : data(bytes) {
    post.key.op = op;
    post.total_bytes = post.ready = post.granted = bytes;
    post.data = data.data();
    post.priority = priority;
    post.touched = &touched;
  }
  std::vector<std::byte> data;
  bool touched = false;
  SendPost post;
};

// Which op the next data frame is of.
std::uint32_t next_op(Session& session) {
  for (;;) {
    OutFrame frame;
    REQUIRE(session.next_frame(kMaxFramePayload, frame));
    session.sent(frame);
    if (frame.post != nullptr) return frame.header.key.op;
  }
}

std::vector<std::uint32_t> next_ops(Session& session, std::size_t count) {
  std::vector<std::uint32_t> ops;
  for (std::size_t i = 0; i < count; ++i) ops.push_back(next_op(session));
  return ops;
}

TEST_CASE("an urgent message passes those under way at the next frame") {
  Session session;
  Message first(1, 8 * kMaxFramePayload, 0);
  Message second(2, 8 * kMaxFramePayload, 0);
  Message urgent(3, 2 * kMaxFramePayload, 7);
  session.post(first.post);
  session.post(second.post);
  CHECK(next_ops(session, 3) == std::vector<std::uint32_t>{1, 2, 1});
  session.post(urgent.post);
  CHECK(next_ops(session, 4) == std::vector<std::uint32_t>{3, 3, 2, 1});
  CHECK(urgent.post.finished);
}

TEST_CASE("what has the lowest priority still gets its share of the frames") {
  Session session;
  Message bulk(1, 3 * kMaxFramePayload, -1);
  Message urgent(2, 64 * kMaxFramePayload, 1);
  session.post(bulk.post);
  session.post(urgent.post);
  int frames = 0;
  for (; !bulk.post.finished; ++frames) next_op(session);
  CHECK(frames <= 3 * static_cast<int>(kMostPassed + 2));
  CHECK(frames > 2 * static_cast<int>(kMostPassed));
  CHECK_FALSE(urgent.post.finished);
}

class StillClock final : public Clock {
 public:
  Instant now() const override { return {}; }
};

// One rank's communicator over shared memory alone, and the order in which its ops end.
class OneRank final : public ViewOwner {
 public:
  OneRank(int rank, std::vector<HostPeer> peers) {
    CommunicatorConfig config;
    config.id = {1};
    config.rank = {rank};
    config.view = {{1}, std::vector<MemberId>(peers.size())};
    for (std::size_t r = 0; r < peers.size(); ++r) {
      config.ranks.push_back({static_cast<std::int32_t>(r)});
    }
    config.group_size = static_cast<int>(peers.size());
    config.fabric = topology::Fabric::evenly(config.group_size, 1, topology::kShmLink).value();
    config.links.resize(peers.size());
    for (const auto lane : {SliceLane::kBulk, SliceLane::kSmall}) {
      config.slices.emplace_back(Rank{rank}, Epoch{1}, peers, kSliceBytes, lane);
    }
    communicator_ = std::make_unique<ViewCommunicator>(std::move(config), *this,
                                                       std::make_shared<StillClock>());
  }

  void launch(std::uint64_t number, OpRequest request) {
    auto work = std::make_shared<OpWork>(std::move(request), OpSeq{number}, nullptr, nullptr);
    communicator_->launch({work, {work, &work->request()}, Instant{Duration::max()}});
  }
  void turn() { communicator_->progress({}); }
  bool has_ended(std::uint64_t number) const {
    return std::find(ended_.begin(), ended_.end(), number) != ended_.end();
  }

  void on_op_ended(const std::shared_ptr<OpWork>& work, Held) override {
    ended_.push_back(work->sequence().value);
  }
  void on_stable(OpSeq) override {}
  void on_missed(Rank, const Status& why) override { FAIL(why.message()); }
  void on_view_failed(const Status& why) override { FAIL(why.message()); }

 private:
  std::vector<std::uint64_t> ended_;
  std::unique_ptr<ViewCommunicator> communicator_;
};

constexpr std::size_t kLarge = 64 * kSliceBytes / sizeof(float);
constexpr std::size_t kSmall = 2 * kSliceBytes / sizeof(float);

struct Turns {
  int large = 0;
  int small = 0;
};

// Turns that a large op and a small one, called in this order, take on two ranks in one thread.
Turns turns_of(int large_priority, int small_priority) {
  testing::HostAreas areas(2);
  std::vector<std::unique_ptr<OneRank>> ranks;
  std::vector<std::vector<float>> memory;
  memory.reserve(4);
  for (int r = 0; r < 2; ++r) {
    ranks.push_back(std::make_unique<OneRank>(r, areas.peers()));
    std::uint32_t number = 0;
    for (const auto& [count, priority] :
         {std::pair{kLarge, large_priority}, std::pair{kSmall, small_priority}}) {
      memory.emplace_back(count, 1.0F);
      OpRequest request = all_reduce(memory.back());
      request.priority = priority;
      ranks.back()->launch(number++, std::move(request));
    }
  }
  Turns turns;
  for (int turn = 1; turns.large == 0 || turns.small == 0; ++turn) {
    REQUIRE(turn < 1000);
    for (const auto& rank : ranks) rank->turn();
    if (turns.large == 0 && ranks[0]->has_ended(0)) turns.large = turn;
    if (turns.small == 0 && ranks[0]->has_ended(1)) turns.small = turn;
  }
  for (const auto& array : memory) {
    CHECK(std::all_of(array.begin(), array.end(), [](float x) { return x == 2.0F; }));
  }
  return turns;
}

TEST_CASE("a small op does not wait for a large one, an urgent one for no piece of it") {
  const Turns alike = turns_of(0, 0);
  const Turns urgent = turns_of(0, 1);
  const Turns late = turns_of(1, 0);
  MESSAGE("turns of the small op: ", urgent.small, " urgent, ", alike.small, " alike, ", late.small,
          " late; of the large one: ", urgent.large, ", ", alike.large, ", ", late.large);
  CHECK(alike.small < alike.large / 2);
  CHECK(urgent.small <= alike.small);
  CHECK(urgent.large > alike.large);
  // Passed, but not left behind.
  CHECK(late.small > alike.small);
  CHECK(late.small < late.large);
  CHECK(late.large <= alike.large);
}

// Open when all ranks have called all their ops: a machine that is busy may take one of them away
// between two calls, until the bulk is done.
class StartingGate final : public Gate {
 public:
  explicit StartingGate(int ranks) : missing_(ranks) {}
  std::optional<Status> look() override {
    return missing_.load() == 0 ? std::optional(Status::ok()) : std::nullopt;
  }
  void arrive() { missing_.fetch_sub(1); }

 private:
  std::atomic<int> missing_;
};

// Whether the last op of this rank ended before some of the others.
bool last_ended_early(const Communicator& group) {
  const auto log = health::read_flight(group.flight_record());
  if (!log.is_ok()) return false;
  const auto& entries = log.value().entries;
  const Instant urgent = entries.back().ended;
  return std::any_of(entries.begin(), entries.end() - 1,
                     [&](const health::FlightEntry& entry) { return entry.ended > urgent; });
}

// A small urgent op beside eight large ones.
std::string urgent_beside_bulk(int rank, Member& member,
                               const std::shared_ptr<StartingGate>& gate) {
  constexpr std::size_t kBulks = 8;
  std::vector<std::vector<float>> bulk(kBulks, std::vector<float>(2'000'000, 1.0F));
  std::vector<float> small(50'000, static_cast<float>(rank));
  std::vector<std::shared_ptr<Work>> works;
  for (auto& buffer : bulk) {
    OpRequest request = all_reduce(buffer);
    if (works.empty()) request.how.gate = gate;
    works.push_back(member.group->start(std::move(request)).value());
  }
  OpRequest request = all_reduce(small);
  // Each rank orders its own work.
  request.priority = 3 + rank;
  auto urgent = member.group->start(std::move(request));
  if (!urgent.is_ok()) return urgent.status().message();
  gate->arrive();
  member.group->wake();
  Status status = urgent.value()->wait(seconds(60));
  for (const auto& work : works) {
    if (status.is_ok()) status = work->wait(seconds(60));
  }
  if (!status.is_ok()) return status.message();
  if (small[49'999] != 1.0F || bulk[7][1'999'999] != 2.0F) return "wrong sum";
  return last_ended_early(*member.group) ? "" : "the urgent op was the last to end";
}

TEST_CASE("an urgent op ends before bulk ops that were called before it") {
  for (const std::string transport : {"shm", "tcp"}) {
    const auto gate = std::make_shared<StartingGate>(2);
    expect_no_errors(run_world(2, transport, [&](int rank, Member& member) {
      return urgent_beside_bulk(rank, member, gate);
    }));
  }
}

}  // namespace
}  // namespace holdfast::comm

// How a member leaves: whom it tells, when it may go, and how it answers others.
#include "group/parts/departure.h"

#include <doctest/doctest.h>

#include <tuple>

#include "ft/message.h"

namespace holdfast::ft {
namespace {

using comm::FrameKind;
using std::chrono::milliseconds;

constexpr MemberId kSelf{1};
constexpr MemberId kB{2};
constexpr MemberId kC{3};
constexpr Instant kStart = Instant{} + std::chrono::hours(1);

struct Host final : group::DepartureHost {
  bool quiet() const override { return is_quiet; }
  Status health() const override { return ended; }
  std::uint64_t first_uncalled() const override { return uncalled; }
  std::uint64_t first_running() const override { return running; }
  std::uint64_t first_kept() const override { return kept; }
  std::vector<Rank> ranks_at_large() const override { return at_large; }
  void await_outcasts(Instant) override { ++awaited; }
  bool has_given_up() const override { return given_up; }
  void part_soon() override { ++parts; }
  void tell(MemberId member, FrameKind kind, Epoch epoch) override {
    told.emplace_back(member, kind, epoch);
  }
  bool is_sparse() const override { return sparse; }
  void tell_of(MemberId member, FrameKind kind, Epoch, std::uint64_t next,
               group::Ask ask) override {
    told_of.emplace_back(member, kind, next, ask);
  }
  std::vector<std::tuple<MemberId, FrameKind, Epoch>> take_told() {
    return std::exchange(told, {});
  }

  bool is_quiet = true;
  Status ended;
  std::uint64_t uncalled = 5;
  std::uint64_t running = 5;
  std::uint64_t kept = 5;
  std::vector<Rank> at_large;
  bool given_up = false;
  int awaited = 0;
  int parts = 0;
  bool sparse = false;
  std::vector<std::tuple<MemberId, FrameKind, std::uint64_t, group::Ask>> told_of;
  std::vector<std::tuple<MemberId, FrameKind, Epoch>> told;
};

using Told = std::vector<std::tuple<MemberId, FrameKind, Epoch>>;

struct Member {
  Member() { roster.take({2}, {kSelf, kB, kC}, {{0}, {1}, {2}}); }
  std::shared_ptr<group::Leaving> leave(Instant now = kStart) {
    auto leaving = std::make_shared<group::Leaving>();
    departure.begin(leaving, now);
    return leaving;
  }
  group::Roster roster{Rank{0}, Epoch{1}, {}, {}};
  Host host;
  group::Departure departure{{"job", kSelf, true, milliseconds(10)}, roster, host};
};

TEST_CASE("a leaver asks all others, again and again, and has settled when all have answered") {
  Member m;
  const auto leaving = m.leave();
  const Told asked{{kB, FrameKind::kClosing, {2}}, {kC, FrameKind::kClosing, {2}}};
  CHECK(m.host.take_told() == asked);
  CHECK(m.departure.next_deadline() == kStart + milliseconds(10));
  m.departure.progress(kStart + milliseconds(9));
  CHECK(m.host.take_told().empty());
  m.departure.on_settled(kB, {2});
  m.departure.on_settled(kC, {1});  // of another view
  m.departure.progress(kStart + milliseconds(10));
  CHECK(m.host.take_told() == Told{{kC, FrameKind::kClosing, {2}}});
  CHECK_FALSE(leaving->settled);
  m.departure.on_settled(kC, {2});
  m.departure.progress(kStart + milliseconds(11));
  CHECK(leaving->settled);
  CHECK(leaving->outcome.is_ok());
}

TEST_CASE("a leaver waits for its own ops before it asks") {
  Member m;
  m.host.is_quiet = false;
  const auto leaving = m.leave();
  CHECK_FALSE(leaving->quiet);
  CHECK(m.host.take_told().empty());
  CHECK(m.departure.status().code() == Code::kTimeout);
  m.host.is_quiet = true;
  m.departure.progress(kStart);
  CHECK(leaving->quiet);
  CHECK(m.host.awaited == 1);
  CHECK(m.host.take_told().size() == 2);
}

TEST_CASE("who goes as well, or has left, need not answer") {
  Member m;
  m.roster.gone.emplace_back(kB, Status(Code::kPeerLost, "the peer left"));
  m.roster.left.insert(kB);
  const auto leaving = m.leave();
  CHECK(m.host.take_told() == Told{{kC, FrameKind::kClosing, {2}}});
  m.departure.on_closing(kC, {2}, {5});
  m.departure.progress(kStart);
  CHECK(leaving->settled);
}

TEST_CASE("who goes without an answer says what is not known") {
  Member m;
  m.leave();
  m.host.kept = 3;
  const Status kept = m.departure.status();
  CHECK(kept.code() == Code::kUnconfirmed);
  CHECK(kept.ranks() == std::vector<Rank>{{1}, {2}});
  CHECK(kept.message().find("collective #3 and later") != std::string::npos);
  m.host.kept = 5;
  CHECK(m.departure.status().message().find("may go on alone") != std::string::npos);
  m.host.ended = Status(Code::kAborted, "aborted");
  CHECK(m.departure.status().is_ok());
}

TEST_CASE("a leaver that all have answered parts, and waits for who was voted out") {
  Member m;
  m.host.at_large = {{2}};
  m.roster.take({3}, {kSelf, kB, kNobody}, {{0}, {1}, {2}});
  m.departure.on_view();
  const auto leaving = m.leave();
  m.departure.on_settled(kB, {3});
  m.departure.progress(kStart);
  CHECK(m.host.parts == 1);
  CHECK(m.departure.part());
  CHECK_FALSE(m.departure.part());
  m.departure.progress(kStart);
  CHECK_FALSE(leaving->settled);
  m.host.given_up = true;
  m.departure.progress(kStart);
  CHECK(leaving->settled);
  CHECK(leaving->outcome.code() == Code::kUnconfirmed);
}

TEST_CASE("another's question is answered when all that it has ended has ended here") {
  Member m;
  m.host.running = 3;
  m.departure.on_closing(kB, {2}, {5});
  CHECK(m.departure.has_leavers());
  CHECK(m.host.take_told().empty());
  m.host.running = 5;
  m.departure.progress(kStart);
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kSettled, {2}}});
  CHECK(m.departure.is_idle());
}

TEST_CASE("a question of a later view waits for that view, and one of an earlier is void") {
  Member m;
  m.departure.on_closing(kB, {1}, {5});
  CHECK(m.departure.is_idle());
  m.departure.on_closing(kB, {3}, {5});
  CHECK(m.host.take_told().empty());
  m.roster.take({3}, {kSelf, kB, kC}, {{0}, {1}, {2}});
  m.departure.on_view();
  m.departure.progress(kStart);
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kSettled, {3}}});
}

TEST_CASE("what was said over a connection that broke is said again") {
  Member m;
  m.departure.on_relinked(kB);
  CHECK(m.host.take_told().empty());
  m.leave();
  m.host.take_told();
  m.departure.on_relinked(kB);
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kClosing, {2}}});
}

// Of a sparse world; the first member asks for all.
TEST_CASE("the first member answers a leaver when all others have ended its collectives") {
  using group::Ask;
  Member m;
  m.host.sparse = true;
  m.departure.on_closing(kB, {2}, {5});
  CHECK(m.host.take_told().empty());
  m.departure.progress(kStart);
  using Asked = std::vector<std::tuple<MemberId, FrameKind, std::uint64_t, Ask>>;
  CHECK(std::exchange(m.host.told_of, {}) == Asked{{kC, FrameKind::kClosing, 5, Ask::kForOthers}});
  m.departure.on_settled(kC, {2}, {4}, Ask::kForOthers);
  m.departure.progress(kStart);
  CHECK(m.host.take_told().empty());
  m.departure.on_settled(kC, {2}, {5}, Ask::kForOthers);
  m.departure.progress(kStart);
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kSettled, {2}}});
  // It leaves as well, and tells who stays what all have ended.
  const auto leaving = m.leave();
  m.departure.progress(kStart);
  CHECK(leaving->settled.load());
  CHECK(m.host.told_of == Asked{{kC, FrameKind::kSettled, 5, Ask::kForAll}});
}

TEST_CASE("a leaver that has called nothing is asked for, too") {
  Member m;
  m.host.sparse = true;
  m.departure.on_closing(kB, {2}, {0});
  m.departure.progress(kStart);
  REQUIRE(m.host.told_of.size() == 1);
  CHECK(std::get<MemberId>(m.host.told_of[0]) == kC);
  m.departure.on_settled(kC, {2}, {0}, group::Ask::kForOthers);
  m.departure.progress(kStart);
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kSettled, {2}}});
}

TEST_CASE("a leaver asks the first member alone, and nobody what all have ended") {
  Member m;
  m.host.sparse = true;
  m.roster = group::Roster{Rank{1}, Epoch{1}, {}, {}};
  m.roster.take({2}, {kB, kSelf, kC}, {{0}, {1}, {2}});
  const auto leaving = m.leave();
  CHECK(m.host.take_told() == Told{{kB, FrameKind::kClosing, {2}}});
  m.departure.progress(kStart);
  CHECK_FALSE(leaving->settled.load());
  m.departure.on_settled(kB, {2}, {5}, group::Ask::kForAll);
  m.departure.progress(kStart);
  CHECK(leaving->settled.load());
}

}  // namespace
}  // namespace holdfast::ft

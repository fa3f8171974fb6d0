// Ops from view to view, in a group whose other members only report.
#include "group/parts/op_table.h"

#include <doctest/doctest.h>

#include "comm/transport/inproc.h"
#include "group_parts.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kSelf{1};
constexpr MemberId kOther{2};
constexpr MemberId kThird{3};
constexpr Instant kDeadline = Instant{} + std::chrono::hours(2);

class Host final : public group::OpHost, public comm::ViewOwner {
 public:
  void end(std::shared_ptr<comm::OpWork> work, Status status) override {
    const group::OpTable::Ended ended = table->take(*work, status.is_ok(), comm::OnHole::kRaise);
    if (ended.hole) status = *ended.hole;
    ends.emplace_back(work->sequence().value, status.code());
  }
  void end_badly(const std::shared_ptr<comm::OpWork>& work, const Status& cause) override {
    end(work, cause);
  }
  std::shared_ptr<comm::OpWork> make_server(const comm::OpRequest& request,
                                            OpSeq sequence) const override {
    return testing::make_work(request, sequence.value);
  }
  void on_op_ended(const std::shared_ptr<comm::OpWork>& work, comm::Held held) override {
    table->on_ended(work, held);
  }
  void on_stable(OpSeq through) override { table->on_stable(through); }
  void on_missed(Rank, const Status&) override {}
  void on_view_failed(const Status&) override {}

  group::OpTable* table = nullptr;
  std::vector<std::pair<std::uint64_t, Code>> ends;
};

using Ends = std::vector<std::pair<std::uint64_t, Code>>;

// Rank 0 of two. Alone it ends at once what it begins; the other one never sends anything.
struct Member {
  explicit Member(bool raises = false) : table(roster, raises, 0, nullptr, clock, watch, host) {
    host.table = &table;
    roster.take({1}, {kSelf, kOther}, {{0}, {1}});
  }
  std::unique_ptr<comm::ViewCommunicator> make_view() {
    comm::CommunicatorConfig config;
    config.view = {roster.epoch, roster.members_present()};
    config.ranks = roster.present;
    config.group_size = static_cast<int>(roster.members.size());
    config.name = "job";
    config.links.resize(roster.present.size());
    if (roster.present.size() == 2) config.links[1] = {link.first.get(), link.first.get()};
    config.fabric =
        topology::Fabric::evenly(static_cast<int>(roster.present.size()), 1, topology::kTcpLink)
            .value();
    return std::make_unique<comm::ViewCommunicator>(std::move(config), host, clock);
  }
  void call(std::uint64_t number, comm::ViewCommunicator* comm) {
    table.launch(testing::make_work(testing::sum_in_place(data), number), kDeadline, comm);
  }
  // The other member is lost; this one reports, and goes on alone.
  void lose_other(std::unique_ptr<comm::ViewCommunicator> ended) {
    if (ended) table.note_stopped(ended->interrupt());
    group::GroupReport report;
    report.next_sequence = table.first_uncalled();
    table.report(report.ops);
    group::OpTable::Change change{{{kSelf, std::make_shared<const group::GroupReport>(report)}},
                                  roster.present,
                                  roster.members};
    roster.take({2}, {kSelf, kNobody}, {{0}, {1}});
    next = make_view();
    table.settle(change, {next.get(), ended.get()});
    if (ended) ended->abandon();
    for (int i = 0; i < 10; ++i) next->progress(clock->time);
  }

  std::pair<std::unique_ptr<comm::Link>, std::unique_ptr<comm::Link>> link =
      comm::make_inproc_pair();
  std::vector<float> data = std::vector<float>(4, 3);
  group::Roster roster{Rank{0}, Epoch{1}, {}, {}};
  std::shared_ptr<testing::SetClock> clock = std::make_shared<testing::SetClock>();
  group::OpWatch watch{CommId{7}, Rank{0}, nullptr, clock};
  Host host;
  group::OpTable table;
  std::unique_ptr<comm::ViewCommunicator> next;
};

TEST_CASE("ops that are called between two views wait for the next, and begin in order") {
  Member m;
  m.roster.take({1}, {kSelf, kNobody}, {{0}, {1}});
  m.call(0, nullptr);
  m.call(1, nullptr);
  CHECK(m.host.ends.empty());
  CHECK(m.table.first_running() == 0);
  CHECK(m.table.first_uncalled() == 2);
  const auto view = m.make_view();
  m.table.begin_all(*view);
  for (int i = 0; i < 10; ++i) view->progress(m.clock->time);
  CHECK(m.host.ends == Ends{{0, Code::kOk}, {1, Code::kOk}});
  CHECK(m.table.empty());
  CHECK(m.table.first_running() == 2);
}

TEST_CASE("an op that a loss cut off goes on among the survivors") {
  Member m;
  auto view = m.make_view();
  m.call(0, view.get());
  CHECK(m.host.ends.empty());
  m.lose_other(std::move(view));
  CHECK(m.host.ends == Ends{{0, Code::kOk}});
  CHECK(m.data == std::vector<float>(4, 3));
}

TEST_CASE("where losses raise, an op that a loss cut off, and all after it, are refused") {
  Member m(true);
  auto view = m.make_view();
  m.call(0, view.get());
  m.table.set_broken({Code::kPeerLost, "a member was lost"});
  m.lose_other(std::move(view));
  m.call(1, m.next.get());
  CHECK(m.host.ends == Ends{{0, Code::kPeerLost}, {1, Code::kPeerLost}});
  m.table.meet_at(7);
  CHECK(m.table.broken().is_ok());
  CHECK(m.table.first_uncalled() == 7);
}

TEST_CASE("where the members meet, they forget what the dead had called") {
  Member m(true);
  m.roster.take({1}, {kSelf, kOther, kThird}, {{0}, {1}, {2}});
  group::GroupReport called;
  called.next_sequence = 2;
  called.ops = {{{0}, false, false, {1}, {}}, {{1}, false, false, {1}, {}}};
  const group::OpTable::Change change{
      {{kSelf, std::make_shared<const group::GroupReport>()},
       {kOther, std::make_shared<const group::GroupReport>(called)}},
      m.roster.present,
      m.roster.members};
  m.roster.take({2}, {kSelf, kOther, kNobody}, {{0}, {1}, {2}});
  const auto second = m.make_view();
  m.table.settle(change, {second.get(), nullptr});
  CHECK(m.table.awaits_calls());
  // The caller dies, too. The view of the boundary may come after the first call.
  m.call(0, nullptr);
  m.roster.take({3}, {kSelf, kNobody, kNobody}, {{0}, {1}, {2}});
  m.table.meet_at(0);
  CHECK_FALSE(m.table.awaits_calls());
  const auto third = m.make_view();
  m.table.begin_all(*third);
  m.call(1, third.get());
  for (int i = 0; i < 10; ++i) third->progress(m.clock->time);
  CHECK(m.host.ends == Ends{{0, Code::kOk}, {1, Code::kOk}});
}

TEST_CASE("an op is late at its own deadline") {
  Member m;
  m.call(0, nullptr);
  CHECK(m.table.next_deadline() == kDeadline);
  CHECK_FALSE(m.table.is_late(m.clock->time));
  CHECK(m.table.is_late(kDeadline));
  m.host.end(m.table.first_work(), {Code::kTimeout, "late"});
  CHECK(m.table.next_deadline() == Instant{Duration::max()});
}

}  // namespace
}  // namespace holdfast::ft

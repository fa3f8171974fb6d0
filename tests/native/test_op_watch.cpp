// What the observer is told of ops, and what it is not asked for.
#include "group/parts/op_watch.h"

#include <doctest/doctest.h>

#include <string>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

using std::chrono::milliseconds;
using testing::make_work;

class Listener final : public comm::Observer {
 public:
  void on_op_begun(const ObservedOp& op, comm::OpTicket& ticket, Instant now) override {
    ticket.number = ++numbers_;
    ticket.started = now;
    epoch = op.epoch;
  }
  void on_path_taken(const comm::OpTicket&, Epoch) override { ++paths; }
  void on_waited(const comm::OpTicket& ticket, std::span<const Rank> peers,
                 Duration time) override {
    waits.push_back({ticket.number, {peers.begin(), peers.end()}, time});
  }
  void on_residual_left(compress::CodecId, double) override {}
  void on_op_ended(const comm::OpTicket&, Code code, bool repaired, Instant) override {
    ends.emplace_back(code, repaired);
  }
  void on_group_named(CommId, const std::string& name) override { group = name; }
  void on_linked(Rank peer, comm::Link&) override { links.push_back(peer); }
  void on_view_begun(const ObservedView&) override {}
  void on_member_lost(comm::LossCause) override {}
  void on_standing(comm::Standing standing) override { standings.push_back(standing); }

  struct Waited {
    std::uint64_t number;
    std::vector<Rank> peers;
    Duration time;
    bool operator==(const Waited&) const = default;
  };
  Epoch epoch;
  int paths = 0;
  std::vector<Waited> waits;
  std::vector<std::pair<Code, bool>> ends;
  std::string group;
  std::vector<Rank> links;
  std::vector<comm::Standing> standings;

 private:
  std::uint64_t numbers_ = 0;
};

struct Watched {
  Listener listener;
  std::shared_ptr<testing::SetClock> clock = std::make_shared<testing::SetClock>();
  group::OpWatch watch{CommId{7}, Rank{0}, &listener, clock};
  std::shared_ptr<comm::OpWork> work = make_work({}, 0);

  const comm::OpWork* choose() { return watch.choose(work.get(), nullptr, clock->time); }
};

TEST_CASE("an op is asked whom it waits for when it is old, and then once in so long") {
  Watched w;
  w.watch.began(*w.work, {3}, w.clock->time);
  CHECK(w.listener.epoch == Epoch{3});
  CHECK(w.watch.is_due(w.clock->time));
  CHECK(w.choose() == nullptr);
  CHECK_FALSE(w.watch.is_due(w.clock->time));
  w.clock->time = w.clock->time + milliseconds(2);
  CHECK(w.watch.is_due(w.clock->time));
  CHECK(w.choose() == w.work.get());
  w.watch.waits(*w.work, {{4}}, w.clock->time);
  w.clock->time = w.clock->time + milliseconds(3);
  REQUIRE(w.choose() == w.work.get());
  w.watch.waits(*w.work, {{5}}, w.clock->time);
  w.clock->time = w.clock->time + milliseconds(4);
  w.watch.ended(*w.work, Code::kOk, true);
  // Each wait counts from the last look, and the end counts for whom it waited last.
  CHECK(w.listener.waits == std::vector<Listener::Waited>{{1, {{4}}, milliseconds(2)},
                                                          {1, {{5}}, milliseconds(3)},
                                                          {1, {{5}}, milliseconds(4)}});
  CHECK(w.listener.ends == std::vector<std::pair<Code, bool>>{{Code::kOk, true}});
}

TEST_CASE("a collective is asked before a message, which is asked where no collective is old") {
  Watched w;
  const auto message = make_work({}, 1);
  w.watch.began(*w.work, {1}, w.clock->time);
  w.watch.began(*message, {1}, w.clock->time);
  w.clock->time = w.clock->time + milliseconds(2);
  CHECK(w.watch.choose(w.work.get(), message.get(), w.clock->time) == w.work.get());
  CHECK(w.watch.choose(nullptr, message.get(), w.clock->time) == message.get());
}

TEST_CASE("where nobody observes, nothing is due, and tickets stay blank") {
  group::OpWatch watch(CommId{7}, Rank{0}, nullptr, std::make_shared<testing::SetClock>());
  const auto work = make_work({}, 0);
  watch.began(*work, {1}, Instant{});
  watch.took_path(*work, {1});
  watch.ended(*work, Code::kOk, false);
  comm::OpTicket ticket;
  watch.began_inline(ticket, {}, {1}, {1});
  watch.ended_inline(ticket);
  CHECK(work->ticket().number == 0);
  CHECK(ticket.path == comm::OpPath::kNone);
  CHECK_FALSE(watch.is_due(Instant{} + std::chrono::hours(1)));
}

TEST_CASE("closing a group, or being voted out of it, is not its failure") {
  Watched w;
  w.watch.failed({Code::kNotMember, "closed"});
  CHECK(w.listener.standings.empty());
  w.watch.failed({Code::kAborted, "aborted"});
  CHECK(w.listener.standings == std::vector<comm::Standing>{comm::Standing::kEnded});
}

}  // namespace
}  // namespace holdfast::ft

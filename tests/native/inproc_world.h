// Ranks of one process in one thread: each has the router, the world and the group that a process
// of its own would have, on real time; their links are in-process pipes, made when two of them want
// to meet. There are no sockets, which are two descriptors for each connection: a thousand ranks
// would need more than a process may have.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/inproc.h"
#include "ft/neighbours.h"
#include "group/control_router.h"

namespace holdfast::testing {

class InprocRank;

// What the ranks have in common: who is there, and who wants to meet whom.
class InprocHall {
 public:
  virtual ~InprocHall() = default;
  virtual void call(MemberId from, MemberId to) = 0;
  virtual bool is_alive(MemberId member) const = 0;
};

class InprocRank final : public group::ControlRouterOwner,
                         public comm::Executor,
                         public std::enable_shared_from_this<InprocRank> {
 public:
  InprocRank(MemberId id, InprocHall& hall, const group::ControlRouter::Timing& timing)
      : id_(id), hall_(hall), timing_(timing), router_(id, timing, *this) {}

  MemberId id() const { return id_; }
  group::Group& group() { return *group_; }

  void found(const ft::WorldView& view, Rank rank, const ft::MembershipSettings& settings) {
    constexpr CommId kWorld{77};
    ft::Membership membership(kWorld, "world", id_, view, settings);
    world_ = std::make_shared<group::World>(kWorld, std::move(membership), router_);
    router_.add_world(world_);
    group::GroupConfig config;
    config.id = kWorld;
    config.name = "world";
    config.timeout = std::chrono::seconds(300);
    config.rank = rank;
    config.members = view.members;
    config.epoch = view.epoch;
    config.whole = true;
    for (std::size_t r = 0; r < view.members.size(); ++r) {
      config.world_ranks.push_back({static_cast<std::int32_t>(r)});
    }
    group_ = std::make_shared<group::Group>(std::move(config), world_, shared_from_this(), clock_);
    world_->add(group_, clock_->now());
  }

  void add_link(MemberId peer, std::unique_ptr<comm::Link> link) {
    comm::Link* control = link.get();
    auto& links = links_[peer];
    links.push_back(std::move(link));
    router_.add_peer(peer, control, control, clock_->now());
  }
  void on_ended(MemberId peer) { router_.on_process_ended(peer); }
  bool is_connected(MemberId peer) const { return router_.is_connected(peer); }
  std::size_t links() const { return links_.size(); }

  // Does what can be done now. Whether anything moved.
  bool step() {
    constexpr int kMostTurns = 8;  // others wait for their turns
    bool any = false;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      bool moved = run_tasks();
      moved = router_.turn(clock_->now()) || moved;
      moved = run_tasks() || moved;
      any = any || moved;
      if (!moved) break;
    }
    if (clock_->now() < next_reap_) return any;
    next_reap_ = clock_->now() + timing_.heartbeat;
    for (const MemberId gone : router_.take_forgotten()) links_.erase(gone);
    return any;
  }

  void say_goodbye() { router_.say_goodbye(); }
  // As a killed process: the others see its links end.
  void end() {
    if (!group_) return;
    group_->fence("the rank ended");
    run_tasks();
    group_.reset();
    world_.reset();
    run_tasks();
    links_.clear();
  }

  // comm::Executor.
  void submit(Task task, bool) override { tasks_.push_back(std::move(task)); }
  void defer(Task task) override { tasks_.push_back(std::move(task)); }
  bool drive_inline(const std::function<bool(bool)>&) override { return false; }
  bool has_tasks() const override { return !tasks_.empty(); }
  void drive_until(const std::function<bool()>&, Instant) override { run_tasks(); }
  // group::ControlRouterOwner.
  void want(const ft::Joiner& joiner) override { hall_.call(id_, joiner.member); }
  void mend(MemberId peer, const std::string&) override { hall_.call(id_, peer); }
  bool is_running_here(MemberId peer) const override { return hall_.is_alive(peer); }
  void nudge(MemberId) override {}
  std::string host_of(const std::string&) const override { return "host"; }
  std::string memory_of(const std::string&) const override { return {}; }
  Result<group::OwnArea> make_area() override {
    return Status(Code::kUnsupported, "ranks of one process need none");
  }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string&) override { return {}; }
  void say(const std::string&) override {}

 private:
  bool run_tasks() {
    const bool any = !tasks_.empty();
    while (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return any;
  }

  const MemberId id_;
  InprocHall& hall_;
  const group::ControlRouter::Timing timing_;
  const std::shared_ptr<const Clock> clock_ = std::make_shared<MonotonicClock>();
  group::ControlRouter router_;
  // By peer, with those that are not used any more until the router forgets the peer.
  std::map<MemberId, std::vector<std::unique_ptr<comm::Link>>> links_;
  std::shared_ptr<group::World> world_;
  std::shared_ptr<group::Group> group_;
  std::deque<Task> tasks_;
  Instant next_reap_{};
};

class InprocWorld final : public InprocHall {
 public:
  explicit InprocWorld(int size, ft::Mesh mesh = ft::Mesh::kAuto) {
    const group::ControlRouter::Timing timing{std::chrono::milliseconds(500),
                                              std::chrono::seconds(10)};
    ft::MembershipSettings settings;
    settings.heartbeat = timing.heartbeat;
    settings.silence = timing.silence;
    settings.mesh = mesh;
    ft::WorldView view;
    view.epoch = {1};
    for (int r = 0; r < size; ++r) {
      const MemberId id{kFirstId + static_cast<std::uint64_t>(r)};
      view.members.push_back(id);
      view.cards.push_back("rank " + std::to_string(r) + std::string(kCardBytes, '.'));
      ranks_.push_back(std::make_shared<InprocRank>(id, *this, timing));
      alive_.push_back(true);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r]->found(view, {static_cast<std::int32_t>(r)}, settings);
    }
  }
  ~InprocWorld() override {
    for (const auto& rank : ranks_) rank->end();
  }

  InprocRank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  void end(int r) {
    alive_[static_cast<std::size_t>(r)] = false;
    rank(r).end();
  }
  std::size_t most_links() const {
    std::size_t most = 0;
    for (const auto& rank : ranks_) most = std::max(most, rank->links());
    return most;
  }

  // An all_reduce of all that are alive. Empty, or what was wrong.
  std::string sum(std::size_t count, Duration limit) {
    struct Running {
      std::vector<float> values;
      std::shared_ptr<comm::Work> work;
    };
    std::vector<Running> running;
    float expected = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!is_alive(ranks_[r]->id())) continue;
      expected += static_cast<float>(r);
      Running& one = running.emplace_back();
      one.values.assign(count, static_cast<float>(r));
      comm::OpRequest request;
      request.collective = comm::Collective::kAllReduce;
      request.input = {{reinterpret_cast<std::byte*>(one.values.data()), count}};
      request.output = request.input;
      auto work = ranks_[r]->group().start(std::move(request));
      if (!work.is_ok()) return work.status().message();
      one.work = work.value();
    }
    const auto has_ended = [](const Running& one) { return one.work->done(); };
    const auto all = [&] { return std::all_of(running.begin(), running.end(), has_ended); };
    if (!drive(all, limit)) return "ops have not ended in time";
    for (const Running& one : running) {
      if (!one.work->status().is_ok()) return one.work->status().message();
      const bool right = one.values.front() == expected && one.values.back() == expected;
      if (!right) return "another sum: " + std::to_string(one.values.front());
    }
    return "";
  }

  // All leave as close() does. False: some did not settle in time.
  bool close(Duration limit) {
    std::vector<std::shared_ptr<group::Leaving>> leaving;
    for (const auto& rank : ranks_) {
      if (!is_alive(rank->id())) continue;
      leaving.push_back(std::make_shared<group::Leaving>());
      rank->group().begin_leaving(leaving.back());
    }
    const auto settled = [&] {
      return std::all_of(leaving.begin(), leaving.end(),
                         [](const auto& one) { return one->settled.load(); });
    };
    if (!drive(settled, limit)) return false;
    bool well = true;
    for (const auto& rank : ranks_) {
      if (!is_alive(rank->id())) continue;
      well = rank->group().close(Duration::zero()).is_ok() && well;
      rank->say_goodbye();
    }
    return well;
  }

  // InprocHall.
  void call(MemberId from, MemberId to) override { calls_.emplace_back(from, to); }
  bool is_alive(MemberId member) const override { return alive_[number(member)]; }

  // Gives all ranks turns until `done`; false: it did not come in time.
  bool drive(const std::function<bool()>& done, Duration limit) {
    const MonotonicClock clock;
    const Instant deadline = clock.now() + limit;
    while (!done()) {
      if (clock.now() >= deadline) return false;
      for (const auto& rank : ranks_) {
        if (is_alive(rank->id())) rank->step();
      }
      connect();
    }
    return true;
  }

 private:
  // About as much as a process's card has.
  static constexpr std::size_t kCardBytes = 150;

  static constexpr std::uint64_t kFirstId = 1000;

  static std::size_t number(MemberId member) { return member.value - kFirstId; }
  InprocRank& of(MemberId member) { return *ranks_[number(member)]; }

  void connect() {
    for (const auto& [from, to] : std::exchange(calls_, {})) {
      if (!is_alive(from)) continue;
      if (!is_alive(to)) {
        of(from).on_ended(to);
        continue;
      }
      // Both may have called.
      if (of(from).is_connected(to) && of(to).is_connected(from)) continue;
      auto [here, there] = comm::make_inproc_pair();
      of(from).add_link(to, std::move(here));
      of(to).add_link(from, std::move(there));
    }
  }

  std::vector<std::shared_ptr<InprocRank>> ranks_;
  std::vector<bool> alive_;  // by rank
  std::vector<std::pair<MemberId, MemberId>> calls_;
};

}  // namespace holdfast::testing

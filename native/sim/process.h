// Process: one simulated process: the production router, world and group on virtual time, and the
// program that calls them.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/control_router.h"
#include "sim/drifting_map.h"
#include "sim/ledger.h"
#include "sim/network.h"
#include "sim/program.h"
#include "sim/stranger.h"

namespace holdfast::sim {

inline constexpr CommId kFirstWorld{77};
inline constexpr CommId kOtherWorld{79};
// The world to which a group of the program belongs.
CommId world_of(CommId group);

// What a stranger may know of the first world, whose newest view is `view`, and which views of any
// world were signed.
KnownWorld known_world(ft::WorldView view, std::vector<ft::Message> shown);

// The id of a coordinator outside the view, in all its lives.
inline constexpr MemberId kCoordinatorId{500};

// Settings of all processes of a world.
Duration heartbeat(const Scenario& scenario);
Duration silence(const Scenario& scenario);

// What a process needs of the simulation around it.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual Instant local_time(int process) const = 0;
  virtual void connect(int from, MemberId to) = 0;
  // A connection has broken: calls the other end again, or finds that it has gone.
  virtual void mend(int from, MemberId to) = 0;
  // The two have not been connected yet.
  virtual void join(int from, MemberId to) = 0;
  virtual void log(int process, const std::string& text) = 0;
  virtual Ledger& ledger() = 0;
  // Nothing: there is no secret.
  virtual ft::Notary* notary() = 0;
  // The process has adopted the view of a world.
  virtual void on_view(int process, CommId world, const ft::WorldView& view) = 0;
  // First step of the program that begins in the view, as its members say, or, where none of them
  // knows, as it was saved last. nullopt: the members that know have not adopted the view yet.
  virtual std::optional<int> step_of(const comm::View& view) const = 0;
  virtual void on_boundary(int process, Epoch epoch, int next_step) = 0;
  // The process has been told that it is out of its world, or of one of its two.
  virtual void on_told(int process) = 0;
  // The process has ended a step, and saves the number of the next one.
  virtual void on_saved(int process, int next_step) = 0;
  // An op of the program begins, or has ended.
  virtual void on_op(int process, int op, bool ended) = 0;
  virtual group::OwnArea make_area(int process) = 0;
  virtual std::optional<comm::HostPeer> open_area(int process, const std::string& name) = 0;
};

class Process final : public group::ControlRouterOwner,
                      public comm::Executor,
                      public std::enable_shared_from_this<Process> {
 public:
  Process(const Scenario& scenario, int number, MemberId id, Rank rank, Surroundings& around);

  // Starts as a founder, or as a process that wants the rank of a process that has ended, or any
  // rank.
  void found(const ft::WorldView& view, std::vector<comm::HostPeer> flat);
  void join(const std::vector<MemberId>& contacts);
  // Starts not as a member, but as the coordinator of all others; `record`, if there is one,
  // outlives it. `term`: above those of coordinators before it; 0: it is not elected.
  void coordinate(std::uint64_t instance, std::uint64_t term, ft::Record* record);

  // Whether it coordinates, and has yet to learn of the members of a world.
  bool is_new_coordinator() const;
  // A coordinator is asked by an operator, of the worlds with that member. False: it refuses.
  bool take_order(const Fault& order, MemberId member);
  // Says something to a peer as a process that is nobody's member may.
  void say_to(MemberId peer, const ft::Message& message) { router_.send(peer, message); }

  // Does all work that can be done now.
  void step();
  Instant next_deadline() const;
  void add_peer(MemberId peer, std::unique_ptr<comm::Link> control,
                std::unique_ptr<comm::Link> data);
  enum class Word : std::uint8_t {
    kKernel,   // of this process's host, on which the peer was
    kPacket,   // a call was refused
    kWitness,  // whoever started the peer's process
  };
  // Whether it has a view with the member, or, as a coordinator, knows one.
  bool knows(MemberId member) const {
    return service_ ? service_->knows(member) : router_.needs(member);
  }
  // Something says that the peer's process has ended.
  void on_end(MemberId peer, Word word);
  // Says to all peers that the process of a member has ended.
  void say_ended(MemberId member);
  const std::string& host() const { return host_; }
  bool has_peer(MemberId peer) const { return router_.is_connected(peer); }
  // Says goodbye after its step.
  void leave() { leaving_ = true; }
  bool has_left() const { return ended_ == "left"; }
  // Whether it leaves, or has left: it may stay for those who have yet to learn that they are out.
  bool is_leaving() const { return !parting_.empty(); }
  // Whether all others had said that they needed it no more.
  bool has_left_in_peace() const { return has_left() && in_peace_; }
  // Whether the program ended because this process was told that it is no member any more.
  bool was_told() const { return told_; }
  // Ends running ops, so that all objects can be destroyed.
  void tear_down();

  int number() const { return number_; }
  MemberId id() const { return id_; }
  Rank rank() const { return rank_; }
  bool admitted() const { return group_ != nullptr; }
  // Whether the program knows its step: newcomers are told it.
  bool knows_step() const { return knows_step_; }
  // Whether its program has run to its end.
  bool done() const { return done_; }
  // Whether its program was ended: voted out, refused, timed out.
  bool stopped() const { return !ended_.empty(); }
  const std::string& ended() const { return ended_; }
  comm::View view() const { return group_ ? group_->view() : comm::View{}; }
  ft::WorldView world_view() const { return world_ ? world_->view() : ft::WorldView{}; }
  ft::WorldView second_view() const {
    return second_world_ ? second_world_->view() : ft::WorldView{};
  }
  Epoch epoch() const { return group_ ? group_->view().epoch : Epoch{}; }
  // Whether it shares memory or is about to: after the last step no process waits for that any
  // more.
  bool shares_memory() const {
    return group_ && (group_->shared() >= group::SharedMemory::kAreas || group_->is_entering());
  }
  std::string state() const;

  // comm::Executor.
  void submit(Task task, bool) override { tasks_.push_back(std::move(task)); }
  void defer(Task task) override { tasks_.push_back(std::move(task)); }
  bool drive_inline(const std::function<bool(bool)>& step) override;
  bool has_tasks() const override { return !tasks_.empty(); }
  void drive_until(const std::function<bool()>&, Instant) override { run_tasks(); }
  // ft::ControlRouterOwner.
  void want(const ft::Joiner& joiner) override { around_.connect(number_, joiner.member); }
  void mend(MemberId peer, const std::string&) override { around_.mend(number_, peer); }
  void join(MemberId peer, const std::string&) override { around_.join(number_, peer); }
  bool has_secret() const override { return scenario_.signs; }
  void nudge(MemberId) override {}
  std::string host_of(const std::string& card) const override { return card; }
  std::string memory_of(const std::string& card) const override {
    return scenario_.flat ? card : std::string{};
  }
  Result<group::OwnArea> make_area() override { return around_.make_area(number_); }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string& name) override {
    return around_.open_area(number_, name);
  }
  void say(const std::string& text) override { around_.log(number_, text); }

 private:
  class LocalClock final : public Clock {
   public:
    LocalClock(const Surroundings& around, int process) : around_(around), process_(process) {}
    Instant now() const override { return around_.local_time(process_); }

   private:
    const Surroundings& around_;
    int process_;
  };
  struct Running {
    int number = 0;
    std::shared_ptr<group::Group> group;
    std::unique_ptr<OpData> data;
    std::vector<std::shared_ptr<comm::Work>> works;
    std::vector<std::uint64_t> spare;
    std::vector<MemberId> members;  // of the group when the op was called, by rank
    bool ended = false;
  };

  group::GroupConfig base_config() const;
  ft::MembershipSettings settings() const;
  ft::HostOfCard host_of_card() const;
  void look_at_views();
  void look_at_inputs();
  bool run_tasks();
  bool run_program();
  bool start_step();
  bool part();
  bool has_settled() const;
  void found_evens(const ft::WorldView& view);
  std::shared_ptr<group::Group> found_world(const ft::WorldView& view, group::GroupConfig config,
                                            std::shared_ptr<group::World>& world);
  void look_for_evens();
  bool take_map(const MapOfStep& map);
  void start_op(const ProgramOp& op);
  bool collect();
  void keep_used();
  void end_op(Running& running);
  void look_at_joining();
  void end_program(const std::string& why, const Status& status = Status::ok());

  const Scenario& scenario_;
  int number_;
  MemberId id_;
  Rank rank_;
  std::string host_;  // which is its card
  Surroundings& around_;
  std::shared_ptr<const Clock> clock_;
  group::ControlRouter router_;
  std::map<MemberId, std::vector<std::unique_ptr<comm::Link>>> links_;
  std::shared_ptr<group::World> world_;
  std::shared_ptr<group::Group> group_;
  std::shared_ptr<group::World> second_world_;
  std::array<std::shared_ptr<group::Group>, kParts> groups_;  // by ProgramPart; group_ is the first
  std::unique_ptr<ft::Joining> joining_;
  std::unique_ptr<ft::CoordinatorService> service_;
  std::deque<Task> tasks_;
  std::array<Epoch, 2> seen_{};  // the last views that the ledger has, by world

  int step_ = 0;
  bool knows_step_ = false;
  std::vector<Running> running_;
  // Data of ended ops, which a suspended process may still read; the program has written over it.
  std::vector<std::unique_ptr<OpData>> used_;
  std::shared_ptr<comm::Work> advance_;
  bool lost_one_ = false;  // an op of this step ended with PeerLost
  bool leaving_ = false;
  std::vector<std::shared_ptr<group::Leaving>>
      parting_;  // by group, once it has begun to leave them
  bool told_ = false;
  Instant gives_up_{};
  bool in_peace_ = false;
  bool has_noticed_ = false;  // has noticed that all its groups have settled
  bool done_ = false;
  std::string ended_;
};

}  // namespace holdfast::sim

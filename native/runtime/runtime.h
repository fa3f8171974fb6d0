// Runtime: everything of a process that the driving thread owns: sockets, peers, links, worlds. It
// does the work of each turn; the driver decides when, and on which thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "comm/transport/bell.h"
#include "comm/transport/catalogue.h"
#include "comm/transport/pool.h"
#include "comm/transport/segment.h"
#include "group/control_router.h"
#include "health/health.h"
#include "health/http_endpoint.h"
#include "health/lock/credentials.h"
#include "health/status_model.h"
#include "runtime/background_thread.h"
#include "runtime/coordinator/admin/order_desk.h"
#include "runtime/coordinator/host_search.h"
#include "runtime/coordinator/issuer.h"
#include "runtime/coordinator/search.h"
#include "runtime/driver.h"
#include "runtime/node.h"
#include "runtime/options.h"
#include "runtime/paths.h"
#include "runtime/relay/relay_client.h"
#include "runtime/relay/relay_server.h"
#include "runtime/rendezvous/doorman.h"
#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/sealer.h"
#include "runtime/rendezvous/witness_note.h"

namespace holdfast::runtime {

struct Peer;

// What an event of the poller is about; the poller stores a pointer to it.
struct Watched {
  enum class What : std::uint8_t {
    kCaller,   // the listener, a connection that has not greeted, a call of interrupt()
    kPaths,    // a path that is driven: turn() looks there
    kLink,     // the connection to a peer
    kProcess,  // a peer's process: it has ended
  };
  What what;
  Peer* peer = nullptr;
};

// A process that this one is connected to.
struct Peer {
  explicit Peer(MemberId member) : id(member) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const MemberId id;
  Watched of_link{Watched::What::kLink, this};
  Watched of_process{Watched::What::kProcess, this};
  WatchedProcess process;
  std::unique_ptr<comm::StreamLink> control;  // carries data too where there is no path
  std::unique_ptr<comm::DataPath> path;
  std::vector<std::unique_ptr<comm::DataPath>> old_paths;
  bool same_host = false;
  std::string address;  // address of the peer's end of the connection
  Instant last_cut{};
  bool relayed = false;     // its connection goes through a relay
  Instant next_direct{};    // when it is called directly again, then
  std::uint64_t heard = 0;  // bytes, and since when no more, where there are relays
  Instant heard_at{};
  bool mute = false;        // it is called again, for nothing comes of it
  bool told_to_go = false;  // at a coordinator: since it was let in last
  // Of a trunk: whether this process called first, and where it did; when it is looked at next, and
  // when a lane may be called next.
  bool is_caller = false;
  Endpoint called;
  std::optional<secure::Secret> trunk_key;  // of its first connection; none: it is not sealed
  Instant next_look{};
  Instant next_lane{};
  std::size_t next_address = 0;  // of the card, for the next lane
  int cuts = 0;                  // breaks of its connection in a row, each soon after the last
  // The memory pool of its process. Owners: this and the groups with this peer.
  std::shared_ptr<comm::PeerPool> pool = comm::make_peer_pool();

  void set_relayed(bool relays);
  comm::Link& data() { return path ? path->link() : *control; }
  bool shares_memory() const { return path && path->bell(); }
};

class Runtime final : public comm::Executor,
                      public Machinery,
                      public group::ControlRouterOwner,
                      public std::enable_shared_from_this<Runtime> {
 public:
  struct RuntimeParts {
    Options options;
    MemberId self;
    std::string host;
    ProcessId process;  // this process
    int listener = -1;
    int epoll = -1;
    int interrupt = -1;  // eventfd
    std::uint16_t port = 0;
    // What the coordinator is called by, with no address: where it is the search tells. nullopt:
    // none is named.
    std::optional<Card> coordinator;
    std::vector<HostSearch> hosts;   // at which it may be
    std::vector<HostSearch> relays;  // of the option relay
    CoordinatorSearch search;        // which of them is called when
    std::string coordinators;        // the hosts as one text; empty: there are not several
    std::string job;                 // the job's name at the coordinator
    ft::CoordinatorService* service = nullptr;  // set in a coordinator process; outlives this
    comm::Segment bell;
    comm::PlanTable plan;
    std::shared_ptr<const topology::LinkMap> map;  // owners: also its groups; null: none
    std::shared_ptr<comm::MemoryPool> pool;  // owners: see Node::pool(); a coordinator has none
    Paths paths;
    // Seals all connections; owners: also the doorman. Null: they go as they are.
    std::shared_ptr<const Sealer> sealer;
    std::shared_ptr<Gatekeeper> gatekeeper;      // the same in a coordinator; else null
    std::shared_ptr<const SecretHolder> secret;  // the same where it has the secret; else null
    std::unique_ptr<ViewIssuer> issuer;  // of a member that has a secret or a token; else null
    std::shared_ptr<AuditLog> audit;     // owners: also the doorman. Null: none is kept
    std::shared_ptr<const Clock> clock;
    std::unique_ptr<health::Health> health;
    std::unique_ptr<health::StatusModel>
        status;  // made in a coordinator, and where pages are served
    std::unique_ptr<const health::Credentials> credentials;  // null: pages are for whoever asks
    std::unique_ptr<RelayServer> relay;  // of a coordinator that has a secret; else null
    // Of a coordinator that serves pages. Owners: also what serves them.
    std::shared_ptr<OrderDesk> desk;
    std::unique_ptr<health::HttpEndpoint> http;  // serves from the four above; null: none is wanted
  };
  // Opens the listener and starts the driver. `service`: set where this process is to be a
  // coordinator.
  static Result<std::shared_ptr<Runtime>> create(const Options& options,
                                                 ft::CoordinatorService* service = nullptr,
                                                 std::shared_ptr<comm::MemoryPool> pool = nullptr);
  // Sets what concerns the coordinator that the options name. kConfigError: none of its hosts can
  // be resolved.
  static Status name_coordinator(RuntimeParts& parts);
  explicit Runtime(RuntimeParts parts);
  ~Runtime() override;

  // Of a coordinator: lets in nobody by these tokens any more, and shows out who came in by one.
  // Any thread.
  void revoke(const std::set<secure::Serial>& serials);
  // Of a coordinator: looks whether its files of certificates have changed, and shows out whose
  // certificate does not count any more. What is to be told to whoever operates it, each once. One
  // thread at a time.
  std::vector<std::string> look_at_certificates();

  // comm::Executor.
  void submit(Task task, bool wake) override { driver_.submit(std::move(task), wake); }
  void defer(Task task) override { driver_.defer(std::move(task)); }
  bool drive_inline(const std::function<bool(bool)>& step) override {
    return driver_.drive_inline(step);
  }
  bool has_tasks() const override { return driver_.has_submissions(); }
  bool has_cores() const override { return driver_.has_cores(); }
  void drive_until(const std::function<bool()>& done, Instant deadline) override {
    driver_.drive_until(done, deadline);
  }

  // Machinery: driving thread only, except interrupt().
  bool turn(Instant now) override;
  comm::MemoryPoll poll_memory() override;
  void poll_sockets(Duration timeout) override;
  void look_at_sockets() override;
  bool sockets_matter() const override {
    return sockets_matter_ || router_.is_changing() || !handshakes_.empty();
  }
  bool busy() const override;
  bool awaits_mail() const override { return router_.awaits_mail(); }
  bool waits_at(int core) const override;
  bool latency_bound() const override;
  Instant next_deadline() const override;
  void interrupt() override;

  // ft::ControlRouterOwner: driving thread only.
  void want(const ft::Joiner& joiner) override;
  void expect(const ft::Joiner& joiner) override;
  bool calls_all() const override { return relay_client_ != nullptr; }
  void mend(MemberId peer, const std::string& card) override;
  void join(MemberId peer, const std::string& card) override;
  bool trusts_resets() const override;
  bool has_secret() const override { return parts_.sealer != nullptr; }
  bool is_running_here(MemberId peer) const override;
  void nudge(MemberId peer) override;
  std::string host_of(const std::string& card) const override;
  std::string domain_of(const std::string& card) const override;
  std::string memory_of(const std::string& card) const override;
  Result<group::OwnArea> make_area() override;
  // As make_area(), with room for the areas of groups that are derived from the group.
  Result<group::OwnArea> make_room();
  std::optional<comm::HostPeer> open_area(MemberId peer, const std::string& name) override;
  void say(const std::string& text) override;
  comm::Observer* observer() override { return parts_.health.get(); }
  ft::Bytes news_for(MemberId peer) override;
  void hear_news(MemberId from, std::span<const std::byte> bytes, Instant now) override;

  // The process that coordinates this one's job, if one is named. Any thread.
  const std::optional<Card>& coordinator() const { return parts_.coordinator; }
  // Name under which the coordinator knows a group.
  std::string world_name(const std::string& group) const;

  // Driving thread only.
  // Not ok: the process that answers there is no coordinator, and calling again is of no use.
  Status coordinator_failure() const;
  // Why the coordinator has not been found yet; empty: it has not been looked for.
  std::string coordinator_search() const;
  void connect(const Card& card, Instant deadline);
  // Waits a moment until it is known whether this process can be called, where that matters. Not
  // ok: the option relay names none that is of any use. Not the driving thread.
  Status await_reach();
  Peer* find_peer(MemberId id);
  // Why the last attempt to reach the member failed; ok when none did.
  Status connect_failure(MemberId id) const;
  // Whether no process listens at any of the addresses at which the member is being called.
  bool is_refused(MemberId id) const;
  // Stops calling the member.
  void stop_calling(MemberId id) { attempts_.erase(id); }
  group::ControlRouter& router() { return router_; }
  // This process's part in a group that the world had before it was admitted; returned once, then
  // null.
  std::shared_ptr<group::Group> known_group(const JoinRequest& request);
  // Calls a member of a world that does not expect this process, whatever their ids.
  void call_member(const Card& card, Instant deadline);
  // A group of a world that this process has just entered.
  std::shared_ptr<group::Group> enter_group(group::GroupConfig config,
                                            const std::shared_ptr<group::World>& world);

  // Makes the group a part of the world `world`, or, if that is 0, of the one that `make_world`
  // makes.
  Result<std::shared_ptr<group::Group>> make_group(
      group::GroupConfig config, CommId world,
      const std::function<std::shared_ptr<group::World>()>& make_world);
  ft::MembershipSettings membership_settings() const;
  // What the options and the request say of a group.
  group::GroupConfig base_config(const JoinRequest& request) const;
  // How to reach this process; no flat area, no nonce.
  Card own_card() const;
  // Runs `task` on the driving thread and waits for it. Any thread.
  void run(const std::function<void()>& task);

  Status start();
  void stop();
  const RuntimeParts& parts() const { return parts_; }
  // Any thread.
  const health::Health& health() const { return *parts_.health; }
  health::Stacks& stacks() { return parts_.health->stacks(); }
  health::LayerMetrics& layers() { return parts_.health->layers(); }
  std::string http_address() const { return parts_.http ? parts_.http->address() : ""; }
  std::shared_ptr<const Clock> clock() const { return parts_.clock; }
  comm::Bell own_bell() const;
  // Whether this process lays its memory open to others of its host.
  bool shares_memory() const { return parts_.paths.shares_memory(); }
  // Tells the user once that this process has no shared memory, and why. Any thread.
  void lacks_memory(const Status& why);

 private:
  struct Attempt {
    Card card = {};
    std::size_t next_address = 0;
    Instant deadline = {};
    Instant not_before = {};
    std::size_t refusals = 0;  // in a row
    bool mends = false;        // replaces a connection that broke
    // The one address of the card at which the process is known to have been: if no process listens
    // there any more, it has ended. Empty: no such address is known.
    std::string vouched = {};
    Instant relay_at{};     // when it is called through a relay; 0: not known yet
    bool is_first = false;  // a member of a sparse world, with which there was no connection yet
  };
  // A call to a member that is reached through a relay, before it is known whether it succeeds.
  struct DirectTry {
    int fd;
    MemberId peer;
    Endpoint at;
    Instant deadline;
  };

  group::OwnArea own_area(std::shared_ptr<comm::Segment> segment) const;
  static Status choose_sealer(RuntimeParts& parts);
  Status turned_away(const Status& why) const;
  void introduce(MemberId caller);
  std::vector<std::string> tell_unwelcome();
  void show_out(Instant now);
  Status revoke_for_good(const secure::Serial& token);
  void serve_orders(Instant now);
  void leave_note();
  std::string witness_of(MemberId member) const;
  void hear_testimonies();
  void take_callers();
  // Greeting of a call to the card's process.
  Greeting hello_to(const Card& card);
  // Below: where there are relays.
  Status start_reach(Doorman::Rules& rules);
  void step_reach(Instant now);
  void look_for_relays(Instant now);
  void move_relays();
  void look_for_mute(Instant now);
  void call_beside(Peer& peer, Instant relay_at);
  void call_by_relays(Instant now);
  void take_crossings(Instant now);
  void try_directly(Instant now);
  void look_at_tries(Instant now);
  void keep_one_call(const Handshake& kept);
  void step_handshakes(Instant now);
  void call(Attempt& attempt, Instant now);
  void note_failure(MemberId callee, const Endpoint& at, const Status& why, Instant now);
  // Whether the peer's data still has a path, though its connection may have broken.
  bool keeps_data(MemberId id);
  bool gives_way_to(const Greeting& hello) const;
  void drop_calls(MemberId callee);
  void renew(Peer& peer, Handshake& handshake);
  // Of trunks: native/runtime/runtime_lanes.cpp.
  void offer_trunk(Greeting& hello, bool same_host);
  void settle_trunk(const Greeting& hello, Greeting& welcome);
  bool has_trunk(const Handshake& call);
  std::optional<Greeting> hello_of_lane(MemberId callee);
  void note_call(Peer& peer, const Handshake& handshake, Result<secure::Secret> key);
  // Begins a call that this process makes.
  void begin_call(std::unique_ptr<Handshake> call);
  void join_trunk(Handshake& handshake);
  void tend_trunks(Instant now);
  void tend(Peer& peer, comm::TrunkLink& trunk, Instant now);
  void call_lane(Peer& peer, Instant now);
  void note_lane_failure(MemberId callee, const Endpoint& at, const Status& why);
  std::size_t lanes_called(MemberId callee) const;
  std::optional<Endpoint> lane_endpoint(Peer& peer);
  void end_mending();
  void answer(Handshake& handshake);
  void establish(Handshake& handshake);
  bool mark_awaited();
  void watch(int fd, std::uint32_t events, Watched& watched);
  void unwatch(int fd);
  void watch_process(Peer& peer, const ProcessId& process);
  void take_event(const Watched& watched, std::uint32_t events);
  void process_has_ended(Peer& peer);
  void reap();
  void drop(MemberId id);
  void keep_coordinator(Instant now);
  void hurry_to_coordinator(MemberId lost);
  void look_for_coordinator(Instant now);
  void tell_of_search(Instant now);
  void has_found_coordinator(const Handshake& handshake);
  bool is_coordinator(MemberId id) const {
    return parts_.coordinator && parts_.coordinator->member == id;
  }
  // Where to call the member now, and when to call again if nothing is heard; nullopt: nowhere.
  std::optional<Endpoint> next_endpoint(Attempt& attempt, Instant now);
  void count_local_ranks();
  void look_at_paths();
  void look_behind_broken_links();
  void write_status(Instant now);
  void show_strangers_out(Instant now);

  // Owners: this and its groups.
  const std::shared_ptr<BackgroundThread> background_ = std::make_shared<BackgroundThread>();
  RuntimeParts parts_;
  Watched callers_{Watched::What::kCaller};
  Watched driven_paths_{Watched::What::kPaths};
  std::map<MemberId, std::unique_ptr<Peer>> peers_;
  std::unique_ptr<Doorman> doorman_;
  std::unique_ptr<RelayClient> relay_client_;  // null: there are no relays
  std::vector<DirectTry> tries_;
  Instant next_reach_{};
  Instant last_mute_look_{};
  std::atomic<bool> has_awaited_reach_{false};
  std::vector<std::unique_ptr<Handshake>>
      handshakes_;  // of callers that have greeted, and own calls
  std::map<MemberId, Attempt> attempts_;
  std::deque<std::pair<MemberId, Instant>>
      newcomers_;                 // of a coordinator, since when; oldest first
  std::set<MemberId> unwelcome_;  // of a coordinator: to be hung up on once they are told
  std::map<MemberId, Status> connect_failures_;
  group::ControlRouter router_;
  std::unique_ptr<WitnessNote> note_;  // null: nobody waits for this process, or there is no secret
  int checks_ = 0;                     // of testimonies, since then
  Instant checks_since_{};
  std::uint64_t noted_ = 0;  // which views the note was made of
  Instant next_reap_{};
  Instant coordinator_since_{};  // since when the coordinator has been connected
  bool told_of_search_ = false;  // the user knows that the coordinator is being sought
  bool sockets_matter_ = false;
  bool has_trunks_ = false;
  Instant next_tend_{};
  std::atomic<bool> lacks_memory_{false};  // the user has been told
  std::uint32_t looks_ = 0;                // calls of look_at_sockets()
  Driver driver_;                          // last: its thread stops before the rest goes
};

}  // namespace holdfast::runtime

// ControlRouter: what a process hears from its peers and tells them: control frames to the worlds
// and groups they are for, signs of life, ends of connections, and messages for groups not known
// here yet. Turned by the runtime and by the simulator.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0025-the-hub-is-below-the-runtime.md
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ft/contact.h"
#include "ft/coordinator_service.h"
#include "ft/detector.h"
#include "ft/joining.h"
#include "group/world.h"

namespace holdfast::group {

// The process around a router.
class ControlRouterOwner {
 public:
  virtual ~ControlRouterOwner() = default;
  // A newcomer wants a connection to this process.
  virtual void want(const ft::Joiner& joiner) = 0;
  // A newcomer waits for connections to all members, and may not be able to call this one.
  virtual void expect(const ft::Joiner&) {}
  // Whether this process calls others whatever their ids: not all of them can be called.
  virtual bool calls_all() const { return false; }
  // The connection to a peer has broken, or there was none to a member; the peer may live. The
  // owner is to make another one (add_peer()) or to prove that the process has ended
  // (on_process_ended()), until either happens or the router no longer needs the peer. `card`: how
  // to reach the peer.
  virtual void mend(MemberId peer, const std::string& card) = 0;
  // As mend(), but the two have not had a connection yet.
  virtual void join(MemberId peer, const std::string& card) { mend(peer, card); }
  // Whether a connection that the other side has closed proves that its process has ended.
  virtual bool trusts_resets() const { return false; }
  // Whether connections are sealed: then packets that are not of a sealed connection prove nothing.
  virtual bool has_secret() const { return false; }
  // Whether the peer's process is on this host, lives and is not stopped: if nothing comes from it,
  // it waits for its turn on a core.
  virtual bool is_running_here(MemberId) const { return false; }
  // The peer has been sent something and must not sleep over it.
  virtual void nudge(MemberId peer) = 0;
  virtual std::string host_of(const std::string& card) const = 0;
  virtual std::string domain_of(const std::string&) const { return {}; }
  // As Network::memory_of().
  virtual std::string memory_of(const std::string& card) const = 0;
  virtual Result<OwnArea> make_area() = 0;
  virtual std::optional<comm::HostPeer> open_area(MemberId peer, const std::string& name) = 0;
  virtual void say(const std::string& text) = 0;
  virtual comm::Observer* observer() { return nullptr; }
  // What the heartbeat to the peer carries besides: small, and not interpreted here. Empty:
  // nothing.
  virtual ft::Bytes news_for(MemberId) { return {}; }
  virtual void hear_news(MemberId, std::span<const std::byte>, Instant) {}
};

class ControlRouter final : public Network {
 public:
  struct Timing {
    Duration heartbeat;  // between two signs of life
    Duration silence;    // without any, until a peer is silent
  };
  // `owner` outlives the router.
  ControlRouter(MemberId self, const Timing& timing, ControlRouterOwner& owner)
      : self_(self), timing_(timing), owner_(owner) {}

  // Network.
  void send(MemberId to, const ft::Message& message) override;
  comm::MemberLinks links_to(MemberId member) override;
  const Loss* loss_of(MemberId member) const override;
  ft::Contact contact_of(MemberId peer, Instant now) const override;
  void look_after(MemberId member, const std::string& card, Instant now) override;
  std::string host_of(const std::string& card) const override { return owner_.host_of(card); }
  std::string domain_of(const std::string& card) const override { return owner_.domain_of(card); }
  std::string memory_of(const std::string& card) const override { return owner_.memory_of(card); }
  Result<OwnArea> make_area() override { return owner_.make_area(); }
  std::optional<comm::HostPeer> open_area(MemberId member, const std::string& name) override {
    return owner_.open_area(member, name);
  }
  void send(MemberId to, CommId group, Epoch epoch, comm::FrameKind kind,
            const ft::Bytes& payload) override;
  void note_ended(CommId group) override;
  // Newcomers connect, and members wait for the connection where newcomers can call them.
  void expect(const ft::Joiner& joiner) override {
    if (!is_connected(joiner.member)) owner_.expect(joiner);
  }
  void say(const std::string& text) override { owner_.say(text); }
  comm::Observer* observer() override { return owner_.observer(); }

  // Links to a new peer, or links that replace broken ones; `data` may be `control`. Both live
  // until take_forgotten() names the peer.
  void add_peer(MemberId peer, comm::Link* control, comm::Link* data, Instant now);
  // What this process asks a coordinator that it calls; empty: nothing.
  ft::Bytes opening(MemberId coordinator);
  // What a caller has asked in its greeting. Anything but a join is not heard.
  void hear_opening(MemberId caller, std::span<const std::byte> bytes, Instant now);
  // The kernel of the peer's host says that its process has ended, even if another process still
  // holds its end of the links. What the links brought before that is heard first, in the next
  // turns: it may say why.
  void on_process_ended(MemberId peer);
  // Nobody listens where the peer was: its host's kernel says so, or something in its name. Returns
  // whether that proves that its process has ended.
  bool on_refused(MemberId peer);
  // Whoever started the peer's process has seen it end, which the owner has checked.
  void on_witnessed_end(MemberId peer);
  // How to reach the member of a world, or one that was voted out; empty: it is in none.
  std::string card_of(MemberId peer) const;
  bool is_connected(MemberId peer) const;
  // A world or a group of this process has the peer.
  bool needs(MemberId peer) const;
  // Peers that have no connection and to whose links nothing refers any more.
  std::vector<MemberId> take_forgotten();

  void add_world(const std::shared_ptr<World>& world) { worlds_.push_back(world); }
  // The world that has all of these members; nothing: they share none, or this process has left it.
  std::shared_ptr<World> find_world(const std::vector<MemberId>& members) const;
  std::shared_ptr<World> find_world(CommId id) const;
  // Hands out what came for a group or world before it was known here.
  void deliver_early(Instant now);
  // Messages go to `joining` while this process tries to get into a world; nothing: it no longer
  // does.
  void set_joining(ft::Joining* joining);
  // This process is a coordinator outside all views: all messages of membership are for it.
  void set_service(ft::CoordinatorService* service) { service_ = service; }

  template <class Visit>
  void each_world(Visit visit) const {
    // Indexed, not iterated: a visit may add a world, and the list is not worth a copy.
    for (std::size_t i = 0; i < worlds_.size(); ++i) {
      if (const auto world = worlds_[i].lock()) visit(world);
    }
  }

  // Moves what can be moved. Returns whether anything moved.
  bool turn(Instant now);
  // Whether a view has begun since the last call, of a world of this process or of its service.
  bool take_begun() { return std::exchange(has_begun_, false); }
  // Moves only what is in shared memory: cheaper than a turn.
  comm::MemoryPoll poll_memory();
  bool busy() const;
  bool awaits_mail() const;
  bool moves_bulk() const;
  // A view change is under way.
  bool is_changing() const { return changing_; }
  Instant next_deadline() const;
  void say_goodbye();

 private:
  struct RoutedPeer {
    RoutedPeer(MemberId who, Duration silence, Instant now) : id(who), detector(silence, now) {}
    void forget_incoming() {
      incoming = {};
      incoming_bytes = 0;
    }
    MemberId id;
    comm::Link* control = nullptr;
    comm::Link* data = nullptr;
    bool reported = false;  // worlds know of its loss
    bool silent = false;
    bool cut = false;  // its connection has broken, and is being mended
    bool left = false;
    bool ended = false;  // its process has ended, proven
    ft::Detector detector;
    std::uint64_t received = 0;        // bytes that the detector knows of
    std::vector<ft::Message> waiting;  // for its first connection; the latest
    std::vector<ft::Bytes> incoming;   // parts of a membership message, as far as it has come
    std::size_t incoming_bytes = 0;    // of all of them
    Instant incoming_since{};          // when the first one came
  };
  struct EarlyControl {
    MemberId from;
    Instant since;
    comm::ControlFrame frame;  // or
    std::optional<ft::Message> message;
  };

  bool pump_all(Instant now);
  bool pump(RoutedPeer& peer, Instant now);
  void take_controls(RoutedPeer& peer, Instant now);
  void look_for_loss(RoutedPeer& peer, bool heard, Instant now);
  bool has_met(const RoutedPeer& peer) const { return peer.control != &nowhere_; }
  void wait_for(MemberId to, const ft::Message& message);
  void cut(RoutedPeer& peer, const Status& why, bool from_outside, Instant now);
  void answer_closing(RoutedPeer& peer, const comm::FrameHeader& asked);
  Status take_part(RoutedPeer& peer, comm::ControlFrame& frame, Instant now);
  bool is_known(MemberId peer) const;
  bool calls_first(MemberId peer) const { return self_ > peer || owner_.calls_all(); }
  void limit_parked(Instant now);
  bool deliver(const EarlyControl& early, Instant now);
  bool deliver(MemberId from, const ft::Message& message, Instant now);
  void keep_early(EarlyControl early);
  bool has_ended(CommId group) const;
  void step_service(Instant now);
  void beat(Instant now);
  void look_for_silence(Instant now);
  void report_loss(RoutedPeer& peer, const Status& why, bool gone, Instant now);
  void step_joining(Instant now);
  MemberId self_;
  Timing timing_;
  ControlRouterOwner& owner_;
  comm::NullLink nowhere_;  // to members that this process has never reached
  std::map<MemberId, RoutedPeer> peers_;
  // Those of peers_, by id, if it has as many: each turn looks at all of them, and the nodes of a
  // map of many lie far apart.
  std::vector<RoutedPeer*> in_turn_;
  // Weak: a world belongs to its groups.
  std::vector<std::weak_ptr<World>> worlds_;
  std::vector<EarlyControl> early_;
  std::deque<CommId> ended_groups_;  // the latest groups that this process has left
  ft::Joining* joining_ = nullptr;
  ft::CoordinatorService* service_ = nullptr;
  std::vector<MemberId> ended_late_;  // proven after their connections had been reported
  Instant next_beat_{};
  Instant next_silence_{};  // when the first peer will have been silent for too long
  std::deque<std::pair<MemberId, Loss>> losses_;  // the latest
  Instant last_turn_{};
  bool changing_ = false;
  bool has_begun_ = false;
  std::uint64_t epochs_ = 0;  // of all worlds, when they were last looked at
};

}  // namespace holdfast::group

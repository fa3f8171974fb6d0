// Joining: a stranger's way into a world that exists, or that is about to begin: it asks any
// process of the world, is sent to the coordinator, connects to all processes in the lobby's list,
// and is admitted at the members' next step boundary. Sans-IO.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ft/message.h"

namespace holdfast::ft {

class Joining {
 public:
  enum class JoiningState : std::uint8_t { kAsking, kWaiting, kAdmitted, kRefused };

  // `min_peers`: how many peers a world waits for that does not exist yet; 0: as the coordinator
  // decides.
  Joining(std::string world, Joiner self, Duration patience, std::size_t min_peers = 0)
      : world_(std::move(world)),
        self_(std::move(self)),
        patience_(patience),
        min_peers_(min_peers) {}

  const std::string& world() const { return world_; }
  JoiningState state() const { return state_; }
  // The view that has this process, once admitted.
  const Message& decision() const { return decision_; }
  const std::string& refusal() const { return refusal_; }
  // What the lobby waits for, if its coordinator says so; empty: for a step boundary, or for more
  // peers.
  const std::string& reason() const { return reason_; }
  // Members of the world as far as they are known here.
  const WorldView& view() const { return view_; }
  bool is_member(MemberId other) const { return view_.has(other) || coordinator_ == other; }

  // Adds a process that may know the coordinator, or be it.
  void add_contact(MemberId contact);
  // What it asks a contact that is being called, and whose answer counts from now on; nullopt:
  // nothing more.
  std::optional<Message> opening(MemberId contact);
  void on_message(MemberId from, const Message& message);
  void on_closed(MemberId member);
  // The process takes no part in the world any more, but lives on.
  void on_out(MemberId member, CommId world) {
    if (world == id_) on_closed(member);
  }
  // The processes it must be connected to.
  const std::vector<Joiner>& wanted() const { return wanted_; }
  // How often wanted() or view() may have changed.
  std::uint64_t changes() const { return changes_; }
  // Asks, or says that it is ready, when it is time. `is_connected`: whether a process of wanted()
  // is connected.
  void tick(Instant now, const std::function<bool(MemberId)>& is_connected);

  std::vector<std::pair<MemberId, Message>> take_sends() { return std::exchange(sends_, {}); }

 private:
  void fall_behind(MemberId coordinator);
  bool ask(const std::function<bool(MemberId)>& is_connected);
  Message question() const;
  void want(const Joiner& joiner);

  std::string world_;
  Joiner self_;
  Duration patience_;
  std::size_t min_peers_;
  JoiningState state_ = JoiningState::kAsking;
  std::vector<MemberId> contacts_;
  std::size_t next_contact_ = 0;
  std::optional<MemberId> coordinator_;
  Instant unreached_since_{Duration::max()};  // the coordinator is not connected
  std::vector<Joiner> wanted_;
  std::uint64_t changes_ = 0;
  WorldView view_;
  std::uint64_t version_ = 0;  // arrivals in the lobby, as the coordinator said last
  std::uint64_t told_ = 0;     // arrivals in the lobby, as this process answered last
  Epoch told_epoch_;
  CommId id_;
  Generation generation_;
  Instant next_ask_{};
  Message decision_;
  std::string refusal_;
  std::string reason_;
  std::vector<std::pair<MemberId, Message>> sends_;
};

}  // namespace holdfast::ft

// Mail ways: how the mail of this rank reaches the others. It goes over the link to each
// (mail_trunk.h), and, if the other process shares memory with this one, through rings from the
// moment when both ends have mapped them (mail_ring.h): each end says over the link that its later
// frames come through its ring, so their order is kept. Nothing but a hello goes to a rank until
// its own hello has come, for until then it may not know of this group.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/message/mail_core.h"
#include "comm/message/mail_hello.h"
#include "comm/message/mail_memory.h"
#include "comm/message/mail_ring.h"
#include "comm/message/mail_trunk.h"
#include "comm/transport/bell.h"

namespace holdfast::comm {

// What goes over links: rank, frame.
using MailOutgoing = std::vector<std::pair<Rank, MailTrunk::TrunkFrame>>;

class MailWays {
 public:
  // Both outlive it.
  MailWays(MailCore& core, MailMemory& memory)
      : core_(core), memory_(memory), ways_(static_cast<std::size_t>(core.size())) {}

  // The rank has a new member, who is greeted; `bell`: of its process, if it shares memory.
  void seat(Rank rank, std::optional<Bell> bell);
  void on_gone(Rank rank, bool died, const Status& why);
  void end(const Status& why);
  // A new connection to the rank took the place of one that broke.
  void relink(Rank rank, std::optional<Bell> bell);
  // A frame came over the link.
  void hear(Rank from, std::span<const std::byte> frame);

  // Moves what can be moved, but for what goes over links; whether anything moved.
  bool progress();
  // Takes what the rings have brought.
  bool look_at_rings();
  // Wakes the ranks that were written to.
  void ring_bells() {
    for (const Rank rank : ringed_) ring(rank);
  }
  // A thread begins to wait until the rank has taken what was sent to it, or has ended.
  void attend(Rank rank, bool begins) {
    if (way(rank).out) way(rank).out->attend(begins);
  }
  // Whether frames are to go over links.
  bool is_stirred() const { return stirred_; }
  void take_outgoing(MailOutgoing& into);
  // Whether all other ranks are heard through rings.
  bool all_ringed() const { return static_cast<int>(heard_.size()) == peers_; }

 private:
  // The ways to one rank.
  struct MailWay {
    std::unique_ptr<MailTrunk> trunk;  // null: this rank itself, or vacant
    std::unique_ptr<MailSegment> segment;
    std::optional<MailRingWriter> out;
    std::optional<MailRingReader> in;
    std::optional<Bell> bell;
    bool greeted = false;  // the other end has said hello
    bool heard = false;    // the other end has switched to its ring, or cannot
  };

  MailWay& way(Rank rank) { return ways_[static_cast<std::size_t>(rank.value)]; }
  void greet(Rank rank);
  void take(Rank from, const MailHeader& header, std::span<const std::byte> payload);
  void take_hello(Rank from, std::span<const std::byte> payload);
  void take_switch(Rank from, bool can);
  void say_switch(Rank rank);
  void map_rings(MailWay& way, std::size_t ring_bytes, bool first);
  void break_off(Rank rank, const Status& why);
  bool look_at_ring(Rank rank);
  void ring(Rank rank);
  void wake(MailWay& to);

  MailCore& core_;
  MailMemory& memory_;
  std::vector<MailWay> ways_;    // by rank
  std::vector<Rank> heard_;      // ranks whose rings are heard
  std::vector<Rank> ringed_;     // ranks whose frames go through rings
  std::vector<Rank> switching_;  // ranks that are to be told of a switch
  int peers_ = 0;                // other ranks that are there
  bool stirred_ = false;
};

}  // namespace holdfast::comm

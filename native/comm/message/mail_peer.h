// Mail peer: the messages between this rank and one other, without I/O: what goes out and when,
// and what becomes of what comes in. Which receive takes a message is its host's to say.
//
// A small message goes at once, as far as there is credit; the other end returns credit when the
// message is kept no more. A message that is large, or finds no credit, is announced. Where it has
// been matched, the receiver reads it from where it lies, if the two processes are on one host and
// the system lets it, and says so when it is done; otherwise it asks for the payload, which comes
// in parts. Also the number of messages that are announced or kept is limited: beyond it a message
// waits at its sender, in its turn.
//
// A sender that waits anyway is asked for the payload although it could be read: two cores move it
// then, and in parts that stay in the first levels of the cache.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "comm/message/kept_mail.h"
#include "comm/message/mail_lane.h"
#include "comm/message/mail_meter.h"
#include "comm/message/mail_slots.h"
#include "comm/transport/process_memory.h"

namespace holdfast::comm {

// What one rank keeps of another's messages that nobody has asked for: room for a hundred thousand
// small ones, a quarter of what the collectives' links keep.
struct MailLimits {
  std::uint64_t bytes = 64ULL << 20;
  std::uint64_t messages = 1ULL << 18;
  // The largest message that goes without being asked for. Larger ones are worth a round trip,
  // which saves a copy.
  std::uint64_t eager = 16 * 1024;
};
// Charged for each message beside its payload; more than keeping one costs.
inline constexpr std::uint64_t kMailOverhead = 320;

// Whoever knows the receives.
class MailHost {
 public:
  virtual ~MailHost() = default;
  // The receive that takes this message, no longer posted; null: none does.
  virtual MailRequest* match(ContextId context, const MailEnvelope& envelope) = 0;
  virtual KeptMail& new_mail() = 0;
  virtual void keep(KeptMail& mail) = 0;
  // Ends a request; `result.bytes` is what moved.
  virtual void complete(MailRequest& request) = 0;
  virtual void fail(MailRequest& request, const Status& why) = 0;
};

class MailPeer {
 public:
  MailPeer(Rank self, Rank rank, const MailLimits& limits, MailHost& host)
      : self_(self), rank_(rank), limits_(limits), host_(host) {
    credit_ = {limits.bytes, limits.messages};
  }

  Rank rank() const { return rank_; }
  // Where frames go from now on; null, as at first: nowhere yet. It outlives this.
  void set_lane(MailLane* lane) { lane_ = lane; }
  // Access to the peer's memory; null: none.
  void set_memory(std::shared_ptr<ProcessMemory> memory) { memory_ = std::move(memory); }

  // Tells whether the other end waits for what it has sent here; empty: never.
  void set_attention(std::function<bool()> attends) { attends_ = std::move(attends); }

  // Counts the messages in `meter` from now on; it outlives this.
  void set_meter(MailMeter* meter) { meter_ = meter; }

  void send(MailRequest& request);
  // Whether the send had not left.
  bool cancel(MailRequest& request);
  // Takes a frame; an error: the peer is broken.
  Status hear(const MailHeader& header, std::span<const std::byte> payload);
  // A receive has taken a message of this peer that was kept; `mail` is the caller's afterwards.
  void deliver(KeptMail& mail, MailRequest& request);
  // A kept message goes unread.
  void drop(const KeptMail& mail);
  // Moves what can be moved; whether anything moved.
  bool progress();
  // Whether progress() would have something to do if there were room.
  bool has_work() const {
    return !waiting_.empty() || !replies_.empty() || !streams_.empty() || !pulls_.empty();
  }
  bool pulls() const { return !pulls_.empty(); }
  // The peer is gone: fails all that needs it.
  void fail_all(const Status& why);

 private:
  struct MailReply {
    MailKind kind{};
    MailTake take;      // kTake; kDone: the id
    MailAmount amount;  // kCredit
  };

  void unlink(MailRequest& request);
  bool leave(MailRequest& request);
  bool leave_whole(MailRequest& request);
  bool announce(MailRequest& request);
  bool write_replies();
  bool write_stream();
  bool pull();
  bool pull_part(MailRequest& request, std::uint64_t most);
  Status hear_whole(const MailHeader& header, std::span<const std::byte> payload);
  Status hear_announce(const MailHeader& header, std::span<const std::byte> payload);
  Status hear_take(std::span<const std::byte> payload);
  Status hear_data(std::span<const std::byte> payload);
  Status hear_done(std::span<const std::byte> payload);
  Status hear_credit(std::span<const std::byte> payload);
  void fetch(MailRequest& request);
  void ask(MailRequest& request);
  void reply(const MailReply& reply);
  void settle(std::uint64_t cost);

  const Rank self_;
  const Rank rank_;
  const MailLimits limits_;
  MailHost& host_;
  MailLane* lane_ = nullptr;
  // Owners: this alone.
  std::shared_ptr<ProcessMemory> memory_;
  std::function<bool()> attends_;
  MailMeter* meter_ = nullptr;

  MailList<MailRequest> waiting_;  // sends that have not left, in order
  MailList<MailRequest> streams_;  // sends whose payload was asked for
  MailList<MailRequest> pulls_;    // receives that read the peer's memory
  MailSlots slots_;                // all that have left and are not done, and receives under way
  std::deque<MailReply> replies_;  // at most one for each message of the peer's, and credit
  MailAmount credit_;
  MailAmount debt_;
  MailAmount kept_;  // of this peer's messages here
};

// Copies a part of a payload to its room.
void place_mail(const MailRoom& room, std::uint64_t offset, std::span<const std::byte> bytes);
// Copies a part of a payload from another process, where it lies at an address, to its room. How
// many bytes it could read, from the front of the part.
std::uint64_t pull_mail(const ProcessMemory& memory, std::uint64_t address, std::uint64_t offset,
                        std::uint64_t bytes, const MailRoom& room);
// Copies a part of what is sent.
void read_mail(const MailPayload& payload, std::uint64_t offset, std::span<std::byte> to);

}  // namespace holdfast::comm

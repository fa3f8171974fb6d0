// Mail core: all of a mailbox but its lock, its waits and its system calls: which contexts there
// are, who is there, what has been posted and what has come. mail_peer.h has the messages between
// two ranks; messages of a rank to itself are here.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "comm/message/mail_peer.h"
#include "comm/message/mailbox.h"

namespace holdfast::comm {

class MailCore final : public MailHost {
 public:
  MailCore(Rank self, int size, const MailLimits& limits);
  ~MailCore() override;

  Rank self() const { return self_; }
  int size() const { return static_cast<int>(seats_.size()); }

  // What callers ask for; see Mailbox.
  Status open(ContextId context, std::span<const Rank> members);
  void close(ContextId context);
  void send(MailRequest& request, const MailSend& message);
  void receive(MailRequest& request, const MailPattern& pattern, const MailRoom& room);
  void receive_matched(MailRequest& request, KeptMail& mail, const MailRoom& room);
  // The first such message, which is taken out if `take` holds; null: there is none yet.
  Result<KeptMail*> probe(const MailPattern& pattern, bool take);
  bool cancel(MailRequest& request);
  Mailbox::Backlog backlog() const;

  // What the world says. A rank has a new member, whose messages go over `lane`; null: not yet.
  MailPeer& seat(Rank rank, MailLane* lane);
  // Null: vacant, or this rank itself.
  MailPeer* peer(Rank rank) { return seats_[static_cast<std::size_t>(rank.value)].peer.get(); }
  // Not ok: why nothing comes from the rank any more.
  const Status& gone(Rank rank) const { return seats_[static_cast<std::size_t>(rank.value)].gone; }
  // `died`: the rank has not said goodbye.
  void on_gone(Rank rank, bool died, const Status& why);
  // The world has ended.
  void end(const Status& why);

  // Frames that came from the rank.
  void hear(Rank rank, const MailHeader& header, std::span<const std::byte> payload);
  bool progress();
  // Whether progress() would have something to do if there were room.
  bool has_work() const;
  // Counts what may change the answer of a probe.
  std::uint64_t news() const { return news_; }
  // Requests that have ended so far.
  std::uint64_t completions() const { return completions_; }

  // MailHost.
  MailRequest* match(ContextId context, const MailEnvelope& envelope) override {
    return matcher_.match(context, envelope.source, envelope.tag);
  }
  KeptMail& new_mail() override { return pool_.take(); }
  void keep(KeptMail& mail) override {
    matcher_.keep(mail);
    ++news_;
  }
  void complete(MailRequest& request) override;
  void fail(MailRequest& request, const Status& why) override;

 private:
  struct MailSeat {
    std::unique_ptr<MailPeer> peer;
    Status gone;        // not ok: why nothing comes from it any more
    bool died = false;  // it did not say goodbye
  };
  struct MailContext {
    std::vector<bool> members;  // by rank
    std::optional<Rank> died;   // a member that has
    int others = 0;             // members but this rank
    int left = 0;               // of those, how many have gone
  };

  void begin(MailRequest& request, MailRequest::Kind kind);
  MailContext* find_context(ContextId context);
  Status check_send(const MailSend& message);
  Status check_pattern(const MailPattern& pattern);
  Status hopeless(const MailPattern& pattern);
  void send_here(MailRequest& request);
  void deliver(KeptMail& mail, MailRequest& request);
  void deliver_here(MailRequest& send, MailRequest& receive);
  void discard(KeptMail& mail);
  void lose_mail(MailPeer& peer, const Status& why);
  std::optional<Rank> first_died(const MailContext& context, Rank except) const;
  bool is_member(const MailContext& context, Rank rank) const {
    return rank.value >= 0 && rank.value < size() &&
           context.members[static_cast<std::size_t>(rank.value)];
  }

  const Rank self_;
  const MailLimits limits_;
  std::vector<MailSeat> seats_;  // by rank
  Matcher matcher_;
  KeptMailPool pool_;
  MailList<MailArrival> taken_;  // by probe(), until receive_matched()
  std::unordered_map<std::uint32_t, MailContext> contexts_;
  std::uint32_t last_id_ = 0;  // of find_context()
  MailContext* last_ = nullptr;
  std::uint64_t kept_here_ = 0;  // bytes of this rank's messages to itself, with the overhead
  std::uint64_t completions_ = 0;
  std::uint64_t news_ = 0;
  Status ended_;
};

}  // namespace holdfast::comm

// Post office: the mailbox of a living world: the core and its ways to the other ranks behind a
// lock, and threads that wait. Callers poll the rings themselves, on their own thread; links are
// driven by whoever has the runtime.
//
// Thread: Mailbox any; all else only the holder of the runtime.
// Why: docs/decisions/0136-messages-are-matched-in-a-mailbox.md
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/executor.h"
#include "comm/message/mail_ways.h"

namespace holdfast::comm {

// What a post office needs of its group. Called by the holder of the runtime.
class MailNetwork {
 public:
  virtual ~MailNetwork() = default;
  // Sends a frame over the link to the rank, as far as there is one.
  virtual void send_mail(Rank to, std::vector<std::byte> frame) = 0;
  // Of the rank's process, if it shares memory with this one.
  virtual std::optional<Bell> bell_of(Rank rank) = 0;
  // Where messages with the rank are counted; null: nowhere. It outlives the post office.
  virtual MailMeter* meter_of(Rank) { return nullptr; }
};

class PostOffice final : public Mailbox, public std::enable_shared_from_this<PostOffice> {
 public:
  PostOffice(Rank self, int size, const MailLimits& limits, std::shared_ptr<Executor> executor,
             std::shared_ptr<const Clock> clock);

  // Mailbox.
  Rank rank() const override { return core_.self(); }
  int size() const override { return core_.size(); }
  Status open(ContextId context, std::span<const Rank> members) override;
  void close(ContextId context) override;
  void send(MailRequest& request, const MailSend& message) override;
  void receive(MailRequest& request, const MailPattern& pattern, const MailRoom& room) override;
  void receive_matched(MailRequest& request, MatchedMail& message, const MailRoom& room) override;
  Result<std::optional<MailEnvelope>> probe(const MailPattern& pattern) override;
  Result<MatchedMail> match(const MailPattern& pattern) override;
  Result<std::optional<MailEnvelope>> wait_probe(const MailPattern& pattern,
                                                 Duration timeout) override;
  Result<MatchedMail> wait_match(const MailPattern& pattern, Duration timeout) override;
  bool cancel(MailRequest& request) override;
  bool test(MailRequest& request) override;
  void poll() override;
  bool wait(MailRequest& request, Duration timeout) override;
  bool wait_all(std::span<MailRequest* const> requests, Duration timeout) override;
  std::optional<std::size_t> wait_any(std::span<MailRequest* const> requests,
                                      Duration timeout) override;
  Backlog backlog() const override;

  // The group, while it lives; null: no longer.
  void set_network(MailNetwork* network);
  // The rank has a new member, who is greeted.
  void seat(Rank rank);
  void on_gone(Rank rank, bool died, const Status& why);
  void end(const Status& why);
  // A new connection to the rank took the place of one that broke.
  void relink(Rank rank);
  // A frame came over the link.
  void hear(Rank from, std::span<const std::byte> frame);
  // Moves what can be moved; whether anything moved.
  bool progress();
  // Moves only what is in shared memory.
  MemoryPoll poll_memory();
  // A caller waits.
  bool busy() const { return waiters_.load(std::memory_order_relaxed) > 0; }

 private:
  // What a step under the lock leaves to be done without it.
  struct Leftover {
    bool flush = false;  // frames are to go over links
    bool wake = false;   // something came for which another thread may sleep
  };

  template <class Step>
  void step(const Step& step);
  template <class Step>
  bool drive(const Step& step);
  Leftover settle(std::uint64_t completions_expected);
  void flush();
  void leave_to_driver(Leftover left);
  template <class Done>
  bool wait_until(const Done& done, Duration timeout, std::uint64_t own = 0);
  std::vector<Rank> begin_attending(std::span<MailRequest* const> requests);
  void end_attending(const std::vector<Rank>& ranks);
  template <class Look>
  auto wait_found(const Look& look, Duration timeout);

  const std::shared_ptr<Executor> executor_;  // owners: see Group
  const std::shared_ptr<const Clock> clock_;
  MailNetwork* network_ = nullptr;  // driving thread only
  MailOutgoing outgoing_;           // driving thread only; kept empty: memory of flush()

  // Guards all below but the atomics, and is held while payloads are packed and unpacked, by code
  // of the caller that does not call back. No call to the executor or the network is made under it.
  mutable std::mutex mutex_;
  MailCore core_;
  SystemMailMemory memory_;
  MailWays ways_;
  std::uint32_t tests_ = 0;  // in vain

  // relaxed: hints, which a driver or a waiter looks at again and again
  std::atomic<int> waiters_{0};
  std::atomic<int> probers_{0};     // of those, how many wait for news
  std::atomic<bool> turns_{false};  // more than shared memory matters
  // Counts what may end a wait for a probe.
  std::atomic<std::uint64_t> news_{0};
};

}  // namespace holdfast::comm

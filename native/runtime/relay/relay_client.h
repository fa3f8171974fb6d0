// Relay client: how a member is reached that cannot be called, and reaches others that cannot be.
// On a thread of its own it finds out whether this process can be called, stays registered at the
// relays while it may be needed, picks up calls that they tell it of, and calls others through
// them. What comes of it are connections that the two members have still to greet each other over.
//
// Why: docs/decisions/0169-who-cannot-be-called-calls.md
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/net/socket.h"
#include "base/result.h"
#include "runtime/relay/relay_call.h"
#include "runtime/relay/relay_list.h"
#include "runtime/relay/relay_notes.h"
#include "runtime/rendezvous/card.h"
#include "runtime/rendezvous/sealer.h"

namespace holdfast::runtime {

// A connection to a member through a relay.
struct Crossing {
  int fd = -1;  // the taker's to close
  MemberId peer;
  bool is_caller = false;
  Endpoint relay;
};

class RelayClient {
 public:
  struct Self {
    MemberId member;
    std::uint16_t port = 0;              // it listens at
    std::vector<std::string> addresses;  // and these
    std::shared_ptr<const Sealer> sealer;
  };

  // `ring` is called on its thread when there is something to take.
  static Result<std::unique_ptr<RelayClient>> start(Self self, std::function<void()> ring);
  ~RelayClient();
  RelayClient(const RelayClient&) = delete;
  RelayClient& operator=(const RelayClient&) = delete;

  // All functions: any thread.
  // Where the relays are, in the order in which they are tried.
  void set_relays(std::vector<Endpoint> relays);
  // Calls the member through a relay, unless it is being called.
  void call(MemberId peer);
  // Whether others may have to call this process by a relay, however well it can be called; and
  // whether one is being called, or calls, now.
  void set_needed(bool needed, bool hurried = false);
  std::vector<Crossing> take();
  CalledBy called() const { return called_.load(std::memory_order_relaxed); }  // relaxed: alone
  // Waits until it is known whether this process can be called. Not ok: no relay is of any use,
  // and why.
  Status await_called(Duration patience);
  // What is wrong with the relays, not told yet; ok: nothing.
  Status take_trouble();
  // What came in a relay's call, by which this process learns that it can be called. False: it is
  // no such call.
  bool hear_knock(std::span<const std::byte> said);
  // Ends the thread and what it has under way.
  void stop();

 private:
  struct Job {
    RelayCall call;
    int fd = -1;
    Endpoint at;
    Instant deadline;
    bool connecting = true;
    std::vector<std::byte> out{};
    // Of a registration that stands.
    bool stands = false;
    Instant last_sign{};
    Instant next_sign{};
    RelayNotes notes{};
  };
  RelayClient(Self self, int interrupt, std::function<void()> ring);
  void work();
  void wait();
  void take_orders(Instant now);
  void find_out(Instant now);
  void keep_registered(Instant now);
  bool begin(Preface preface, const Endpoint& at, Instant now);
  // False: the job has ended.
  bool step(Job& job, Instant now);
  bool read_verdict(Job& job, Instant now);
  bool end_call(Job& job, Instant now);
  bool keep(Job& job, Instant now);
  bool send(Job& job);
  void pick_up(const Job& job, MemberId caller, const RelayTicket& ticket, Instant now);
  bool fail(Job& job, const Status& why, Instant now);
  void hand_over(Crossing crossing);
  void set_called(CalledBy called);
  void tell_trouble();

  const Self self_;
  const int interrupt_;
  const std::function<void()> ring_;
  MonotonicClock clock_;
  std::atomic<CalledBy> called_{CalledBy::kUnknown};
  std::atomic<bool> stops_{false};

  // Of its thread.
  RelayList relays_;
  std::vector<std::unique_ptr<Job>> jobs_;
  bool needed_here_ = false;
  bool hurried_here_ = false;
  RelayTicket nonce_{};
  bool asks_ = false;
  std::optional<Instant> knock_due_;  // a relay has been asked to call back by then
  Instant next_ask_{};

  std::mutex mutex_;  // guards the rest
  std::condition_variable known_;
  std::optional<std::vector<Endpoint>> new_relays_;
  std::set<MemberId> wanted_;
  bool needed_ = false;
  bool hurried_ = false;
  RelayTicket awaited_{};
  std::vector<Crossing> crossings_;
  Status trouble_ = Status::ok();  // with all relays
  bool told_ = false;
  std::thread thread_;
};

}  // namespace holdfast::runtime

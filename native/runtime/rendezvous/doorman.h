// Doorman: accepts callers and hears what they say first, on a thread of its own: callers that say
// nothing, or nonsense, cost the threads that move data nothing. Only callers that have greeted are
// passed on, still to be answered.
//
// Why: docs/decisions/0155-a-doorman-hears-callers-first.md
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/sealer.h"
#include "runtime/rendezvous/waiting_room.h"
#include "secure/testimony.h"

namespace holdfast::runtime {

class Doorman {
 public:
  struct Rules {
    WaitingRoom::Seats seats;
    Duration patience = std::chrono::seconds(10);    // for a caller's greeting
    std::shared_ptr<const Sealer> sealer = nullptr;  // null: connections are not sealed
    std::shared_ptr<AuditLog> audit = nullptr;       // null: none is kept
    // Takes connections whose first bytes, not read yet, are a relay's; null: there is no relay.
    std::function<void(int fd)> relay = nullptr;
    // Hears what a relay says that calls back; false: it says something else.
    std::function<bool(std::span<const std::byte>)> knock = nullptr;
  };
  // How many callers there were, by what became of them.
  struct Callers {
    std::uint64_t greeted = 0;
    std::uint64_t turned_away = 0;  // said nonsense, or nothing for too long, or hung up
    std::uint64_t gave_way = 0;     // to later ones
  };

  // `listener` outlives the doorman. `ring` is called on its thread when callers are there to be
  // taken, once until take() is called.
  static Result<std::unique_ptr<Doorman>> start(int listener, const Rules& rules,
                                                std::function<void()> ring);
  ~Doorman();
  Doorman(const Doorman&) = delete;
  Doorman& operator=(const Doorman&) = delete;

  // What witnesses of ended processes have said, not looked at yet. Any thread.
  std::vector<secure::Testimony> take_testimonies();
  // Callers that have greeted and wait for an answer, in the order of their greetings. Any thread.
  std::vector<std::unique_ptr<Handshake>> take();
  // Hears a caller that a relay has connected. Any thread.
  void admit(int fd);
  // Any thread.
  Callers callers() const;
  // Ends the thread; callers that wait are hung up on. Not from `ring`.
  void stop();

 private:
  Doorman(int listener, int epoll, int interrupt, const Rules& rules, std::function<void()> ring);
  void work();
  void accept_all();
  bool take_admitted();
  void seat(std::unique_ptr<Handshake> caller, int fd);
  void look_at(WaitingRoom::Ticket ticket);
  void rest(Duration time);
  bool is_flooded() const;
  bool hears_witness(WaitingRoom::Ticket ticket, int fd);
  bool hears_relay(WaitingRoom::Ticket ticket, Handshake& caller);
  void look_at_time();
  void let_go(WaitingRoom::Ticket ticket);
  void make_way(WaitingRoom::Ticket ticket);
  void count_refusal();
  void count_for_flood();
  void note(const char* event, const Handshake& caller, const std::string& why);
  int pause() const;

  const int listener_;
  const int epoll_;
  const int interrupt_;
  const Rules rules_;
  const std::function<void()> ring_;
  MonotonicClock clock_;

  // Of the doorman's thread.
  WaitingRoom room_;
  std::map<WaitingRoom::Ticket, std::unique_ptr<Handshake>> unheard_;
  std::optional<Instant> rests_until_;  // the listener is not watched
  Instant next_look_{};                 // at callers whose time may be over
  // Callers that were turned away, or handed to a relay, since `counted_since_`, and in the time
  // before that.
  Instant counted_since_{};
  int refusals_ = 0;
  int refusals_before_ = 0;

  std::atomic<std::uint64_t> greeted_{0};
  std::atomic<std::uint64_t> turned_away_{0};
  std::atomic<std::uint64_t> gave_way_{0};
  std::mutex mutex_;  // guards greeted callers, testimonies, those from relays, and the end
  std::vector<int> admitted_;
  bool ends_ = false;
  std::vector<std::unique_ptr<Handshake>> heard_;
  std::vector<secure::Testimony> testimonies_;
  std::thread thread_;
};

}  // namespace holdfast::runtime

// Driver: the Executor of production. Exactly one thread drives at a time: a blocked caller that
// lends itself, else the progress thread. The driving thread owns all mutable runtime state; the
// baton's mutex carries that state from one driving thread to the next.
//
// A driver with nothing to do spins for a short time (less when ranks outnumber cores), then
// sleeps: on the process's bell when only shared memory can wake it, on its sockets otherwise.
// Why: docs/decisions/0008-the-thread-that-waits-drives.md
// Why: docs/decisions/0009-look-politely.md
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/recycler.h"
#include "comm/executor.h"
#include "comm/transport/bell.h"

namespace holdfast::runtime {

// What a Driver drives. Driving thread only.
class Machinery {
 public:
  virtual ~Machinery() = default;
  // Does all work that does not block; returns whether anything moved.
  virtual bool turn(Instant now) = 0;
  // Does the small part of a turn that needs shared memory alone.
  virtual comm::MemoryPoll poll_memory() = 0;
  // Waits for sockets at most `timeout`; zero: only looks at them.
  virtual void poll_sockets(Duration timeout) = 0;
  // Looks at the sockets from which something is awaited, and at all sockets now and then.
  virtual void look_at_sockets() = 0;
  // Whether a socket may bring the next piece of work (TCP data, handshakes).
  virtual bool sockets_matter() const = 0;
  // Whether ops or connections are under way.
  virtual bool busy() const = 0;
  // Whether a caller waits for mail, which may come through shared memory.
  virtual bool awaits_mail() const { return false; }
  // Whether a process of this host waits on that core for others.
  virtual bool waits_at(int core) const = 0;
  // Whether all ops under way are small, so that spinning for each wait pays.
  virtual bool latency_bound() const = 0;
  virtual Instant next_deadline() const = 0;
  // Interrupts poll_sockets() on another thread. Any thread.
  virtual void interrupt() = 0;
};

struct Patience {
  int spins = 0;   // looks without giving up the core
  int yields = 0;  // looks that let other processes run
};

class Driver {
 public:
  using Task = comm::Executor::Task;

  // `time_slice`: the time slice of the threads that drive (time_slice.h).
  Driver(Machinery& machinery, comm::Bell bell, std::shared_ptr<const Clock> clock,
         Duration time_slice);
  ~Driver();

  void start_thread();
  void stop_thread();
  void set_patience(Patience patience);  // driving thread only

  void submit(Task task, bool wake);
  void defer(Task task) { deferred_.push_back(std::move(task)); }
  bool has_cores() const { return has_cores_.load(std::memory_order_relaxed); }
  bool has_submissions() const {
    return submissions_.load(std::memory_order_relaxed) != nullptr;  // relaxed: under a lock
  }
  bool drive_inline(const std::function<bool(bool)>& step);
  void drive_until(const std::function<bool()>& done, Instant deadline);

 private:
  struct Submission {
    Task task;
    Submission* next;
  };

  bool fly(const std::function<bool()>& done, Instant deadline, Patience small);
  bool look_everywhere(Instant now, bool on_sockets);
  bool run_submissions();
  void run_deferred();
  std::vector<Task> take_deferred();
  void run_taken(std::vector<Task> tasks, std::unique_lock<std::mutex>& lock);
  void wake_driver();
  void put_down(const std::function<bool()>& leaves);
  bool stopping() const { return stop_.load(std::memory_order_relaxed); }
  void part();
  void rest(const std::function<bool()>& done, Instant now, Instant deadline);
  void thread_main();

  Machinery& machinery_;
  comm::Bell bell_;
  const std::shared_ptr<const Clock> clock_;
  const Duration time_slice_;

  std::mutex mutex_;  // guards driving_, waiting_, spare_tasks_
  bool driving_ = false;
  std::vector<std::vector<Task>> spare_tasks_;  // empty lists, whose memory is reused
  int waiting_ = 0;
  std::condition_variable callers_;
  std::condition_variable thread_wakes_;
  std::atomic<bool> has_cores_{false};      // whether patience_ has spins
  std::atomic<bool> stop_{false};           // relaxed: followed by a wake-up
  std::atomic<bool> baton_wanted_{false};   // by a caller; the idle progress thread gives way
  std::atomic<bool> async_pending_{false};  // submitted work that no caller will drive
  std::atomic<int> waking_{0};              // submitters that may still touch this driver

  // Memory of the submissions below; every op makes one.
  Recycler recycler_;
  // Newest first. Any thread pushes (release); the driving thread empties the list (acquire).
  std::atomic<Submission*> submissions_{nullptr};

  // Driving thread only.
  std::vector<Task> deferred_;
  Patience patience_;
  Instant next_look_{};
  Instant next_turn_{};
  std::uint32_t inline_calls_ = 0;
  bool has_parted_ = false;
  std::thread thread_;
};

}  // namespace holdfast::runtime

// Driver: the Executor of production. Exactly one thread drives at a time: a blocked caller that
// lends itself, else the progress thread. Who drives owns all mutable runtime state; the baton's
// mutex carries it from one to the next.
//
// A driver with nothing to do spins briefly (less when ranks outnumber cores), then sleeps: on the
// process's bell when only shared memory can wake it, on its sockets otherwise.
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

// What is driven. Driving thread only.
class Machinery {
 public:
  virtual ~Machinery() = default;
  // Does all that can be done without blocking; whether anything moved.
  virtual bool turn(Instant now) = 0;
  // Does what shared memory alone allows; a small part of a turn.
  virtual comm::MemoryPoll poll_memory() = 0;
  // Waits for sockets at most `timeout` (zero: looks).
  virtual void poll_sockets(Duration timeout) = 0;
  // Looks at the sockets that something is awaited from, and now and then at all.
  virtual void look_at_sockets() = 0;
  // Whether a socket may bring the next piece of work (TCP data, handshakes).
  virtual bool sockets_matter() const = 0;
  // Whether ops or connections are under way.
  virtual bool busy() const = 0;
  // Whether what is under way is small, so that each wait is worth looking for.
  virtual bool latency_bound() const = 0;
  virtual Instant next_deadline() const = 0;
  // Interrupts poll_sockets() of another thread. Any thread.
  virtual void interrupt() = 0;
};

struct Patience {
  int spins = 0;   // looks without giving up the core
  int yields = 0;  // looks that let other processes run
};

class Driver {
 public:
  using Task = comm::Executor::Task;

  // `time_slice`: of the threads that drive (time_slice.h).
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
  void rest(const std::function<bool()>& done, Instant now, Instant deadline);
  void thread_main();

  Machinery& machinery_;
  comm::Bell bell_;
  const std::shared_ptr<const Clock> clock_;
  const Duration time_slice_;

  std::mutex mutex_;  // guards driving_, waiting_, spare_tasks_
  bool driving_ = false;
  std::vector<std::vector<Task>> spare_tasks_;  // empty ones: memory for the next
  int waiting_ = 0;
  std::condition_variable callers_;
  std::condition_variable thread_wakes_;
  std::atomic<bool> has_cores_{false};      // of patience_
  std::atomic<bool> stop_{false};           // relaxed: followed by a wake-up
  std::atomic<bool> baton_wanted_{false};   // a caller wants it; the idle progress thread gives way
  std::atomic<bool> async_pending_{false};  // submitted work that no caller will drive
  std::atomic<int> waking_{0};              // submitters that may still touch this

  // Memory of the submissions below: one is made for every op.
  Recycler recycler_;
  // Newest first; push from any thread (release), emptied by the driving thread (acquire).
  std::atomic<Submission*> submissions_{nullptr};

  // Driving thread only.
  std::vector<Task> deferred_;
  Patience patience_;
  Instant next_look_{};
  Instant next_turn_{};
  std::uint32_t briefs_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::runtime

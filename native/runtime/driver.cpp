#include "runtime/driver.h"

#include <sched.h>

#include <algorithm>

#include "base/cores.h"
#include "runtime/time_slice.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;

// A sleeper on the bell looks at its sockets this often: the latency of noticing a dead peer.
constexpr Duration kSocketLook = milliseconds(4);
// A driver that is awake looks at its sockets this often when only shared memory matters.
constexpr Duration kBusySocketLook = std::chrono::microseconds(500);
// Pause between two turns (looks at links and deadlines) while all ops under way are in shared
// memory.
constexpr Duration kTurnPause = std::chrono::microseconds(20);
// Looks of a caller that drives one small op inline: where each rank has a core of its own it
// spins, else it yields.
constexpr int kInlineSpins = 400;
constexpr int kInlineYields = 16;
// Links and deadlines are looked at once in so many inline ops.
constexpr std::uint32_t kInlinePerTurn = 16;
// After a caller has driven, the progress thread leaves driving to callers for this long, then
// keeps watch itself.
constexpr Duration kThreadPause = milliseconds(50);
// While bulk data moves, a driver that sleeps loses little, and other processes get its whole time
// slices.
constexpr Patience kBulkPatience{0, 10};
constexpr Duration kIdleSleep = milliseconds(500);
// A caller that waits for another driver checks this often, so no lost wake-up can hang it.
constexpr Duration kCallerLook = milliseconds(20);
// Limit of the task lists kept for reuse: one for each thread that drives at about the same time.
constexpr std::size_t kMostSpareTasks = 4;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Driver::Driver(Machinery& machinery, comm::Bell bell, std::shared_ptr<const Clock> clock,
               Duration time_slice)
    : machinery_(machinery), bell_(bell), clock_(std::move(clock)), time_slice_(time_slice) {}

Driver::~Driver() {
  stop_thread();
  // A task may hold the last owner of this driver, and end before its submitter has woken a thread.
  while (waking_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  run_submissions();
  run_deferred();
}

void Driver::start_thread() {
  thread_ = std::thread([this] { thread_main(); });
}

void Driver::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_relaxed);
  }
  thread_wakes_.notify_all();
  wake_driver();
  if (thread_.joinable()) thread_.join();
}

void Driver::set_patience(Patience patience) {
  patience_ = patience;
  has_cores_.store(patience.spins > 0, std::memory_order_relaxed);  // relaxed: only a hint
}

void Driver::submit(Task task, bool wake) {
  // relaxed: only the decrement at the end of submit() orders anything.
  if (wake) waking_.fetch_add(1, std::memory_order_relaxed);
  auto* submission = new (recycler_.take(sizeof(Submission))) Submission{std::move(task), nullptr};
  submission->next = submissions_.load(std::memory_order_relaxed);
  while (!submissions_.compare_exchange_weak(
      submission->next, submission, std::memory_order_release, std::memory_order_relaxed)) {
  }
  if (!wake) return;
  async_pending_.store(true, std::memory_order_release);
  wake_driver();
  {
    // Empty on purpose: a thread between its check and its wait has either seen the flag or gets
    // the signal.
    const std::lock_guard lock(mutex_);
  }
  thread_wakes_.notify_one();
  // release: nothing here is touched any more
  waking_.fetch_sub(1, std::memory_order_release);
}

bool Driver::run_submissions() {
  // acquire: the tasks' contents
  Submission* newest = submissions_.exchange(nullptr, std::memory_order_acquire);
  if (newest == nullptr) return false;
  Submission* oldest = nullptr;
  while (newest != nullptr) {
    Submission* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Submission* submission = std::exchange(oldest, oldest->next);
    submission->task();
    submission->~Submission();
    recycler_.give(submission, sizeof(Submission));
  }
  return true;
}

void Driver::run_deferred() {
  while (!deferred_.empty()) {
    std::vector<Task> tasks;
    tasks.swap(deferred_);
    for (Task& task : tasks) task();
  }
}

// The tasks that are to be run with the baton released. Called under the mutex by the thread that
// still has the baton.
std::vector<Driver::Task> Driver::take_deferred() {
  if (deferred_.empty()) return {};
  std::vector<Task> next;
  if (!spare_tasks_.empty()) {
    next.swap(spare_tasks_.back());
    spare_tasks_.pop_back();
  }
  return std::exchange(deferred_, std::move(next));
}

void Driver::run_taken(std::vector<Task> tasks, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  for (Task& task : tasks) task();
  tasks.clear();
  lock.lock();
  if (tasks.capacity() > 0 && spare_tasks_.size() < kMostSpareTasks) {
    spare_tasks_.push_back(std::move(tasks));
  }
}

// Wakes the driving thread if it sleeps.
void Driver::wake_driver() {
  if (bell_.ring() == comm::Sleep::kOnSocket) machinery_.interrupt();
}

void Driver::drive_until(const std::function<bool()>& done, Instant deadline) {
  ask_for_time_slice(time_slice_);
  std::unique_lock lock(mutex_);
  while (!done() && clock_->now() < deadline) {
    if (driving_) {
      baton_wanted_.store(true, std::memory_order_relaxed);  // relaxed: only a hint
      ++waiting_;
      lock.unlock();
      wake_driver();
      lock.lock();
      if (driving_ && !done()) callers_.wait_for(lock, kCallerLook);
      --waiting_;
      continue;
    }
    driving_ = true;
    baton_wanted_.store(false, std::memory_order_relaxed);
    lock.unlock();
    fly(done, deadline, patience_);
    if (std::exchange(has_parted_, false)) bell_.wait_at(-1);
    put_down(done);
    lock.lock();
  }
}

// Gives the baton up; `leaves`: whether the caller will not take it again.
void Driver::put_down(const std::function<bool()>& leaves) {
  const bool left_over = machinery_.busy();
  std::unique_lock lock(mutex_);
  std::vector<Task> tasks = take_deferred();
  driving_ = false;
  const bool others = waiting_ > 0;
  if (!tasks.empty()) run_taken(std::move(tasks), lock);
  if (others) {
    callers_.notify_all();
  } else if (left_over && leaves()) {
    async_pending_.store(true, std::memory_order_release);
    thread_wakes_.notify_one();
  }
}

bool Driver::drive_inline(const std::function<bool(bool)>& step) {
  ask_for_time_slice(time_slice_);
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || driving_ || waiting_ > 0) return false;
    driving_ = true;
    baton_wanted_.store(false, std::memory_order_relaxed);
  }
  run_submissions();
  const bool crowded = patience_.spins == 0;
  const int looks = crowded ? kInlineYields : kInlineSpins;
  bool ended = false;
  for (int look = 0; look <= looks && !ended; ++look) {
    if (look > 0) crowded ? static_cast<void>(sched_yield()) : relax();
    ended = step(look == looks);
  }
  if (++inline_calls_ % kInlinePerTurn == 0) {
    look_everywhere(clock_->now(), machinery_.sockets_matter());
  }
  put_down([ended] { return ended; });
  return true;
}

// Drives until there is something to run with the baton released, or done() holds (true), or the
// deadline has passed (false).
bool Driver::fly(const std::function<bool()>& done, Instant deadline, Patience small) {
  int looks = 0;
  for (;;) {
    bool moved = run_submissions();
    const Instant now = clock_->now();
    const bool on_sockets = machinery_.sockets_matter();
    comm::MemoryPoll poll{false, false};
    // A turn does what a poll does, but an op that has just begun must be posted before the turn.
    if (moved || !on_sockets) poll = machinery_.poll_memory();
    moved = poll.moved || moved;
    if (!deferred_.empty() || done()) return true;
    if (!poll.enough || on_sockets || now >= next_turn_) {
      moved = look_everywhere(now, on_sockets) || moved;
      if (!deferred_.empty() || done()) return true;
    }
    if (now >= deadline) return false;
    // Where each rank has a core of its own, no other process needs the time slice that a look
    // takes.
    const bool crowded = small.spins == 0;
    const bool bulk = crowded && small.yields > kBulkPatience.yields && !machinery_.latency_bound();
    const Patience patience = bulk ? kBulkPatience : small;
    if (moved) {
      looks = 0;
    } else if (looks < patience.spins) {
      ++looks;
      relax();
    } else if (looks < patience.spins + patience.yields) {
      if (looks == patience.spins && !crowded) part();
      ++looks;
      sched_yield();
    } else {
      rest(done, now, deadline);
    }
  }
}

// Ranks that wake each other may be put on one core while another is free, or has less to do. There
// each of them looks in vain until it gives the core up, 20 to 70 us for each message, and the
// system sees threads that are idle half of the time, and leaves them. Whoever notices goes.
// Why: docs/decisions/0141-ranks-on-one-core-part.md
void Driver::part() {
  int core = current_core();
  if (machinery_.waits_at(core)) {
    leave_core(core);
    core = current_core();
  }
  bell_.wait_at(core);
  has_parted_ = true;
}

bool Driver::look_everywhere(Instant now, bool on_sockets) {
  if (on_sockets || now >= next_look_) {
    machinery_.look_at_sockets();
    next_look_ = now + kBusySocketLook;
  }
  next_turn_ = now + kTurnPause;
  return machinery_.turn(now);
}

// Announces that this thread will sleep, looks for work a last time, and sleeps if there is none.
void Driver::rest(const std::function<bool()>& done, Instant now, Instant deadline) {
  const bool on_sockets =
      machinery_.sockets_matter() || !(machinery_.busy() || machinery_.awaits_mail());
  const std::uint32_t ticket =
      bell_.announce(on_sockets ? comm::Sleep::kOnSocket : comm::Sleep::kOnFutex);
  const bool work = run_submissions() || machinery_.turn(now) || !deferred_.empty() || done();
  if (!work) {
    const Instant until = std::min(deadline, machinery_.next_deadline());
    const Duration left = std::max(Duration::zero(), until - now);
    if (on_sockets) {
      machinery_.poll_sockets(std::min(left, kIdleSleep));
    } else {
      bell_.sleep(ticket, std::min(left, kSocketLook));
      next_look_ = {};
    }
  }
  bell_.awake();
}

// The progress thread: drives asynchronous ops, and keeps watch while no caller drives.
void Driver::thread_main() {
  ask_for_time_slice(time_slice_);
  std::unique_lock lock(mutex_);
  while (!stopping()) {
    const bool asked = thread_wakes_.wait_for(lock, kThreadPause, [this] {
      return stopping() || (!driving_ && async_pending_.load(std::memory_order_acquire));
    });
    if (stopping()) break;
    if (driving_ || (!asked && waiting_ > 0)) continue;
    driving_ = true;
    async_pending_.store(false, std::memory_order_relaxed);
    baton_wanted_.store(false, std::memory_order_relaxed);
    lock.unlock();
    const auto give_way = [this] {
      return stopping() || (baton_wanted_.load(std::memory_order_relaxed) && !machinery_.busy());
    };
    // The progress thread does not spin: the cores belong to the computation that overlaps with
    // this op.
    fly(give_way, clock_->now() + kIdleSleep, Patience{});
    const bool more = machinery_.busy();
    lock.lock();
    std::vector<Task> tasks = take_deferred();
    driving_ = false;
    if (more || !tasks.empty()) async_pending_.store(true, std::memory_order_release);
    run_taken(std::move(tasks), lock);
    lock.unlock();
    callers_.notify_all();
    lock.lock();
  }
}

}  // namespace holdfast::runtime

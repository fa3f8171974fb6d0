// The orders of stores and loads that shared areas, bells and rings rely on, in two ways.
//
// The model runs a few steps of each side in every order that a machine may show others: that of
// x86 (a store may pass later loads), and that of 64-bit Arm (whatever no fence and no acquire or
// release keeps back may pass). Stores reach all others at once, as they do on both; what Power
// allows beyond that is not looked at. What the writer does in take_back() is taken from there; the
// other steps are written down here as they are in the code.
//
// The runs of real threads show what the machine does that runs them: nothing new on x86, and
// nothing more under an emulator there.
#include <doctest/doctest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "comm/engine/host_count.h"
#include "comm/transport/bell.h"

namespace holdfast::comm {
namespace {

enum class Machine { kX86, kArm };

enum class Kind { kStore, kLoad, kFence };

struct Step {
  Kind kind;
  std::memory_order order;
  int word = 0;
  int value = 0;
};

// What the loads of all threads saw, in the order in which they are written down.
using Seen = std::vector<int>;
using Thread = std::vector<Step>;

bool is_acquire(const Step& s) {
  return s.order == std::memory_order_acquire || s.order == std::memory_order_seq_cst;
}
bool is_release(const Step& s) {
  return s.order == std::memory_order_release || s.order == std::memory_order_seq_cst;
}

bool fence_keeps(const Step& fence, const Step& before, const Step& after) {
  if (fence.order == std::memory_order_seq_cst) return true;
  if (fence.order == std::memory_order_release) return after.kind == Kind::kStore;
  return before.kind == Kind::kLoad;
}

// Whether step `i` of a thread comes before step `j`, for all others.
bool keeps(Machine machine, const Thread& t, std::size_t i, std::size_t j) {
  const Step& a = t[i];
  const Step& b = t[j];
  if (a.word == b.word) return true;
  if (a.kind == Kind::kStore && b.kind == Kind::kLoad) {
    // x86 makes an exchange of a sequentially consistent store.
    const bool both = b.order == std::memory_order_seq_cst || machine == Machine::kX86;
    if (a.order == std::memory_order_seq_cst && both) return true;
  } else if (machine == Machine::kX86) {
    return true;
  } else if (a.kind == Kind::kLoad && is_acquire(a)) {
    return true;
  } else if (b.kind == Kind::kStore && is_release(b)) {
    return true;
  }
  for (std::size_t f = i + 1; f < j; ++f) {
    const bool weak = machine == Machine::kX86 && t[f].order != std::memory_order_seq_cst;
    if (t[f].kind == Kind::kFence && !weak && fence_keeps(t[f], a, b)) return true;
  }
  return false;
}

class Model {
 public:
  Model(Machine machine, std::vector<Thread> threads)
      : machine_(machine), threads_(std::move(threads)) {
    for (const Thread& t : threads_) done_.emplace_back(t.size());
    for (const Thread& t : threads_) seen_.resize(seen_.size() + t.size(), -1);
  }
  std::set<Seen> run() {
    go_on();
    return outcomes_;
  }

 private:
  bool may_go(std::size_t t, std::size_t j) const {
    if (done_[t][j] || threads_[t][j].kind == Kind::kFence) return false;
    for (std::size_t i = 0; i < j; ++i) {
      const bool open = !done_[t][i] && threads_[t][i].kind != Kind::kFence;
      if (open && keeps(machine_, threads_[t], i, j)) return false;
    }
    return true;
  }
  void go_on() {
    bool any = false;
    std::size_t at = 0;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      for (std::size_t j = 0; j < threads_[t].size(); ++j, ++at) {
        if (!may_go(t, j)) continue;
        any = true;
        take(t, j, at);
      }
    }
    if (any) return;
    Seen loads;
    for (const int value : seen_) {
      if (value >= 0) loads.push_back(value);
    }
    outcomes_.insert(loads);
  }
  void take(std::size_t t, std::size_t j, std::size_t at) {
    const Step& step = threads_[t][j];
    int& word = memory_[static_cast<std::size_t>(step.word)];
    const int before = word;
    done_[t][j] = true;
    if (step.kind == Kind::kStore) word = step.value;
    if (step.kind == Kind::kLoad) seen_[at] = word;
    go_on();
    seen_[at] = -1;
    word = before;
    done_[t][j] = false;
  }

  Machine machine_;
  std::vector<Thread> threads_;
  std::vector<std::vector<bool>> done_;
  Seen seen_;
  std::array<int, 4> memory_{};
  std::set<Seen> outcomes_;
};

bool can(Machine machine, const std::vector<Thread>& threads, const Seen& outcome) {
  return Model(machine, threads).run().contains(outcome);
}

Step store(int word, int value, std::memory_order order) {
  return {Kind::kStore, order, word, value};
}
Step load(int word, std::memory_order order) { return {Kind::kLoad, order, word}; }
Step fence(std::memory_order order) { return {Kind::kFence, order, -1}; }

// Stand where take_back() has a word and fences, and write down what it does.
thread_local Thread* recorded = nullptr;
struct RecordedWord {
  int word;
  void store(std::uint64_t value, std::memory_order order) const {
    recorded->push_back(comm::store(word, static_cast<int>(value), order));
  }
};
struct RecordedFences {
  static void release() { recorded->push_back(fence(std::memory_order_release)); }
};

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kSeqCst = std::memory_order_seq_cst;

// Words of the model.
constexpr int kCounter = 0;
constexpr int kData = 1;
constexpr int kAsleep = 2;

TEST_CASE("the model knows what each machine does with stores and loads alone") {
  const std::vector<Thread> both_miss = {{store(0, 1, kRelaxed), load(1, kRelaxed)},
                                         {store(1, 1, kRelaxed), load(0, kRelaxed)}};
  const std::vector<Thread> passed_on = {{store(0, 1, kRelaxed), store(1, 1, kRelaxed)},
                                         {load(1, kRelaxed), load(0, kRelaxed)}};
  CHECK(can(Machine::kX86, both_miss, {0, 0}));
  CHECK(can(Machine::kArm, both_miss, {0, 0}));
  CHECK_FALSE(can(Machine::kX86, passed_on, {1, 0}));
  CHECK(can(Machine::kArm, passed_on, {1, 0}));
}

TEST_CASE("what a counter stands for is there when it is seen, and free when it is passed on") {
  for (const Machine machine : {Machine::kX86, Machine::kArm}) {
    CHECK_FALSE(can(machine,
                    {{store(kData, 1, kRelaxed), store(kCounter, 1, kRelease)},
                     {load(kCounter, kAcquire), load(kData, kRelaxed)}},
                    {1, 0}));
    // The reader of a slot counts on; its writer sees that, and writes to it.
    CHECK_FALSE(can(machine,
                    {{load(kData, kRelaxed), store(kCounter, 1, kRelease)},
                     {load(kCounter, kAcquire), store(kData, 1, kRelaxed)}},
                    {1, 1}));
  }
}

TEST_CASE("no reader takes what is written after take_back() for what was there before") {
  const Thread reader = {load(kData, kRelaxed), fence(kAcquire), load(kCounter, kAcquire)};
  const Seen torn = {1, 0};
  Thread writer;
  recorded = &writer;
  RecordedWord counter{kCounter};
  take_back<RecordedFences>(counter, 1);
  writer.push_back(store(kData, 1, kRelaxed));
  for (const Machine machine : {Machine::kX86, Machine::kArm}) {
    CHECK_FALSE(can(machine, {writer, reader}, torn));
  }
  // As it was: enough on x86 alone.
  const Thread once = {store(kCounter, 1, kSeqCst), store(kData, 1, kRelaxed)};
  CHECK_FALSE(can(Machine::kX86, {once, reader}, torn));
  CHECK(can(Machine::kArm, {once, reader}, torn));
}

TEST_CASE("who publishes sees the sleeper, or the sleeper sees what is published") {
  const auto missed = [](Machine machine, bool fences) {
    Thread ringer = {store(kData, 1, kRelease)};
    Thread sleeper = {store(kAsleep, 1, fences ? kSeqCst : kRelease)};
    if (fences) ringer.push_back(fence(kSeqCst));
    if (fences) sleeper.push_back(fence(kSeqCst));
    ringer.push_back(load(kAsleep, kRelaxed));
    sleeper.push_back(load(kData, kAcquire));
    return can(machine, {ringer, sleeper}, {0, 0});
  };
  for (const Machine machine : {Machine::kX86, Machine::kArm}) {
    CHECK_FALSE(missed(machine, true));
    CHECK(missed(machine, false));
  }
}

TEST_CASE("a ring's producer sees the room, or its consumer sees that it waits") {
  for (const Machine machine : {Machine::kX86, Machine::kArm}) {
    CHECK_FALSE(can(machine,
                    {{store(kCounter, 1, kSeqCst), load(kAsleep, kSeqCst)},
                     {store(kAsleep, 1, kSeqCst), load(kCounter, kSeqCst)}},
                    {0, 0}));
  }
}

// Of ranks that publish at the same time, ring_if_last().
TEST_CASE("whoever counts on last sees that all have") {
  for (const Machine machine : {Machine::kX86, Machine::kArm}) {
    const auto count = [](int own, int other) -> Thread {
      return {store(own, 1, kRelease), fence(kSeqCst), load(other, kAcquire)};
    };
    CHECK_FALSE(can(machine, {count(0, 1), count(1, 0)}, {0, 0}));
  }
}

TEST_CASE("threads: what is written after take_back() is never taken for what was before") {
  constexpr std::uint64_t kTurns = 200'000;
  std::atomic<std::uint64_t> counter{0};
  std::array<std::atomic<std::uint64_t>, 512> data{};
  std::thread writer([&] {
    for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
      take_back(counter, turn);
      data[turn * 64 % data.size()].store(turn, kRelaxed);
    }
  });
  std::uint64_t torn = 0;
  for (std::uint64_t at = 0, last = 0; last < kTurns; ++at) {
    const std::uint64_t read = data[at * 64 % data.size()].load(kRelaxed);
    std::atomic_thread_fence(kAcquire);
    last = counter.load(kAcquire);
    torn += last < read ? 1 : 0;
  }
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("threads: no ring is missed") {
  constexpr std::uint32_t kTurns = 20'000;
  constexpr Duration kTooLong = std::chrono::seconds(20);
  struct Side {
    BellWords words{};
    std::atomic<std::uint32_t> given{0};
  };
  std::array<Side, 2> sides;
  const auto play = [&](std::size_t self) {
    Bell own(&sides[self].words);
    Bell other(&sides[1 - self].words);
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      sides[self].given.store(turn, kRelease);
      other.ring();
      const auto begun = std::chrono::steady_clock::now();
      while (sides[1 - self].given.load(kAcquire) < turn) {
        const std::uint32_t ticket = own.announce(Sleep::kOnFutex);
        if (sides[1 - self].given.load(kAcquire) < turn) own.sleep(ticket, kTooLong);
        own.awake();
      }
      if (std::chrono::steady_clock::now() - begun >= kTooLong) return false;
    }
    return true;
  };
  bool first = false;
  std::thread thread([&] { first = play(0); });
  const bool second = play(1);
  thread.join();
  CHECK(first);
  CHECK(second);
}

}  // namespace
}  // namespace holdfast::comm

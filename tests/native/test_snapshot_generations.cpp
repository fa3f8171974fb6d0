// One keeper's snapshots, situation by situation: what it is told, and what it is to do.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "ft/snapshots/flush_order.h"
#include "ft/snapshots/generations.h"

namespace holdfast::ft {
namespace {

using std::chrono::seconds;

// A keeper of a group of three, and what it does as one line a step.
class Keeper {
 public:
  explicit Keeper(GenerationOptions options = {}) : machine(options) {
    tell(KeepersBegun{1, 0, 3, {}, {}});
  }

  std::string tell(const SnapshotEvent& event, int at = 0) {
    std::string line;
    for (const SnapshotAction& action : machine.step(event, {seconds(at)})) {
      line += (line.empty() ? "" : "; ") + std::string(snapshot_do_name(action.what));
      if (action.what == SnapshotDo::kExposed) continue;
      if (action.what == SnapshotDo::kProtected) continue;
      line += " " + std::to_string(action.id.step) + (action.ok ? "" : " no");
    }
    return line;
  }
  std::string gather(std::uint64_t step, std::vector<int> missing = {}) {
    const PartTold part{step, true, 0, step * 10};
    return tell(PartsGathered{{part, part, part}, std::move(missing)});
  }
  // Until the closing op.
  void make(std::uint64_t step) {
    tell(TakeAsked{step, 0});
    code(step);
  }
  void code(std::uint64_t step) {
    CHECK(tell(BodyCaptured{step, step * 10}) == "tell " + std::to_string(step));
    CHECK(gather(step) == "code " + std::to_string(step));
    CHECK(tell(ParityMade{}) == "close " + std::to_string(step));
  }
  std::string close() { return tell(ClosingEnded{{}, true, false}); }
  std::uint64_t committed() const { return machine.committed().value_or(SnapshotId{}).step; }

  Generations machine;
};

TEST_CASE("a snapshot is captured, told, coded, and counts when all have closed it") {
  Keeper keeper;
  CHECK(keeper.tell(TakeAsked{1, 0}) == "return 1 no; capture 1");
  keeper.code(1);
  CHECK(keeper.committed() == 0);
  CHECK(keeper.close() == "committed 1; protected");
  CHECK(keeper.committed() == 1);
  CHECK(keeper.tell(TakeAsked{2, 0}) == "return 2; capture 2");
}

TEST_CASE("take() waits until the snapshot before is committed") {
  Keeper keeper;
  keeper.make(1);
  CHECK(keeper.tell(TakeAsked{2, 0}) == "");
  CHECK(keeper.close() == "committed 1; protected; return 2; capture 2");
}

TEST_CASE("take() waits for a keeper as long as its patience, once, and says what it costs") {
  Keeper keeper({2, seconds(5), 0});
  keeper.make(1);
  CHECK(keeper.close() == "committed 1; protected");
  keeper.make(2);
  CHECK(keeper.tell(TakeAsked{3, 0}, 10) == "");
  CHECK(keeper.tell(TimePassed{}, 14) == "");
  CHECK(keeper.tell(TimePassed{}, 15) == "exposed; return 3 no");
  // Nobody waits for the same op again.
  CHECK(keeper.tell(TakeAsked{4, 0}, 16) == "return 4 no");
  // It has not captured step 4, and says so in the op that others begin for it.
  CHECK(keeper.close() == "committed 2; tell 4 no");
  const PartTold well{4, true, 0, 1};
  CHECK(keeper.tell(PartsGathered{{{4, false, 0, 0}, well, well}, {}}) == "exposed");
  CHECK(keeper.tell(TakeAsked{5, 0}) == "return 5 no; capture 5");
}

TEST_CASE("a trainer that went on without an answer is not told that it is safe") {
  Keeper keeper;
  keeper.make(1);
  keeper.close();
  keeper.make(2);
  // The keeper was stopped: both come at once.
  CHECK(keeper.tell(TakeAsked{3, 0}) == "");
  CHECK(keeper.tell(TakeAsked{4, 0}) == "");
  CHECK(keeper.close() == "committed 2; exposed; return 4 no; capture 4");
  CHECK(keeper.machine.exposed() == "step 3 was not taken in time");
}

TEST_CASE("the newest committed snapshot is never overwritten") {
  Keeper keeper;
  for (std::uint64_t step = 1; step < 9; ++step) {
    keeper.make(step);
    CHECK(keeper.committed() == step - 1);
    CHECK(keeper.close() != "");
    CHECK(keeper.committed() == step);
  }
}

TEST_CASE("what is being flushed is not overwritten: a snapshot is left out, or has a third slot") {
  for (const int slots : {2, 3}) {
    Keeper keeper({slots, seconds(5), 0});
    keeper.make(1);
    keeper.close();
    CHECK(keeper.tell(FlushBegun{{1, 1}}) == "");
    keeper.make(2);
    keeper.close();
    if (slots == 3) {
      CHECK(keeper.tell(TakeAsked{3, 0}) == "return 3; capture 3");
      continue;
    }
    CHECK(keeper.tell(TakeAsked{3, 0}) == "return 3; exposed; tell 3 no");
    CHECK(keeper.machine.exposed() ==
          "step 3 (epoch 1) was not taken: the memory of step 1 (epoch 1) is being read");
    keeper.gather(3);
    CHECK(keeper.tell(FlushEnded{{1, 1}, ""}) == "");
    CHECK(keeper.machine.flushed() == SnapshotId{1, 1});
  }
}

TEST_CASE("a tensor that moved fails the snapshot, for all") {
  Keeper keeper;
  keeper.tell(TakeAsked{1, 0});
  CHECK(keeper.tell(CaptureFailed{1, "model/w was changed"}) == "exposed; dropped 1; tell 1 no");
  CHECK(keeper.machine.exposed() == "step 1 (epoch 1) was not captured: model/w was changed");
  Keeper other;
  other.tell(TakeAsked{1, 0});
  other.tell(BodyCaptured{1, 10});
  const PartTold well{1, true, 0, 1};
  CHECK(other.tell(PartsGathered{{well, well, {1, false, 0, 0}}, {}}) == "exposed; dropped 1");
}

TEST_CASE("whoever is behind gives its snapshot up, whoever is ahead tells again") {
  Keeper ahead;
  ahead.tell(TakeAsked{5, 0});
  ahead.tell(BodyCaptured{5, 50});
  const PartTold five{5, true, 0, 50};
  const PartTold four{4, true, 0, 40};
  CHECK(ahead.tell(PartsGathered{{five, four, four}, {}}) == "tell 5");
  Keeper behind;
  behind.tell(TakeAsked{4, 0});
  behind.tell(BodyCaptured{4, 40});
  CHECK(behind.tell(PartsGathered{{four, five, four}, {}}) == "exposed; dropped 4");
  CHECK(behind.tell(TakeAsked{5, 0}) == "return 5 no; capture 5");
}

TEST_CASE("a keeper that is lost before the coding costs the snapshot") {
  Keeper keeper;
  keeper.tell(TakeAsked{1, 0});
  keeper.tell(BodyCaptured{1, 10});
  CHECK(keeper.gather(1, {2}) == "exposed; dropped 1");
  CHECK(keeper.machine.exposed() == "the keeper of rank 2 was lost");
  // Training goes on, and is told.
  CHECK(keeper.tell(TakeAsked{2, 0}) == "return 2 no");
}

TEST_CASE("an op of another group is no snapshot") {
  Keeper keeper;
  keeper.tell(TakeAsked{1, 0});
  keeper.tell(BodyCaptured{1, 10});
  CHECK(keeper.tell(PartsGathered{{{1, true, 0, 10}}, {}}) == "exposed; dropped 1");
  CHECK(keeper.machine.exposed() == "the keepers begin anew");
}

TEST_CASE("a parity that lacks somebody is not closed as whole") {
  Keeper keeper;
  keeper.tell(TakeAsked{1, 0});
  keeper.tell(BodyCaptured{1, 10});
  keeper.gather(1);
  CHECK(keeper.tell(ParityMade{{1}, ""}) == "close 1 no");
  CHECK(keeper.tell(ClosingEnded{{}, false, false}) == "exposed; dropped 1");
}

TEST_CASE("what others may have committed is kept until the next group settles it") {
  for (const bool settled : {true, false}) {
    Keeper keeper;
    keeper.make(1);
    keeper.close();
    keeper.make(2);
    CHECK(keeper.tell(ClosingEnded{{2}, true, false}) == "exposed");
    CHECK(keeper.committed() == 1);
    CHECK(keeper.machine.slots()[1].state == SlotState::kDoubt);
    const SnapshotId all_have{1, settled ? 2U : 1U};
    const std::string done = keeper.tell(KeepersBegun{2, 0, 3, all_have, {}});
    CHECK(done == (settled ? "committed 2; exposed" : "dropped 2; exposed"));
    CHECK(keeper.committed() == (settled ? 2 : 1));
    // No protection before a snapshot of this group.
    CHECK(keeper.tell(TakeAsked{3, 0}) == "return 3 no; capture 3");
  }
}

TEST_CASE("a new group that goes on from an older step drops the newer ones") {
  Keeper keeper;
  keeper.make(1);
  keeper.close();
  keeper.make(2);
  keeper.close();
  CHECK(keeper.tell(KeepersBegun{2, 0, 3, SnapshotId{1, 1}, {}}) == "dropped 2; exposed");
  CHECK(keeper.committed() == 1);
  // One that was begun before is none.
  CHECK(keeper.tell(KeepersBegun{2, 0, 3, {}, {}}) == "");
}

TEST_CASE("snapshots of a new epoch are newer, whatever their steps") {
  Keeper keeper;
  for (std::uint64_t step : {7U, 8U}) {
    keeper.make(step);
    keeper.close();
  }
  keeper.tell(KeepersBegun{2, 0, 3, SnapshotId{1, 7}, {}});
  keeper.make(3);
  keeper.close();
  CHECK(keeper.machine.committed() == SnapshotId{2, 3});
}

TEST_CASE("the newest is flushed every so many steps, unless a flush is under way") {
  Keeper keeper({3, seconds(5), 2});
  keeper.make(1);
  CHECK(keeper.close() == "committed 1; protected");
  keeper.make(2);
  CHECK(keeper.close() == "committed 2; flush 2");
  keeper.make(3);
  keeper.close();
  keeper.make(4);
  CHECK(keeper.tell(ClosingEnded{{}, true, true}) == "committed 4");
  keeper.tell(FlushEnded{{1, 2}, ""});
  keeper.make(5);
  CHECK(keeper.close() == "committed 5; flush 5");
}

TEST_CASE("when no trainer is left the newest is flushed at once") {
  Keeper keeper;
  keeper.make(1);
  keeper.close();
  CHECK(keeper.tell(TakeAsked{2, 0}) == "return 2; capture 2");
  CHECK(keeper.tell(TrainerGone{true}) == "dropped 2; tell 2 no; flush 1");
  CHECK(keeper.tell(TrainerGone{true}) == "");
}

TEST_CASE("a restore keeps its snapshot until it has ended, even if it is dropped") {
  Keeper keeper;
  keeper.make(1);
  keeper.close();
  keeper.tell(RestoreBegun{{1, 1}});
  keeper.make(2);
  keeper.close();
  keeper.tell(KeepersBegun{2, 0, 3, SnapshotId{1, 1}, {}});
  keeper.make(2);
  keeper.close();
  CHECK(keeper.tell(TakeAsked{3, 0}) == "return 3; exposed; tell 3 no");
  keeper.tell(RestoreEnded{{1, 1}});
  keeper.gather(3);
  CHECK(keeper.tell(TakeAsked{4, 0}) == "return 4 no; capture 4");
}

std::string all_of(FlushOrder& order, FlushDo failing) {
  std::string line;
  while (!order.is_over()) {
    line += std::string(flush_do_name(order.what())) + " ";
    order.done(order.what() == failing ? "no room" : "");
  }
  return line + flush_do_name(order.what());
}

TEST_CASE("a manifest comes after what it names, and older ones go after all have verified") {
  FlushOrder well({1, 5});
  CHECK(all_of(well, FlushDo::kDone) ==
        "write_files sync_files sync_folder write_manifest sync_manifest rename_manifest "
        "sync_rename verify agree remove_older done");
  FlushOrder full({1, 5});
  CHECK(all_of(full, FlushDo::kWriteFiles) == "write_files remove_own agree failed");
  CHECK(full.why() == "no room");
  FlushOrder others({1, 5});
  CHECK(all_of(others, FlushDo::kAgree).ends_with("verify agree failed"));
}

}  // namespace
}  // namespace holdfast::ft

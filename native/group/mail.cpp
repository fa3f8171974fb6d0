// The mailbox of a world's group: how it is opened, what it hears, and whether anybody waits for
// it.
#include <atomic>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::group {
namespace {

// A driver takes tasks within microseconds.
constexpr Duration kOpeningTime = std::chrono::seconds(5);

}  // namespace

Result<std::shared_ptr<comm::Mailbox>> Group::mailbox() {
  if (config_.id != world_->id()) {
    return Status{Code::kUnsupported, "group " + name() +
                                          " has no mailbox: only that of all ranks"
                                          " of its world has"};
  }
  // Owners: this call, and the task, which may come late.
  struct Opening {
    std::atomic<bool> done{false};
    std::shared_ptr<comm::PostOffice> office;
  };
  const auto opening = std::make_shared<Opening>();
  executor_->submit(
      [self = shared_from_this(), opening] {
        self->ask_for_turns();
        if (self->health().is_ok()) {
          opening->office = self->mail_.open(self->executor_, self->clock_);
        }
        opening->done.store(true, std::memory_order_release);
      },
      false);
  const auto done = [&] { return opening->done.load(std::memory_order_acquire); };
  executor_->drive_until(done, clock_->now() + kOpeningTime);
  if (!done()) return Status{Code::kTimeout, "group " + name() + ": its driver is busy"};
  if (!opening->office) return health();
  return std::shared_ptr<comm::Mailbox>(opening->office);
}

void Group::tell_of_wait(const std::shared_ptr<comm::LongWait>& wait, comm::WaitPhase phase) {
  executor_->submit([self = shared_from_this(), wait,
                     phase] { self->watch_.told_of_wait(*wait, phase, self->view().epoch); },
                    true);
}

void Group::on_mail(MemberId from, std::span<const std::byte> frame) {
  if (!health().is_ok()) return;
  ask_for_turns();
  mail_.hear(from, frame);
}

bool World::awaits_mail() const {
  bool awaits = false;
  groups_.each_awake([&](const Group& group) { awaits = awaits || group.awaits_mail(); });
  return awaits;
}

}  // namespace holdfast::group

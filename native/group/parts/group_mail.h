// Group mail: the mailbox of a world's group, once somebody has asked for it: it tells the post
// office who is there, sends its frames over the members' links, and keeps frames of members whose
// mailbox was there first.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0136-messages-are-matched-in-a-mailbox.md
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/executor.h"
#include "comm/message/post_office.h"
#include "group/parts/roster.h"
#include "group/parts/view_memory.h"

namespace holdfast::group {

class World;

class GroupMail final : private comm::MailNetwork {
 public:
  // All outlive it.
  GroupMail(CommId group, const Roster& roster, const ViewMemory& memory, World& world)
      : group_(group), roster_(roster), memory_(memory), world_(world) {}
  ~GroupMail() override;
  GroupMail(const GroupMail&) = delete;
  GroupMail& operator=(const GroupMail&) = delete;

  bool is_open() const { return office_ != nullptr; }
  // Makes the post office at the first call. Owners: this, and callers.
  std::shared_ptr<comm::PostOffice> open(std::shared_ptr<comm::Executor> executor,
                                         std::shared_ptr<const Clock> clock);
  // The members have changed from `before`.
  void take_members(const std::vector<MemberId>& before);
  void on_gone(Rank rank, bool died, const Status& why);
  void on_relinked(Rank rank);
  void hear(MemberId from, std::span<const std::byte> frame);
  void end(const Status& why);

  bool progress() { return office_ && office_->progress(); }
  // Nothing: there is no mailbox.
  std::optional<comm::MemoryPoll> poll_memory() {
    return office_ ? std::optional(office_->poll_memory()) : std::nullopt;
  }
  bool busy() const { return office_ && office_->busy(); }

 private:
  // Frames that a member may send before it has heard from this mailbox: a greeting, and the same
  // again over each new connection.
  static constexpr std::size_t kMostEarly = 8;
  struct EarlyMail {
    MemberId from;
    std::vector<std::byte> frame;
  };

  // comm::MailNetwork.
  void send_mail(Rank to, std::vector<std::byte> frame) override;
  std::optional<comm::Bell> bell_of(Rank rank) override;
  comm::MailMeter* meter_of(Rank rank) override;
  void seat(Rank rank);

  const CommId group_;
  const Roster& roster_;
  const ViewMemory& memory_;
  World& world_;
  std::shared_ptr<comm::PostOffice> office_;
  std::vector<EarlyMail> early_;
};

}  // namespace holdfast::group

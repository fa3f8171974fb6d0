// Script: a call that takes several steps, each of which waits for messages or a collective of the
// core: collectives of inter-communicators, neighbour collectives, and all whose data is packed.
// One description serves the blocking call, the one that returns a request, and the persistent one,
// which runs it again and again.
//
// Scripts under way are driven by whoever waits in MPI: a rank that waits for something else goes
// on with its part in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/message/mailbox.h"
#include "device_comm/staged.h"
#include "mpi/core/call.h"

namespace holdfast::mpi {

struct Comm;
struct Datatype;
struct Op;

// How long a wait lasts before it looks whether other scripts can go on.
constexpr Duration kSliceOfWait = std::chrono::milliseconds(2);

// Data of the program that lies in gaps, or on a device, and its packed form.
struct Packing {
  const Datatype* type;
  std::int64_t count;
  std::byte* user;
  std::byte* packed;
};

// Messages of one script are told apart by this many tags, and scripts of one communicator by the
// rest of the tag.
inline constexpr std::int32_t kTagsPerScript = 1 << 8;
inline constexpr std::uint32_t kScriptTags = 1 << 22;

struct Step {
  struct Message {
    bool receives = false;
    Rank peer{};           // of the world
    std::int32_t tag = 0;  // below kTagsPerScript
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<Packing> packs;         // before all else
  std::function<void()> before;       // then; null: nothing
  std::optional<comm::OpRequest> op;  // a collective of the communicator's own side
  // On memory of this device; null: on the host's. Owners: as device_comm/staged.h says, and steps.
  std::shared_ptr<device_comm::Staged> staged;
  Failure broken;                  // why it cannot begin
  std::vector<Message> messages;   // all at once, beside it
  std::vector<Packing> unpacks;    // when all have ended
  std::function<Failure()> after;  // then; null: nothing
};

class Script {
 public:
  // `caller`: the call of the program, a text that lives as long as the process; null: none.
  explicit Script(Comm& comm, const char* caller = nullptr);
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  Comm& comm() const { return comm_; }
  Step& add_step() { return steps_.emplace_back(); }
  // Memory that lives as long as the script.
  std::byte* allocate(std::uint64_t bytes);
  // As allocate(), of a device.
  Result<std::byte*> allocate_on(const std::shared_ptr<device_comm::Staged>& staged,
                                 std::uint64_t bytes);
  // The type (the op) stays as long as the script does.
  Datatype* keep(Datatype* type);
  Op* keep(Op* op);

  // Has its collectives in a group of its own, by a call of all ranks of this side: those of later
  // steps begin when the rank gets there, and must not meet others that the program began since.
  Failure take_own_group();
  bool has_ops() const;

  // Begins the first step. Any thread; not while it runs.
  void begin();
  // Goes as far as possible without waiting; whether it has ended. Any thread.
  bool advance();
  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Waits until it has ended, driving others as well.
  void wait();
  // Once it has ended.
  const Failure& failure() const { return failure_; }

 private:
  friend class Scripts;
  void begin_step();
  Result<std::shared_ptr<comm::Work>> start_op(const Step& step) const;
  bool step_ended();
  void end_step();
  void fail(Failure failure);
  // Waits a little for what the step at hand waits for.
  void wait_a_little();

  Comm& comm_;  // a use of its own
  const char* const caller_;
  // Owners: this, and works. Null: that of the communicator.
  std::shared_ptr<comm::Communicator> group_;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  struct MemoryOnDevice {
    std::shared_ptr<device_comm::Staged> staged;  // owners: as Step says, and this
    device::DevicePointer at;
  };
  std::vector<MemoryOnDevice> memory_on_devices_;
  std::vector<Datatype*> types_;
  std::vector<Op*> ops_;

  std::mutex mutex_;  // guards all below but done_
  std::size_t at_ = 0;
  std::int32_t first_tag_ = 0;  // of this run
  std::shared_ptr<comm::Work> work_;
  std::vector<std::unique_ptr<comm::MailRequest>> mails_;
  Failure failure_;
  std::atomic<bool> done_{true};  // release when it has ended, acquire by who looks
};

// Scripts under way that somebody must drive.
class Scripts {
 public:
  void add(std::shared_ptr<Script> script);
  // Goes on with all of them; whether there are any. Any thread.
  bool advance();

 private:
  std::mutex mutex_;  // guards the list; held over no script's step
  std::vector<std::shared_ptr<Script>> scripts_;
  std::atomic<std::size_t> count_{0};  // relaxed: a hint that there are none
};

}  // namespace holdfast::mpi

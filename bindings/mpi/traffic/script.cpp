#include "mpi/traffic/script.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "device/device_address.h"
#include "device_comm/device_work.h"
#include "mpi/comms/comm.h"
#include "mpi/comms/make_comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {
Failure failure_of(const holdfast::Status& status) {
  switch (status.code()) {
    case Code::kOk: return {};
    case Code::kPeerLost: {
      // The core's ops name the rank; its messages have the number alone, of the world.
      const bool is_named =
          status.ranks().empty() || status.message().find("lost rank") != std::string::npos;
      if (is_named) return {kErrProcAborted, status.message()};
      return {kErrProcAborted, "lost rank " + std::to_string(status.ranks().front().value) +
                                   " of MPI_COMM_WORLD: " + status.message()};
    }
    case Code::kAborted: return {kErrProcAborted, status.message()};
    case Code::kConfigError: return {kErrArg, status.message()};
    case Code::kUnsupported: return {kErrUnsupportedOperation, status.message()};
    case Code::kProtocolError: {
      // What the core calls a mismatch, wherever it has seen one. Programs of Open MPI see 255
      // bytes of a text: what each rank called comes first.
      const std::size_t mismatch = status.message().find("calls do not match");
      if (mismatch == std::string::npos) return {kErrOther, status.message()};
      return {kErrNotSame, status.message().substr(mismatch)};
    }
    default: return {kErrOther, status.message()};
  }
}

Script::Script(Comm& comm, const char* caller) : comm_(*Registry::use(&comm)), caller_(caller) {}

Script::~Script() {
  Registry& registry = process().registry;
  for (Datatype* type : types_) registry.drop(type);
  for (Op* op : ops_) registry.drop(op);
  registry.drop(&comm_);
  for (const MemoryOnDevice& memory : memory_on_devices_) {
    device::Device& device = memory.staged->device();
    const device::Device::Current current(device);
    // A lost device has taken its memory along, whatever this returns.
    static_cast<void>(device.release(memory.at, memory.staged->up()));
  }
  if (group_) static_cast<void>(group_->close(Duration::zero()));
}

bool Script::has_ops() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& s) { return s.op.has_value(); });
}

Failure Script::take_own_group() {
  std::vector<int> ranks(static_cast<std::size_t>(comm_.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto derived = derive_group(comm_.group, ranks);
  if (!derived.is_ok()) return failure_of(derived.status());
  group_ = std::move(derived).value();
  return {};
}

std::byte* Script::allocate(std::uint64_t bytes) {
  memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(std::max<std::uint64_t>(bytes, 1)));
  return memory_.back().get();
}

Result<std::byte*> Script::allocate_on(const std::shared_ptr<device_comm::Staged>& staged,
                                       std::uint64_t bytes) {
  const device::Device::Current current(staged->device());
  TRY(current.status());
  const auto memory = staged->device().allocate(std::max<std::uint64_t>(bytes, 1), staged->up());
  if (!memory.is_ok()) return memory.status();
  memory_on_devices_.push_back({staged, memory.value()});
  return device::pointer_to(memory.value());
}

Datatype* Script::keep(Datatype* type) {
  if (!type->predefined) types_.push_back(Registry::use(type));
  return type;
}

Op* Script::keep(Op* op) {
  if (!op->predefined) ops_.push_back(Registry::use(op));
  return op;
}

void Script::begin() {
  const std::lock_guard lock(mutex_);
  CHECK(done_.load(std::memory_order_relaxed));
  at_ = 0;
  failure_ = {};
  // All ranks of an inter-communicator count all its collectives, and ranks with neighbours those
  // with messages.
  const bool counts =
      comm_.is_inter() ||
      std::any_of(steps_.begin(), steps_.end(), [](const Step& s) { return !s.messages.empty(); });
  const std::uint32_t number = !counts ? 0 : comm_.scripts.fetch_add(1, std::memory_order_relaxed);
  first_tag_ = static_cast<std::int32_t>(number % kScriptTags) * kTagsPerScript;
  done_.store(false, std::memory_order_relaxed);
  if (steps_.empty()) {
    done_.store(true, std::memory_order_release);
  } else {
    begin_step();
  }
}

void Script::begin_step() {
  Step& step = steps_[at_];
  if (step.broken.code != kSuccess) return fail(step.broken);
  for (const Packing& p : step.packs) {
    Failure failure = pack_elements(*p.type, p.count, p.user, p.packed);
    if (failure.code != kSuccess) return fail(std::move(failure));
  }
  if (step.before) step.before();
  work_ = nullptr;
  if (step.op) {
    step.op->caller = caller_;
    auto started = start_op(step);
    if (!started.is_ok()) return fail(failure_of(started.status()));
    work_ = std::move(started).value();
  }
  comm::Mailbox& mailbox = process().mailbox();
  while (mails_.size() < step.messages.size()) {
    mails_.push_back(std::make_unique<comm::MailRequest>());
  }
  // Receives first, so that no message of this step comes unasked.
  for (const bool receives : {true, false}) {
    for (std::size_t i = 0; i < step.messages.size(); ++i) {
      const Step::Message& message = step.messages[i];
      if (message.receives != receives) continue;
      if (receives) {
        mailbox.receive(*mails_[i], {comm_.collectives(), message.peer, first_tag_ + message.tag},
                        {message.data, message.bytes, nullptr});
      } else {
        mailbox.send(*mails_[i], {comm_.collectives(),
                                  message.peer,
                                  first_tag_ + message.tag,
                                  comm::SendMode::kStandard,
                                  {message.data, message.bytes, nullptr}});
      }
    }
  }
}

Result<std::shared_ptr<comm::Work>> Script::start_op(const Step& step) const {
  comm::Communicator& group = group_ ? *group_ : *comm_.group;
  if (!step.staged) return group.start(*step.op);
  auto started = step.staged->start(group, *step.op, {});
  if (!started.is_ok()) return started.status();
  return std::shared_ptr<comm::Work>(std::move(started).value());
}

bool Script::step_ended() {
  if (work_ && !work_->done()) return false;
  comm::Mailbox& mailbox = process().mailbox();
  const std::size_t count = steps_[at_].messages.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!mails_[i]->is_done() && !mailbox.test(*mails_[i])) return false;
  }
  return true;
}

void Script::end_step() {
  Step& step = steps_[at_];
  if (work_ && !work_->status().is_ok()) return fail(failure_of(work_->status()));
  for (std::size_t i = 0; i < step.messages.size(); ++i) {
    const comm::MailResult& result = mails_[i]->result;
    if (result.outcome == comm::MailOutcome::kTruncated) {
      return fail({kErrTruncate, "a message of " + std::to_string(result.bytes) +
                                     " bytes or more came where the call has room for " +
                                     std::to_string(step.messages[i].bytes) +
                                     ": the ranks' counts or types differ"});
    }
    if (result.outcome != comm::MailOutcome::kOk) return fail(failure_of(result.status));
  }
  for (const Packing& p : step.unpacks) {
    Failure failure = unpack_elements(*p.type, p.count, p.packed, p.user);
    if (failure.code != kSuccess) return fail(std::move(failure));
  }
  if (step.after) {
    Failure failure = step.after();
    if (failure.code != kSuccess) return fail(std::move(failure));
  }
  if (++at_ < steps_.size()) return begin_step();
  done_.store(true, std::memory_order_release);
}

void Script::fail(Failure failure) {
  // Memory of messages under way must not be touched after the call has ended.
  comm::Mailbox& mailbox = process().mailbox();
  for (const auto& mail : mails_) {
    if (mail->state.load(std::memory_order_acquire) != comm::MailRequest::State::kActive) continue;
    if (!mailbox.cancel(*mail)) mailbox.wait(*mail, std::chrono::seconds(60));
  }
  failure_ = std::move(failure);
  done_.store(true, std::memory_order_release);
}

bool Script::advance() {
  if (is_done()) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  while (!is_done() && step_ended()) end_step();
  return is_done();
}

void Script::wait_a_little() {
  std::shared_ptr<comm::Work> work;
  comm::MailRequest* mail = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (is_done()) return;
    if (work_ && !work_->done()) work = work_;
    for (std::size_t i = 0; !work && mail == nullptr && i < steps_[at_].messages.size(); ++i) {
      if (!mails_[i]->is_done()) mail = mails_[i].get();
    }
  }
  if (work) {
    static_cast<void>(work->wait(kSliceOfWait));
  } else if (mail != nullptr) {
    process().mailbox().wait(*mail, kSliceOfWait);
  }
}

void Script::wait() {
  while (!advance()) {
    wait_a_little();
    process().scripts.advance();
  }
}

void Scripts::add(std::shared_ptr<Script> script) {
  const std::lock_guard lock(mutex_);
  scripts_.push_back(std::move(script));
  count_.store(scripts_.size(), std::memory_order_relaxed);
}

bool Scripts::advance() {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  std::vector<std::shared_ptr<Script>> under_way;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(scripts_, [](const auto& script) { return script->is_done(); });
    count_.store(scripts_.size(), std::memory_order_relaxed);
    under_way = scripts_;
  }
  for (const auto& script : under_way) script->advance();
  return !under_way.empty();
}

}  // namespace holdfast::mpi

#include "mpi/core/process.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "c/handles.h"
#include "c/option_fields.h"
#include "mpi/abi/export.h"
#include "mpi/comms/make_comm.h"
#include "mpi/core/launched.h"
#include "mpi/core/other_mpi.h"
#include "mpi/core/predefined.h"
#include "mpi/traffic/buffered.h"
#include "mpi/traffic/message.h"
#include "mpi/types/datatype.h"
#include "runtime/options.h"

namespace holdfast::mpi {
namespace {

// MPI's calls have no time limit: a rank may compute for days before it comes to a collective. Who
// sets HOLDFAST_TIMEOUT has one.
constexpr Duration kPatience = std::chrono::hours(24 * 365);
// The last collective, in which all ranks say that they have ended.
constexpr Duration kGoodbye = std::chrono::seconds(30);
constexpr const char* kWorldName = "MPI_COMM_WORLD";

Result<runtime::Options> options_from_environment() {
  hf_options options;
  if (hf_options_from_env_sized(&options, sizeof options) != HF_OK) {
    return holdfast::Status{Code::kConfigError, hf_last_error()};
  }
  hf_device_options devices = {};
  devices.size = sizeof devices;
  if (hf_device_options_from_env(&devices) != HF_OK) {
    return holdfast::Status{Code::kConfigError, hf_last_error()};
  }
  auto native = c::native_options(&options, &devices);
  if (!native.is_ok()) return native.status();
  if (std::getenv("HOLDFAST_TIMEOUT") == nullptr) native.value().timeout = kPatience;
  // The loss of a rank is an error, on all survivors, at the same call.
  native.value().on_peer_loss = comm::PeerLoss::kRaise;
  return native;
}

}  // namespace

void predefine_comms(Registry& registry) {
  registry.predefine<Comm>(kCommWorld);
  registry.predefine<Comm>(kCommSelf);
}

void predefine_messages(Registry& registry) { registry.predefine<Message>(kMessageNoProc); }

Process& process() {
  // Never destroyed: threads of the program may be in MPI while it exits.
  static Process* const own = new Process;
  return *own;
}

holdfast::Status Process::join(const Launched& launched) {
  auto options = options_from_environment();
  if (!options.is_ok()) return options.status();
  auto node = runtime::Node::create(options.value());
  if (!node.is_ok()) return node.status();
  node_ = std::move(node).value();
  auto store = open_store(launched);
  if (!store.is_ok()) return store.status();
  store_ = std::move(store).value();
  runtime::JoinRequest request;
  request.group = "mpi";
  request.rank = Rank{launched.rank};
  request.size = launched.size;
  auto joined = node_->join(*store_, request);
  if (!joined.is_ok()) return joined.status();
  world_group_ = std::move(joined).value();
  auto mailbox = world_group_->mailbox();
  if (!mailbox.is_ok()) return mailbox.status();
  mailbox_ = std::move(mailbox).value();
  devices.begin(node_, options.value().cuda_driver);
  return holdfast::Status::ok();
}

int Process::begin(Call& call, int level) {
  Phase before = Phase::kBefore;
  if (!phase_.compare_exchange_strong(before, Phase::kBeginning, std::memory_order_acq_rel)) {
    return call.fail(kErrOther,
                     before == Phase::kEnded ? "MPI has been finalized; it cannot be started again"
                     : before == Phase::kForked
                         ? "this is a forked child, which has no part in its parent's MPI"
                         : "MPI is initialized already");
  }
  abi_ = &call.abi();
  level_ = level;
  main_thread_ = std::this_thread::get_id();
  const auto give_up = [&](const holdfast::Status& status) {
    phase_.store(Phase::kBefore, std::memory_order_release);
    return call.fail(kErrOther, status.message());
  };
  if (const std::string other = other_mpi(); !other.empty()) {
    return give_up({Code::kConfigError,
                    "there are two MPIs in this process: " + own_path() + " and " + other +
                        "; accepted: one, that the program and all of its libraries need"});
  }
  auto launched = launched_from_environment();
  if (!launched.is_ok()) return give_up(launched.status());
  if (const auto status = join(launched.value()); !status.is_ok()) return give_up(status);
  if (Failure failure = make_world(); failure.code != kSuccess) {
    phase_.store(Phase::kBefore, std::memory_order_release);
    return call.take(std::move(failure));
  }
  take_rank(launched.value());
  // Without memory for it, children are not told what they do wrong.
  static_cast<void>(::pthread_atfork(nullptr, nullptr, [] { process().leave_to_parent(); }));
  phase_.store(Phase::kRunning, std::memory_order_release);
  return kSuccess;
}

Failure Process::make_world() {
  const int size = world_group_->size();
  const int rank = world_group_->rank().value;
  std::vector<int> all(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  auto alone = derive_group(world_group_, {rank}, 0);
  if (!alone.is_ok()) return failure_of(alone.status());
  const auto fill = [&](Comm* comm, const char* name, const std::vector<int>& members,
                        std::shared_ptr<comm::Communicator> group) {
    comm->name = name;
    comm->local = registry.make_own<Group>(members);
    comm->rank = comm->local->rank_of(rank);
    comm->group = std::move(group);
    if (comm->errhandler == nullptr) {
      comm->errhandler =
          static_cast<Errhandler*>(registry.find(Kind::kErrhandler, kErrorsAreFatal));
    }
  };
  world = static_cast<Comm*>(registry.find(Kind::kComm, kCommWorld));
  self = static_cast<Comm*>(registry.find(Kind::kComm, kCommSelf));
  byte_type = static_cast<Datatype*>(registry.find(Kind::kType, kTypeByte));
  no_message = static_cast<Message*>(registry.find(Kind::kMessage, kMessageNoProc));
  fill(world, kWorldName, all, world_group_);
  fill(self, "MPI_COMM_SELF", {rank}, std::move(alone).value());
  // The first two contexts; later ones are proposed and agreed on.
  if (Failure failure = open_comm(*world, 0); failure.code != kSuccess) return failure;
  return open_comm(*self, Comm::kContexts);
}

int Process::end(Call& call) {
  if (phase() != Phase::kRunning) {
    return call.fail(kErrOther, "MPI is not running: it was not initialized, or is finalized");
  }
  const int code = delete_attributes(call, *self, self->attributes);
  if (code != kSuccess) return code;
  orphans.wait();
  if (buffer) buffer->flush();
  while (scripts.advance()) std::this_thread::yield();
  // All ranks come here before any leaves, so that nobody is taken for lost.
  comm::OpRequest barrier;
  barrier.collective = comm::Collective::kBarrier;
  barrier.caller = call.name();
  if (auto ran = world_group_->run(std::move(barrier)); ran.is_ok() && ran.value().work) {
    static_cast<void>(ran.value().work->wait(kPatience));
  }
  phase_.store(Phase::kEnded, std::memory_order_release);
  static_cast<void>(self->group->close(kGoodbye));
  static_cast<void>(world_group_->close(kGoodbye));
  mailbox_ = nullptr;
  node_->close(kGoodbye);
  return kSuccess;
}

void Process::abort_job(Comm* comm, int code) {
  const std::string why = "MPI_Abort with code " + std::to_string(code) +
                          (comm != nullptr ? " on " + comm->name : std::string());
  if (is_running()) {
    std::fprintf(stderr, "holdfast: rank %d: %s\n", world->rank, why.c_str());
    world_group_->abort(why);
  } else {
    std::fprintf(stderr, "holdfast: %s\n", why.c_str());
  }
  std::fflush(stderr);
  // Exit statuses have eight bits, and 0 would say that all is well.
  ::_exit((code & 0xff) == 0 ? 1 : code & 0xff);
}

hf_node* Process::c_node() {
  const std::lock_guard lock(c_node_mutex_);
  if (!c_node_ && is_running()) c_node_ = std::make_unique<hf_node>(hf_node{node_, ""});
  return c_node_.get();
}

Stage stage() {
  switch (process().phase()) {
    case Process::Phase::kRunning: return Stage::kRunning;
    case Process::Phase::kEnded: return Stage::kAfter;
    case Process::Phase::kForked: return Stage::kForked;
    default: return Stage::kBefore;
  }
}

}  // namespace holdfast::mpi

extern "C" HOLDFAST_MPI hf_node* hf_mpi_node() { return holdfast::mpi::process().c_node(); }

extern "C" HOLDFAST_MPI int MPIX_Query_cuda_support() {
  return holdfast::mpi::process().devices.is_off() ? 0 : 1;
}

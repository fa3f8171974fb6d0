#include "mpi/comms/make_comm.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "mpi/core/process.h"
#include "mpi/traffic/collective.h"
#include "mpi/traffic/messages.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {
namespace {

constexpr std::uint32_t kContextsEach = Comm::kContexts;
// In place of one: there are no more. A multiple, as all are.
constexpr std::uint32_t kNoContext = 0 - kContextsEach;
// Ranks that make a communicator among themselves meet in messages of the parent's collectives,
// with tags above those of its collectives.
constexpr std::int32_t kMeetingTags = 1 << 30;

comm::OpRequest greatest(std::uint32_t* value) {
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.dtype = DType::kU32;
  request.op = ReduceOp::kMax;
  request.input = {comm::Block{reinterpret_cast<std::byte*>(value), 1}};
  request.output = request.input;
  return request;
}

Failure run(Script& script) {
  script.begin();
  script.wait();
  return script.failure();
}

Failure exchange(comm::MailRequest& send, comm::MailRequest& receive) {
  comm::MailRequest* both[] = {&send, &receive};
  while (!process().mailbox().wait_all(both, kSliceOfWait)) process().scripts.advance();
  for (const comm::MailRequest* mail : both) {
    if (mail->result.outcome != comm::MailOutcome::kOk) return failure_of(mail->result.status);
  }
  return {};
}

// Opens some of its contexts for messages among all of its ranks.
Failure open_contexts(const Comm& comm, std::initializer_list<comm::ContextId> contexts) {
  std::vector<Rank> members;
  for (const int process_number : comm.local->processes()) {
    members.push_back(Rank{process_number});
  }
  if (comm.is_inter()) {
    for (const int process_number : comm.remote->processes()) {
      members.push_back(Rank{process_number});
    }
  }
  for (const auto id : contexts) {
    const auto status = process().mailbox().open(id, members);
    if (!status.is_ok()) return failure_of(status);
  }
  return {};
}

}  // namespace

// The greatest proposal of all ranks wins, and no two proposals are alike: each rank has its own, a
// new one at every call. So threads that make communicators at the same time, of different parents,
// get different contexts.
std::uint32_t propose_context() {
  const std::uint64_t number = process().next_proposal.fetch_add(1, std::memory_order_relaxed);
  const auto ranks = static_cast<std::uint64_t>(process().world->size());
  const auto rank = static_cast<std::uint64_t>(process().world->rank);
  const std::uint64_t context = (number * ranks + rank) * kContextsEach;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(context, kNoContext));
}

void take_context(std::uint32_t context) {
  auto& next = process().next_proposal;
  const std::uint32_t ranks = static_cast<std::uint32_t>(process().world->size());
  const std::uint32_t after = context / kContextsEach / ranks + 1;
  std::uint32_t seen = next.load(std::memory_order_relaxed);
  while (seen < after && !next.compare_exchange_weak(seen, after, std::memory_order_relaxed)) {
  }
}

void add_context_steps(Script& script, Comm& parent, std::uint32_t* context) {
  auto* own = reinterpret_cast<std::uint32_t*>(script.allocate(sizeof(std::uint32_t)));
  Step& first = script.add_step();
  first.before = [own] { *own = propose_context(); };
  first.op = greatest(own);
  if (!parent.is_inter()) {
    first.after = [own, context] {
      *context = *own;
      take_context(*context);
      return Failure{};
    };
    return;
  }
  // The greatest of both sides.
  auto* far = reinterpret_cast<std::uint32_t*>(script.allocate(sizeof(std::uint32_t)));
  const std::uint64_t bytes = sizeof(std::uint32_t);
  if (parent.rank == 0) {
    Step& cross = script.add_step();
    const Rank peer{parent.remote->process(0)};
    cross.messages.push_back({true, peer, 0, reinterpret_cast<std::byte*>(far), bytes});
    cross.messages.push_back({false, peer, 0, reinterpret_cast<std::byte*>(own), bytes});
  }
  Step& spread = script.add_step();
  comm::OpRequest& request = spread.op.emplace();
  request.collective = comm::Collective::kBroadcast;
  request.dtype = DType::kU32;
  request.output = {comm::Block{reinterpret_cast<std::byte*>(far), 1}};
  request.input = request.output;
  spread.after = [own, far, context] {
    *context = std::max(*own, *far);
    take_context(*context);
    return Failure{};
  };
}

Failure agree_context(Comm& parent, const char* caller, std::uint32_t* context) {
  if (parent.is_inter()) {
    Script script(parent, caller);
    add_context_steps(script, parent, context);
    return run(script);
  }
  *context = propose_context();
  comm::OpRequest request = greatest(context);
  request.caller = caller;
  auto ran = parent.group->run(std::move(request));
  if (!ran.is_ok()) return failure_of(ran.status());
  const auto work = std::move(ran).value().work;
  while (work && !work->done()) {
    static_cast<void>(work->wait(kSliceOfWait));
    process().scripts.advance();
  }
  if (work && !work->status().is_ok()) return failure_of(work->status());
  take_context(*context);
  return {};
}

// All tell the next one around, as often as there are members; the greatest goes all the way.
Failure agree_context_among(Comm& parent, const std::vector<int>& members, int tag,
                            std::uint32_t* context) {
  *context = propose_context();
  const auto own = std::find(members.begin(), members.end(), process().world->rank);
  const auto at = static_cast<std::size_t>(own - members.begin());
  const std::size_t count = members.size();
  comm::Mailbox& mailbox = process().mailbox();
  const std::int32_t wire_tag = kMeetingTags | (tag & (kMeetingTags - 1));
  // Rounds of doubling distances: after log2(n) of them each has heard of all.
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    std::uint32_t mine = *context;
    std::uint32_t theirs = 0;
    const Rank to{members[(at + distance) % count]};
    const Rank from{members[(at + count - distance) % count]};
    comm::MailRequest send;
    comm::MailRequest receive;
    mailbox.receive(receive, {parent.collectives(), from, wire_tag},
                    {reinterpret_cast<std::byte*>(&theirs), sizeof theirs, nullptr});
    mailbox.send(send, {parent.collectives(),
                        to,
                        wire_tag,
                        comm::SendMode::kStandard,
                        {reinterpret_cast<const std::byte*>(&mine), sizeof mine, nullptr}});
    Failure failure = exchange(send, receive);
    if (failure.code != kSuccess) return failure;
    *context = std::max(mine, theirs);
  }
  take_context(*context);
  return {};
}

Comm* new_comm(Call& call, const std::vector<int>& members,
               std::shared_ptr<comm::Communicator> group, Errhandler* errhandler) {
  Registry& registry = process().registry;
  Comm* comm = registry.make<Comm>();
  Group* local = comm == nullptr ? nullptr : registry.make_own<Group>(members);
  if (local == nullptr) {
    registry.drop(comm);
    static_cast<void>(call.fail(kErrIntern, "there are too many communicators or groups"));
    return nullptr;
  }
  comm->local = local;
  comm->rank =
      local->rank_of(process().world == nullptr ? 0 : process().world_group()->rank().value);
  comm->group = std::move(group);
  comm->errhandler = Registry::use(errhandler);
  return comm;
}

Failure open_comm(Comm& comm, std::uint32_t context) {
  if (context == kNoContext) {
    return {kErrIntern, "there are no numbers left for communicators: each rank has " +
                            std::to_string(kNoContext / kContextsEach /
                                           static_cast<std::uint32_t>(process().world->size())) +
                            " of them in the life of a program"};
  }
  comm.context = context;
  if (Failure failure = open_contexts(comm, {comm.messages(), comm.collectives()});
      failure.code != kSuccess) {
    return failure;
  }
  comm.is_open = true;
  return {};
}

Failure open_for_partitions(Comm& comm) {
  Failure failure;
  std::call_once(comm.parts_once, [&] {
    failure = open_contexts(comm, {comm.meetings(), comm.partitions()});
    comm.has_parts = failure.code == kSuccess;
  });
  return failure;
}

Comm::~Comm() {
  Process& own = process();
  if (is_open) {
    own.mailbox().close(messages());
    own.mailbox().close(collectives());
  }
  if (has_parts) {
    own.mailbox().close(meetings());
    own.mailbox().close(partitions());
  }
  if (group) static_cast<void>(group->close(Duration::zero()));
  own.registry.drop(local);
  own.registry.drop(remote);
  own.registry.drop(errhandler);
}

void close_comm(Comm* comm) { process().registry.drop(comm); }

Result<std::shared_ptr<comm::Communicator>> derive_group(
    const std::shared_ptr<comm::Communicator>& parent, const std::vector<int>& ranks,
    std::optional<std::uint64_t> members_tag) {
  runtime::DeriveRequest request;
  for (const int rank : ranks) request.ranks.push_back(Rank{rank});
  request.members_tag = members_tag;
  return process().node().derive(parent, request);
}

}  // namespace holdfast::mpi

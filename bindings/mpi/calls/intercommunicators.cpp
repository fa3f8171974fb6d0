// Inter-communicators: two groups that meet through their leaders, and their merge.
#include <algorithm>
#include <utility>

#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/comms/make_comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/messages.h"

namespace holdfast::mpi {
namespace {

// Leaders meet in the messages of the communicator that they share, by the program's tag, among
// those of its collectives.
constexpr std::int32_t kLeaderTags = 1 << 30;

// What the leaders tell each other.
struct LeaderSide {
  std::uint32_t context;
  std::int32_t size;
};

Failure swap_bytes(const Comm& comm, int peer, int tag, std::span<std::byte> out,
                   std::span<std::byte> in) {
  comm::Mailbox& mailbox = process().mailbox();
  comm::MailRequest send;
  comm::MailRequest receive;
  const Rank other{comm.peers().process(peer)};
  const std::int32_t wire_tag = kLeaderTags | (tag & (kLeaderTags - 1));
  mailbox.receive(receive, {comm.collectives(), other, wire_tag}, {in.data(), in.size(), nullptr});
  mailbox.send(send, {comm.collectives(),
                      other,
                      wire_tag,
                      comm::SendMode::kStandard,
                      {out.data(), out.size(), nullptr}});
  comm::MailRequest* both[] = {&receive, &send};
  while (!mailbox.wait_all(both, kSliceOfWait)) process().scripts.advance();
  for (const comm::MailRequest* mail : both) {
    if (mail->result.outcome != comm::MailOutcome::kOk) return failure_of(mail->result.status);
  }
  return {};
}

Failure broadcast(Comm& comm, int root, std::span<std::byte> data) {
  Script script(comm);
  comm::OpRequest& request = script.add_step().op.emplace();
  request.collective = comm::Collective::kBroadcast;
  request.dtype = DType::kU8;
  request.root = Rank{root};
  request.output = {comm::Block{data.data(), data.size()}};
  request.input = request.output;
  script.begin();
  script.wait();
  return script.failure();
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& list) {
  return std::as_writable_bytes(std::span<T>(list));
}

// What the other side is, known to all of this one: by its leader, who asks the other leader.
struct Meeting {
  Comm& local;
  int leader;
  const Comm* peer;  // at the leader
  int remote_leader;
  int tag;
  const char* caller;

  Failure run(std::vector<std::int32_t>* far, std::uint32_t* context) {
    if (Failure failure = agree_context(local, caller, context); failure.code != kSuccess)
      return failure;
    // The count of the other side, or -1: the leaders have not met. Then a code and no text.
    std::array<std::int32_t, 3> head{-1, 0, kSuccess};
    Failure own;
    if (local.rank == leader) {
      own = meet(far, context);
      head = {own.code == kSuccess ? static_cast<std::int32_t>(far->size()) : -1,
              static_cast<std::int32_t>(*context), own.code};
    }
    if (Failure failure = broadcast(local, leader, std::as_writable_bytes(std::span(head)));
        failure.code != kSuccess) {
      return failure;
    }
    if (own.code != kSuccess) return own;
    if (head[0] < 0) return {head[2], "the leaders of the two groups have not met"};
    far->resize(static_cast<std::size_t>(head[0]));
    *context = static_cast<std::uint32_t>(head[1]);
    return broadcast(local, leader, bytes_of(*far));
  }

 private:
  Failure meet(std::vector<std::int32_t>* far, std::uint32_t* context) const {
    LeaderSide own{*context, local.size()};
    LeaderSide other{};
    const auto span_of = [](LeaderSide& side) {
      return std::as_writable_bytes(std::span(&side, 1));
    };
    Failure failure = swap_bytes(*peer, remote_leader, tag, span_of(own), span_of(other));
    if (failure.code != kSuccess) return failure;
    const bool sane = other.size > 0 && other.size <= process().world->size();
    if (!sane)
      return {kErrIntern,
              "the other group's leader says it has " + std::to_string(other.size) + " ranks"};
    std::vector<std::int32_t> mine(local.local->processes().begin(),
                                   local.local->processes().end());
    far->resize(static_cast<std::size_t>(other.size));
    failure = swap_bytes(*peer, remote_leader, tag, bytes_of(mine), bytes_of(*far));
    *context = std::max(own.context, other.context);
    return failure;
  }
};

std::vector<int> all_ranks(const Comm& comm) {
  std::vector<int> ranks(static_cast<std::size_t>(comm.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return ranks;
}

// Whether this side comes first in the merge: as the flags say, or, if they are alike, the side
// whose first process has the lower number.
bool comes_first(const Comm& comm, bool high, bool other_high) {
  if (high != other_high) return !high;
  return comm.local->process(0) < comm.remote->process(0);
}

}  // namespace

namespace body {

int Intercomm_create(Call& call, Comm* local_comm, int local_leader, Comm* peer_comm,
                     int remote_leader, int tag, Comm*& newintercomm) {
  Checks checks(call);
  checks.intra(*local_comm).tag("tag", tag);
  checks.that(local_leader >= 0 && local_leader < local_comm->size(), kErrRank,
              "local_leader is " + std::to_string(local_leader) + "; accepted: 0 to " +
                  std::to_string(local_comm->size() - 1));
  if (checks.failed()) return checks.code();
  const bool leads = local_comm->rank == local_leader;
  if (leads) {
    checks.that(peer_comm != nullptr, kErrComm, "peer_comm is MPI_COMM_NULL at the leader");
    checks.that(
        peer_comm == nullptr || (remote_leader >= 0 && remote_leader < peer_comm->peers().size()),
        kErrRank,
        "remote_leader is " + std::to_string(remote_leader) + ", which is no rank of peer_comm");
    if (checks.failed()) return checks.code();
  }
  std::vector<std::int32_t> far;
  std::uint32_t context = 0;
  Meeting meeting{*local_comm, local_leader, peer_comm, remote_leader, tag, call.name()};
  if (Failure failure = meeting.run(&far, &context); failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  take_context(context);
  auto group = derive_group(local_comm->group, all_ranks(*local_comm));
  if (!group.is_ok()) return call.take(failure_of(group.status()));
  newintercomm = new_comm(call, local_comm->local->processes(), std::move(group).value(),
                          local_comm->errhandler);
  if (newintercomm == nullptr) return kErrIntern;
  newintercomm->remote =
      process().registry.make_own<Group>(std::vector<int>(far.begin(), far.end()));
  Failure failure = open_comm(*newintercomm, context);
  return call.take(std::move(failure));
}

int Intercomm_merge(Call& call, Comm* intercomm, bool high, Comm*& newintracomm) {
  if (Checks checks(call); checks.inter(*intercomm).failed()) return checks.code();
  // The leaders tell each other what their side's flag is; all of a side pass the same.
  std::uint32_t context = 0;
  if (Failure failure = agree_context(*intercomm, call.name(), &context);
      failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  std::int32_t flag = high ? 1 : 0;
  std::int32_t other = 0;
  Script script(*intercomm, call.name());
  auto* mine = reinterpret_cast<std::byte*>(&flag);
  auto* theirs = reinterpret_cast<std::byte*>(&other);
  if (intercomm->rank == 0) {
    Step& cross = script.add_step();
    const Rank peer{intercomm->remote->process(0)};
    cross.messages.push_back({true, peer, 0, theirs, sizeof other});
    cross.messages.push_back({false, peer, 0, mine, sizeof flag});
  }
  comm::OpRequest& spread = script.add_step().op.emplace();
  spread.collective = comm::Collective::kBroadcast;
  spread.dtype = DType::kU8;
  spread.output = {comm::Block{theirs, sizeof other}};
  spread.input = spread.output;
  script.begin();
  script.wait();
  if (script.failure().code != kSuccess) return call.take(script.failure());
  std::vector<int> members = intercomm->local->processes();
  const std::vector<int>& far = intercomm->remote->processes();
  const bool first = comes_first(*intercomm, high, other != 0);
  members.insert(first ? members.end() : members.begin(), far.begin(), far.end());
  auto group = derive_group(process().world_group(), members, context);
  if (!group.is_ok()) return call.take(failure_of(group.status()));
  newintracomm = new_comm(call, members, std::move(group).value(), intercomm->errhandler);
  if (newintracomm == nullptr) return kErrIntern;
  Failure failure = open_comm(*newintracomm, context);
  return call.take(std::move(failure));
}

}  // namespace body
}  // namespace holdfast::mpi

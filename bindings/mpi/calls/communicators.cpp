// Communicators: how they are made of others, compared, and freed.
#include <algorithm>
#include <array>
#include <utility>

#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/comms/make_comm.h"
#include "mpi/comms/topology.h"
#include "mpi/core/process.h"
#include "mpi/traffic/buffered.h"
#include "mpi/traffic/collective.h"
#include "mpi/traffic/messages.h"

namespace holdfast::mpi {
namespace {

// An intra-communicator of these processes, by a call of all ranks of `parent`. Null in `made`:
// this process is in none.
int make_intra(Call& call, Comm& parent, const std::vector<int>& members, std::uint32_t context,
               Comm*& made) {
  made = nullptr;
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(parent.local->rank_of(member));
  auto group = derive_group(parent.group, ranks);
  if (!group.is_ok()) return call.take(failure_of(group.status()));
  if (!group.value()) return kSuccess;
  made = new_comm(call, members, std::move(group).value(), parent.errhandler);
  if (made == nullptr) return kErrIntern;
  Failure failure = open_comm(*made, context);
  if (failure.code == kSuccess) return kSuccess;
  close_comm(std::exchange(made, nullptr));
  return call.take(std::move(failure));
}

// The same processes again, not opened yet.
int make_twin(Call& call, Comm& from, Comm*& made) {
  std::vector<int> ranks(static_cast<std::size_t>(from.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  auto group = derive_group(from.group, ranks);
  if (!group.is_ok()) return call.take(failure_of(group.status()));
  made = new_comm(call, from.local->processes(), std::move(group).value(), from.errhandler);
  if (made == nullptr) return kErrIntern;
  made->topology = from.topology;
  made->remote = Registry::use(from.remote);
  return kSuccess;
}

int duplicate(Call& call, Comm& comm, std::shared_ptr<Info> hints, Comm*& newcomm) {
  std::uint32_t context = 0;
  if (Failure failure = agree_context(comm, call.name(), &context); failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  if (const int code = make_twin(call, comm, newcomm); code != kSuccess) return code;
  newcomm->hints = std::move(hints);
  int code = kSuccess;
  if (Failure failure = open_comm(*newcomm, context); failure.code != kSuccess) {
    code = call.take(std::move(failure));
  } else {
    code = copy_attributes(call, comm, comm.attributes, *newcomm, newcomm->attributes);
  }
  if (code != kSuccess) close_comm(std::exchange(newcomm, nullptr));
  return code;
}

int duplicate_later(Call& call, Comm& comm, std::shared_ptr<Info> hints, Comm*& newcomm,
                    Request*& request) {
  if (const int code = make_twin(call, comm, newcomm); code != kSuccess) return code;
  newcomm->hints = std::move(hints);
  const int copied = copy_attributes(call, comm, comm.attributes, *newcomm, newcomm->attributes);
  if (copied != kSuccess) {
    close_comm(std::exchange(newcomm, nullptr));
    return copied;
  }
  auto script = std::make_shared<Script>(comm, call.name());
  auto* context = reinterpret_cast<std::uint32_t*>(script->allocate(sizeof(std::uint32_t)));
  add_context_steps(*script, comm, context);
  Step& last = script->add_step();
  last.after = [context, made = newcomm] { return open_comm(*made, *context); };
  return run_script(call, std::move(script), Form::kLater, request);
}

std::shared_ptr<Info> copy_of(const Info* info) {
  return info == nullptr ? nullptr : std::make_shared<Info>(info->entries());
}

// What a rank says in a split.
struct Choice {
  std::int32_t color;
  std::int32_t key;
  std::uint32_t context;
};

// All ranks' choices, by rank.
Failure gather_choices(const Call& call, Comm& comm, const Choice& own, std::vector<Choice>* all) {
  all->resize(static_cast<std::size_t>(comm.size()));
  comm::OpRequest request;
  request.collective = comm::Collective::kAllGather;
  request.dtype = DType::kU32;
  request.equal_blocks = true;
  const std::uint64_t words = sizeof(Choice) / sizeof(std::uint32_t);
  auto* mine = const_cast<Choice*>(&own);
  request.input = {comm::Block{reinterpret_cast<std::byte*>(mine), words}};
  for (Choice& choice : *all) {
    request.output.push_back({reinterpret_cast<std::byte*>(&choice), words});
  }
  Script script(comm, call.name());
  script.add_step().op = std::move(request);
  script.begin();
  script.wait();
  return script.failure();
}

// The processes that chose as this one did, by key, then by rank.
std::vector<int> members_of(const Group& group, const std::vector<Choice>& all, int color) {
  std::vector<std::pair<int, int>> chosen;  // key, rank
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].color == color) chosen.emplace_back(all[r].key, static_cast<int>(r));
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& [key, rank] : chosen) members.push_back(group.process(rank));
  return members;
}

std::uint32_t context_of(const std::vector<Choice>& all) {
  std::uint32_t context = 0;
  for (const Choice& choice : all) context = std::max(context, choice.context);
  return context;
}

int split_intra(Call& call, Comm& comm, int color, int key, Comm*& newcomm) {
  std::vector<Choice> all;
  if (Failure failure = gather_choices(call, comm, {color, key, propose_context()}, &all);
      failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  const std::uint32_t context = context_of(all);
  take_context(context);
  std::vector<int> members;
  if (color != kUndefined) members = members_of(*comm.local, all, color);
  return make_intra(call, comm, members, context, newcomm);
}

// Each side's choices cross, so that both know who is in which of the new ones.
int split_inter(Call& call, Comm& comm, int color, int key, Comm*& newcomm) {
  std::vector<Choice> own;
  if (Failure failure = gather_choices(call, comm, {color, key, propose_context()}, &own);
      failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  std::vector<Choice> far(static_cast<std::size_t>(comm.remote->size()));
  Script script(comm, call.name());
  const auto bytes = [](std::vector<Choice>& list) {
    return static_cast<std::uint64_t>(list.size() * sizeof(Choice));
  };
  const auto data = [](std::vector<Choice>& list) {
    return reinterpret_cast<std::byte*>(list.data());
  };
  if (comm.rank == 0) {
    Step& cross = script.add_step();
    const Rank peer{comm.remote->process(0)};
    cross.messages.push_back({true, peer, 0, data(far), bytes(far)});
    cross.messages.push_back({false, peer, 0, data(own), bytes(own)});
  }
  comm::OpRequest& spread = script.add_step().op.emplace();
  spread.collective = comm::Collective::kBroadcast;
  spread.dtype = DType::kU8;
  spread.output = {comm::Block{data(far), bytes(far)}};
  spread.input = spread.output;
  script.begin();
  script.wait();
  if (script.failure().code != kSuccess) return call.take(script.failure());
  const std::uint32_t context = std::max(context_of(own), context_of(far));
  take_context(context);
  std::vector<int> members;
  std::vector<int> others;
  if (color != kUndefined) {
    members = members_of(*comm.local, own, color);
    others = members_of(*comm.remote, far, color);
  }
  // With nobody on the other side there is no inter-communicator.
  if (others.empty()) members.clear();
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(comm.local->rank_of(member));
  auto group = derive_group(comm.group, ranks);
  if (!group.is_ok()) return call.take(failure_of(group.status()));
  newcomm = nullptr;
  if (!group.value()) return kSuccess;
  newcomm = new_comm(call, members, std::move(group).value(), comm.errhandler);
  if (newcomm == nullptr) return kErrIntern;
  newcomm->remote = process().registry.make_own<Group>(others);
  Failure failure = open_comm(*newcomm, context);
  return call.take(std::move(failure));
}

int check_subset(Call& call, const Group& group, const Comm& comm) {
  for (const int member : group.processes()) {
    if (comm.local->rank_of(member) == kUndefined) {
      return call.fail(kErrGroup, "group has process " + std::to_string(member) +
                                      " of the world, which is not in comm");
    }
  }
  return kSuccess;
}

int comparison_of(const Comm& a, const Comm& b) {
  if (&a == &b) return kIdent;
  if (a.is_inter() != b.is_inter()) return kUnequal;
  int result = compare(*a.local, *b.local);
  if (a.is_inter()) result = std::max(result, compare(*a.remote, *b.remote));
  return result == kIdent ? kCongruent : result;
}

}  // namespace

namespace body {

int Comm_rank(Call&, Comm* comm, int& rank) {
  rank = comm->rank;
  return kSuccess;
}

int Comm_size(Call&, Comm* comm, int& size) {
  size = comm->size();
  return kSuccess;
}

int Comm_remote_size(Call& call, Comm* comm, int& size) {
  if (Checks checks(call); checks.inter(*comm).failed()) return checks.code();
  size = comm->remote->size();
  return kSuccess;
}

int Comm_test_inter(Call&, Comm* comm, bool& flag) {
  flag = comm->is_inter();
  return kSuccess;
}

int Comm_group(Call&, Comm* comm, Group*& group) {
  group = process().registry.hand_out(comm->local);
  return kSuccess;
}

int Comm_remote_group(Call& call, Comm* comm, Group*& group) {
  if (Checks checks(call); checks.inter(*comm).failed()) return checks.code();
  group = process().registry.hand_out(comm->remote);
  return kSuccess;
}

int Comm_compare(Call&, Comm* comm1, Comm* comm2, int& result) {
  result = comparison_of(*comm1, *comm2);
  return kSuccess;
}

int Comm_dup(Call& call, Comm* comm, Comm*& newcomm) {
  return duplicate(call, *comm, comm->hints, newcomm);
}

int Comm_dup_with_info(Call& call, Comm* comm, Info* info, Comm*& newcomm) {
  return duplicate(call, *comm, copy_of(info), newcomm);
}

int Comm_idup(Call& call, Comm* comm, Comm*& newcomm, Request*& request) {
  return duplicate_later(call, *comm, comm->hints, newcomm, request);
}

int Comm_idup_with_info(Call& call, Comm* comm, Info* info, Comm*& newcomm, Request*& request) {
  return duplicate_later(call, *comm, copy_of(info), newcomm, request);
}

int Comm_create(Call& call, Comm* comm, Group* group, Comm*& newcomm) {
  if (const int code = check_subset(call, *group, *comm); code != kSuccess) return code;
  if (comm->is_inter()) {
    const int at = group->rank_of(process().world->rank);
    return split_inter(call, *comm, at == kUndefined ? kUndefined : 0, at == kUndefined ? 0 : at,
                       newcomm);
  }
  // Groups of different ranks may differ, if they have nobody in common.
  std::uint32_t context = 0;
  if (Failure failure = agree_context(*comm, call.name(), &context); failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  std::vector<int> members = group->processes();
  if (group->rank_of(process().world->rank) == kUndefined) members.clear();
  return make_intra(call, *comm, members, context, newcomm);
}

int Comm_create_group(Call& call, Comm* comm, Group* group, int tag, Comm*& newcomm) {
  Checks checks(call);
  if (checks.intra(*comm).tag("tag", tag).failed()) return checks.code();
  if (const int code = check_subset(call, *group, *comm); code != kSuccess) return code;
  newcomm = nullptr;
  if (group->rank_of(process().world->rank) == kUndefined) return kSuccess;
  std::uint32_t context = 0;
  const std::vector<int>& members = group->processes();
  if (Failure failure = agree_context_among(*comm, members, tag, &context);
      failure.code != kSuccess) {
    return call.take(std::move(failure));
  }
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(comm->local->rank_of(member));
  auto derived = derive_group(comm->group, ranks, static_cast<std::uint64_t>(tag));
  if (!derived.is_ok()) return call.take(failure_of(derived.status()));
  newcomm = new_comm(call, members, std::move(derived).value(), comm->errhandler);
  if (newcomm == nullptr) return kErrIntern;
  Failure failure = open_comm(*newcomm, context);
  return call.take(std::move(failure));
}

int Comm_split(Call& call, Comm* comm, int color, int key, Comm*& newcomm) {
  if (color < 0 && color != kUndefined) {
    return call.fail(kErrArg,
                     "color is " + std::to_string(color) + "; accepted: 0 or more, MPI_UNDEFINED");
  }
  return comm->is_inter() ? split_inter(call, *comm, color, key, newcomm)
                          : split_intra(call, *comm, color, key, newcomm);
}

int Comm_free(Call& call, Comm*& comm) {
  if (comm->predefined) {
    return call.fail(kErrComm, comm->name + " cannot be freed");
  }
  const int code = delete_attributes(call, *comm, comm->attributes);
  if (code != kSuccess) return code;
  process().registry.take_back(comm);
  comm = nullptr;
  return kSuccess;
}

int Comm_disconnect(Call& call, Comm*& comm) {
  if (!comm->predefined) {
    if (comm->buffer) comm->buffer->flush();
    process().orphans.wait(comm);
  }
  return Comm_free(call, comm);
}

int Comm_get_name(Call&, Comm* comm, const TextOut& comm_name) {
  comm_name.set(comm == nullptr ? "MPI_COMM_NULL" : comm->name);
  return kSuccess;
}

int Comm_set_name(Call& call, Comm* comm, std::string_view comm_name) {
  comm->name = comm_name.substr(0, static_cast<std::size_t>(call.abi().limits.object_name - 1));
  return kSuccess;
}

int Comm_set_info(Call&, Comm* comm, Info* info) {
  comm->hints = copy_of(info);
  return kSuccess;
}

int Comm_get_info(Call& call, Comm* comm, Info*& info_used) {
  info_used = process().registry.make<Info>(comm->hints ? comm->hints->entries()
                                                        : std::vector<InfoEntry>{});
  return info_used != nullptr ? kSuccess : call.fail(kErrIntern, "there are too many infos");
}

int Comm_get_parent(Call&, Comm*& parent) {
  parent = nullptr;  // nobody spawned this program
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi

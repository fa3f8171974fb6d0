#include "mpi/calls/with_topology.h"

namespace holdfast::mpi {

std::vector<int> list_of(const IntArray& array, int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) {
    list.push_back(static_cast<int>(array[static_cast<std::size_t>(i)]));
  }
  return list;
}

int make_with_topology(Call& call, Comm& from, int count, const Topology* topology, Comm*& made) {
  made = nullptr;
  std::uint32_t context = 0;
  if (Failure failure = agree_context(from, call.name(), &context); failure.code != kSuccess) {
    return failed(call, std::move(failure));
  }
  std::vector<int> ranks;
  std::vector<int> members;
  for (int r = 0; r < count && from.rank < count; ++r) {
    ranks.push_back(r);
    members.push_back(from.local->process(r));
  }
  auto group = derive_group(from.group, ranks);
  if (!group.is_ok()) return failed(call, failure_of(group.status()));
  if (!group.value()) return kSuccess;
  made = new_comm(call, members, std::move(group).value(), from.errhandler);
  if (made == nullptr) return kErrIntern;
  made->topology = std::make_shared<Topology>(*topology);
  Failure failure = open_comm(*made, context);
  return failure.code == kSuccess ? kSuccess : failed(call, std::move(failure));
}

int no_topology(Call& call, const char* kind) {
  return call.fail(kErrTopology, std::string("comm has no ") + kind + " topology");
}

int check_ranks(Call& call, const Comm& comm, const char* name, const std::vector<int>& ranks) {
  Checks checks(call);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    checks.that(ranks[i] >= 0 && ranks[i] < comm.size(), kErrRank,
                std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(ranks[i]) +
                    "; accepted: 0 to " + std::to_string(comm.size() - 1));
  }
  return checks.code();
}

}  // namespace holdfast::mpi

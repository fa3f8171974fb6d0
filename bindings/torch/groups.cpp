#include "groups.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "backend.h"
#include "gil.h"
#include "raise.h"
#include "store_adapter.h"

namespace holdfast::torch_backend {
namespace {

// torch's shrink flag: running ops are aborted first.
constexpr int kShrinkAbort = 1;

c10::intrusive_ptr<c10d::Store> part_of(const c10::intrusive_ptr<c10d::Store>& store,
                                        const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

int place_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace

std::shared_ptr<comm::Communicator> meet(const Home& home, int rank, int size,
                                         const Members& members) {
  const WithoutGil release;
  StoreAdapter adapter(home.store);
  runtime::JoinRequest request{home.group, {rank}, size, home.connect_timeout, home.timeout};
  request.parent = members.parent;
  for (const int member : members.ranks) request.ranks.push_back({member});
  return value_or_raise(home.node->join(adapter, request));
}

c10::intrusive_ptr<HoldfastBackend> join(Home home, int rank, int size, const Members& members) {
  if (!home.node) {
    raise({Code::kUnsupported, "group " + home.group +
                                   ": a process group of a holdfast.Group has no store to make "
                                   "other groups with; make a Group of them"});
  }
  auto group = meet(home, rank, size, members);
  return c10::make_intrusive<HoldfastBackend>(std::move(group), std::move(home));
}

Home HoldfastBackend::home_for(const c10::intrusive_ptr<c10d::Store>& store,
                               const std::string& kind,
                               const c10::intrusive_ptr<Options>& options) const {
  Home home = home_;
  home.store = store;
  home.timeout = options_->timeout;
  home.group += "/" + kind;
  if (!options) return home;
  home.timeout = options->timeout;
  if (!options->group_name.empty()) home.group = options->group_name;
  return home;
}

c10::intrusive_ptr<c10d::Backend> HoldfastBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const int place = place_of(getRank(), ranks);
  if (place < 0) return nullptr;  // this rank is not in the new group
  return join(home_for(store, "split", options), place, static_cast<int>(ranks.size()),
              {ranks, group()});
}

c10::intrusive_ptr<c10d::Backend> HoldfastBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
    const int& rank, const int& size) {
  return join(home_for(store, "merge", options), rank, size);
}

c10::intrusive_ptr<c10d::Backend> HoldfastBackend::shrink(
    const std::vector<int64_t>& ranks_to_exclude, int flags,
    const c10::intrusive_ptr<Options>& options) {
  std::vector<int> ranks;
  std::string name = "shrunk without";
  for (int r = 0; r < getSize(); ++r) {
    const bool goes =
        std::find(ranks_to_exclude.begin(), ranks_to_exclude.end(), r) != ranks_to_exclude.end();
    if (goes) name += " " + std::to_string(r);
    if (!goes) ranks.push_back(r);
  }
  const int place = place_of(getRank(), ranks);
  if (place < 0) {
    raise({Code::kConfigError, "shrink: rank " + std::to_string(getRank()) +
                                   " is among the excluded; only ranks that stay may call it"});
  }
  if ((flags & kShrinkAbort) != 0) abort();
  return join(home_for(part_of(home_.store, name), name, options), place,
              static_cast<int>(ranks.size()), {ranks, group()});
}

std::vector<int> HoldfastBackend::live_ranks() const {
  std::vector<int> ranks;
  for (const Rank rank : group()->live_ranks()) ranks.push_back(rank.value);
  return ranks;
}

std::tuple<std::uint32_t, std::vector<int>, std::vector<int>> HoldfastBackend::advance(
    std::chrono::milliseconds timeout) {
  const auto work = group()->advance(timeout);
  {
    const WithoutGil released;
    [[maybe_unused]] const Status ended = work->wait(kForever);
  }
  raise_if(work->status());
  const comm::Outcome& passed = work->outcome();
  std::vector<int> ranks;
  for (const Rank rank : passed.contributors) ranks.push_back(rank.value);
  std::vector<int> joined;
  for (const Rank rank : passed.joined) joined.push_back(rank.value);
  return {passed.epoch.value, std::move(ranks), std::move(joined)};
}

}  // namespace holdfast::torch_backend

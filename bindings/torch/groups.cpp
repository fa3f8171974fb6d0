#include "groups.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "backend.h"
#include "gil.h"
#include "raise.h"
#include "store_adapter.h"

namespace holdfast::torch_backend {
namespace {

// torch's shrink flag: what still runs is ended first.
constexpr int kShrinkAbort = 1;

c10::intrusive_ptr<c10d::Store> part_of(const c10::intrusive_ptr<c10d::Store>& store,
                                        const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

// Whether this process has met as that rank of a group of that name before; counts this time.
bool has_met(const std::string& group, int rank) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, int>> met;  // guarded by mutex
  const std::lock_guard lock(mutex);
  return !met.emplace(group, rank).second;
}

// The part of a group's store for this meeting. A store may outlive a group, and the next group of
// the same name must not read its cards (torch counts names anew after destroy_process_group()).
// All ranks meet equally often, so they agree. A process that was started again belongs to the
// meeting that its rank was last in.
c10::intrusive_ptr<c10d::Store> unused_part(const Home& home, int rank) {
  const std::string key = "holdfast/meeting/" + std::to_string(rank);
  int64_t meeting = has_met(home.group, rank) ? 0 : home.store->add(key, 0);
  if (meeting == 0) meeting = home.store->add(key, 1);
  return part_of(home.store, "meeting " + std::to_string(meeting));
}

int place_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace

std::shared_ptr<comm::Communicator> meet(const Home& home, int rank, int size) {
  const WithoutGil release;
  StoreAdapter adapter(unused_part(home, rank));
  return value_or_raise(
      home.node->join(adapter, {home.group, {rank}, size, home.connect_timeout, home.timeout}));
}

c10::intrusive_ptr<HoldfastBackend> join(Home home, int rank, int size) {
  if (!home.node) {
    raise({Code::kUnsupported, "group " + home.group +
                                   ": a process group of a holdfast.Group has no store to make "
                                   "other groups with; make a Group of them"});
  }
  auto group = meet(home, rank, size);
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
  if (place < 0) return nullptr;  // goes on without
  return join(home_for(store, "split", options), place, static_cast<int>(ranks.size()));
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
              static_cast<int>(ranks.size()));
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

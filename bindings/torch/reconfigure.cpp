// torch's reconfigure interface (since 2.14): handles that the caller has exchanged name the
// members of a process group. A handle is the address of a store in the process that gives it. The
// rendezvous of all members is in the store of the first handle, so no store has to outlive its
// job's first process.
#include <algorithm>
#include <variant>

#include "backend.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "gil.h"
#include "raise.h"

namespace holdfast::torch_backend {
namespace {

constexpr const char* kScheme = "holdfast://";

struct Place {
  std::string host;
  std::uint16_t port = 0;
};

Place parse_handle(const std::string& handle) {
  const std::string scheme = kScheme;
  const auto colon = handle.rfind(':');
  if (handle.starts_with(scheme) && colon != std::string::npos && colon > scheme.size()) {
    const std::string port = handle.substr(colon + 1);
    const bool is_number =
        !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
    const int number = is_number ? std::stoi(port) : 0;
    if (number > 0 && number <= 0xffff) {
      return {handle.substr(scheme.size(), colon - scheme.size()),
              static_cast<std::uint16_t>(number)};
    }
  }
  raise({Code::kConfigError, "reconfigure: '" + handle.substr(0, 100) +
                                 "' is no handle; accepted: what _get_reconfigure_handle() "
                                 "returned in a member"});
}

// The handles in rank order: the caller's order, or for a set an order that is the same on all
// members.
std::vector<std::string> ordered(const c10d::ReconfigureOptions& opts) {
  if (const auto* given = std::get_if<std::vector<std::string>>(&opts.handles)) return *given;
  const auto& set = std::get<std::unordered_set<std::string>>(opts.handles);
  std::vector<std::string> sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

int place_of(const std::string& own, const std::vector<std::string>& handles) {
  for (const std::string& handle : handles) {
    parse_handle(handle);
    if (std::count(handles.begin(), handles.end(), handle) > 1) {
      raise({Code::kConfigError, "reconfigure: handle " + handle + " is given twice"});
    }
  }
  const auto found = std::find(handles.begin(), handles.end(), own);
  if (found == handles.end()) {
    raise({Code::kConfigError, "reconfigure: this process' own handle, " + own +
                                   ", is not among the " + std::to_string(handles.size()) +
                                   " given; only members of the new group may call it"});
  }
  return static_cast<int>(found - handles.begin());
}

c10::intrusive_ptr<c10d::Store> call(const std::string& handle, std::chrono::milliseconds timeout) {
  const Place place = parse_handle(handle);
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.host, options);
  } catch (const c10::Error& error) {
    raise(Status(Code::kTimeout, "reconfigure: no answer from the process of the first handle, " +
                                     handle + ": " + error.what_without_backtrace())
              .about({Rank{0}}, {}));
  }
}

}  // namespace

c10d::ReconfigureHandle HoldfastBackend::get_reconfigure_handle() const {
  refuse_in_child();
  if (!home_.node) {
    raise({Code::kUnsupported,
           "group " + home_.group + ": a process group of a holdfast.Group changes with it"});
  }
  const WithoutGil release;
  const std::lock_guard lock(door_mutex_);
  const std::string address = home_.node->address();
  if (!door_) {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    door_ = c10::make_intrusive<c10d::TCPStore>(address, options);
  }
  return kScheme + address + ":" + std::to_string(door_->getPort());
}

WorkPtr HoldfastBackend::reconfigure(const c10d::ReconfigureOptions& opts) {
  const std::vector<std::string> handles = ordered(opts);
  const int place = place_of(get_reconfigure_handle(), handles);
  if (!used_uuids_.insert(opts.uuid).second) {
    raise({Code::kConfigError, "reconfigure: uuid " + std::to_string(opts.uuid) +
                                   " was used before on this group; accepted: a fresh one each "
                                   "time, the same on all members"});
  }
  const WithoutGil release;
  Home home = home_;
  home.group = "reconfigured " + std::to_string(opts.uuid);
  if (opts.timeout) home.connect_timeout = *opts.timeout;
  std::string part = home.group;
  for (const std::string& handle : handles) part += " " + handle;
  if (place == 0) {
    home.store = c10::make_intrusive<c10d::PrefixStore>(part, door_);
  } else {
    home.store =
        c10::make_intrusive<c10d::PrefixStore>(part, call(handles.front(), home.connect_timeout));
  }
  auto next = meet(home, place, static_cast<int>(handles.size()));
  if (group_) group_->abort("reconfigure() gave the process group other members");
  group_ = std::move(next);
  home_.store = home.store;
  rank_ = group_->rank().value;
  size_ = group_->size();
  fresh_ = false;
  c10d::BarrierOptions all_through;
  all_through.asyncOp = true;
  return barrier(all_through);
}

}  // namespace holdfast::torch_backend

#endif

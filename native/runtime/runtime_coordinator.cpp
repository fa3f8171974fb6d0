// How a runtime finds the coordinator that its options name, and finds it again.
#include <utility>

#include "runtime/coordinator/address.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// Time limit of one search; as long as the coordinator is needed, another one follows.
constexpr Duration kSearchTime = std::chrono::seconds(30);
// A connection to the coordinator that has held for so long is made anew at once when it breaks.
constexpr Duration kSteady = std::chrono::seconds(1);
// A coordinator that is started anew, or a standby that takes over, is found within so many
// heartbeats: the user is told of a search that lasts longer.
constexpr int kQuietBeats = 10;

std::vector<std::vector<Endpoint>> endpoints_of(const std::vector<HostSearch>& hosts) {
  std::vector<std::vector<Endpoint>> all;
  all.reserve(hosts.size());
  for (const HostSearch& host : hosts) all.push_back(host.endpoints());
  return all;
}

}  // namespace

Status Runtime::name_coordinator(RuntimeParts& parts) {
  const auto address = parse_coordinator(parts.options.coordinator);
  if (!address.is_ok()) return address.status();
  parts.job = address.value().job;
  parts.coordinator = Card{};
  parts.coordinator->member = address.value().member();
  for (const CoordinatorHost& at : address.value().hosts) {
    parts.hosts.emplace_back(at.host, at.port, resolve_coordinator);
  }
  const Instant now = parts.clock->now();
  if (parts.hosts.size() > 1) {
    parts.coordinators = address.value().sorted();
    for (HostSearch& host : parts.hosts) host.look(now);
  }
  bool any = false;
  Status failure = Status::ok();
  for (HostSearch& host : parts.hosts) {
    host.await();
    any = any || !host.endpoints().empty();
    if (failure.is_ok()) failure = host.failure();
  }
  // A machine that is gone may have no name any more.
  if (!any) return failure;
  parts.search.set_hosts(endpoints_of(parts.hosts), now);
  return Status::ok();
}

// A coordinator may be replaced by another one: a process that has a world with it calls again.
void Runtime::keep_coordinator(Instant now) {
  if (!parts_.coordinator) return;
  const MemberId id = parts_.coordinator->member;
  bool needed = false;
  router_.each_world([&](const auto&) { needed = true; });
  Peer* peer = find_peer(id);
  // Its host may be gone and its name lead to another host; this connection will never tell that.
  const bool silent = router_.contact_of(id, now).state == ft::Contact::ContactState::kSilent;
  if (needed && peer != nullptr && silent) peer->control->hang_up();
  if (peer == nullptr && (needed || attempts_.contains(id))) look_for_coordinator(now);
  if (needed) call_member(*parts_.coordinator, now + kSearchTime);
}

// `lost`: a peer whose connection has ended. A coordinator is called again in this turn, unless its
// connection breaks again and again.
void Runtime::hurry_to_coordinator(MemberId lost) {
  if (!is_coordinator(lost)) return;
  if (parts_.clock->now() - coordinator_since_ >= kSteady) next_reap_ = {};
}

void Runtime::look_for_coordinator(Instant now) {
  bool moved = false;
  for (HostSearch& host : parts_.hosts) {
    host.look(now);
    moved = host.take() || moved;
  }
  tell_of_search(now);
  if (!moved) return;
  move_relays();
  parts_.search.set_hosts(endpoints_of(parts_.hosts), now);
  const auto attempt = attempts_.find(parts_.coordinator->member);
  if (attempt != attempts_.end()) attempt->second.not_before = now;
}

void Runtime::tell_of_search(Instant now) {
  const auto since = parts_.search.since();
  if (told_of_search_ || !since || now - *since < parts_.options.heartbeat * kQuietBeats) return;
  told_of_search_ = true;
  say("there is no coordinator at " + parts_.options.coordinator +
      " (option coordinator): " + coordinator_search() +
      ". Ops go on; losses are decided and newcomers admitted when it is found");
}

// The calls to other endpoints are given up.
void Runtime::has_found_coordinator(const Handshake& handshake) {
  parts_.search.on_found(handshake.endpoint());
  told_of_search_ = false;
  coordinator_since_ = parts_.clock->now();
  for (const auto& other : handshakes_) {
    const bool beside = other->is_caller() && is_coordinator(other->hello().to);
    if (beside && other.get() != &handshake) other->withdraw();
  }
}

Status Runtime::coordinator_failure() const {
  Status last = parts_.search.hopeless();
  if (last.is_ok()) return last;
  if (last.code() == Code::kAuthFailed) return turned_away(last);
  return {last.code(), "what answers at " + parts_.options.coordinator +
                           " is no Holdfast coordinator (option coordinator): " + last.message()};
}

std::string Runtime::coordinator_search() const {
  std::string text = parts_.search.text();
  for (const HostSearch& host : parts_.hosts) {
    if (host.failure().is_ok()) continue;
    text += (text.empty() ? "" : "; ") + host.failure().message();
  }
  return text;
}

std::string Runtime::world_name(const std::string& group) const {
  return parts_.job.empty() ? group : parts_.job + "/" + group;
}

}  // namespace holdfast::runtime

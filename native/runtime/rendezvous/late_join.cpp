#include "runtime/rendezvous/late_join.h"

#include <algorithm>

#include "runtime/rendezvous/member_id.h"

namespace holdfast::runtime {

using State = ft::Joining::JoiningState;

namespace {

constexpr Duration kTurn = std::chrono::milliseconds(1);
// A living process answers a call within this time, at one of its addresses.
constexpr Duration kCall = std::chrono::seconds(1);
// Unless the life is over, a member can be reached (again) within this time plus the option
// silence.
constexpr Duration kReach = std::chrono::seconds(2);
// How often a process that waits looks whether the life is over.
constexpr Duration kEndLook = std::chrono::milliseconds(250);
// Most steps take less: a process that waits longer tells the user.
constexpr Duration kQuietWait = std::chrono::seconds(1);

// Whether the process that wrote the card still takes calls.
bool is_alive(Runtime& runtime, const Card& card) {
  const Instant deadline = runtime.clock()->now() + kCall;
  runtime.run([&] { runtime.call_member(card, deadline); });
  bool alive = false;
  while (!alive && runtime.clock()->now() < deadline) {
    runtime.drive_until([] { return false; }, runtime.clock()->now() + kTurn);
    runtime.run([&] { alive = runtime.find_peer(card.member) != nullptr; });
  }
  return alive;
}

Status no_coordinator(const Runtime& runtime) {
  const std::string why = runtime.coordinator_search();
  return {Code::kTimeout, "no coordinator at " + runtime.parts().options.coordinator +
                              " in time (option connect_timeout)" +
                              (why.empty() ? "" : ": " + why)};
}

}  // namespace

LateJoin::LateJoin(std::shared_ptr<Runtime> runtime, const JoinRequest& request, Instant deadline,
                   std::size_t min_peers)
    : runtime_(std::move(runtime)),
      request_(request),
      deadline_(deadline),
      joining_(runtime_->world_name(request.group),
               {runtime_->parts().self, request.rank, encode_card(runtime_->own_card())},
               runtime_->parts().options.heartbeat, min_peers) {}

Result<LateJoin::LifeStanding> LateJoin::find_standing(Runtime& runtime, Store& store,
                                                       const JoinRequest& request,
                                                       const Life& life) {
  auto ready = store.has(life.key("ready", request.rank));
  if (!ready.is_ok()) return ready.status();
  const std::string key = life.key("card", request.rank);
  auto was_here = store.has(key);
  if (!was_here.is_ok()) return was_here.status();
  if (!was_here.value()) return LifeStanding::kFounder;
  auto text = store.get(key, kStoreLook);
  if (!text.is_ok()) return text.status();
  const auto card = parse_card(text.value());
  if (!card.is_ok()) return card.status();
  const bool own = is_same_process(card.value().member, runtime.parts().self);
  if (ready.value()) return own ? LifeStanding::kWasThere : LifeStanding::kSuccessor;
  if (own || !is_alive(runtime, card.value())) return LifeStanding::kFounder;
  return Status{Code::kNotMember, "group " + request.group + ": rank " +
                                      std::to_string(request.rank.value) +
                                      " is held by a live process (was it started twice?)"};
}

Status LateJoin::read_cards(Store& store, const Life& life) {
  for (int r = 0; r < request_.size; ++r) {
    if (r == request_.rank.value) continue;
    const std::string key = life.key("card", {r});
    auto is_there = store.has(key);
    if (!is_there.is_ok()) return is_there.status();
    if (!is_there.value()) continue;
    auto text = store.get(key, kStoreLook);
    if (!text.is_ok()) return text.status();
    auto card = parse_card(text.value());
    if (!card.is_ok()) return card.status();
    TRY(check_settings(runtime_->own_card(), request_.rank, card.value(), {r}, request_.group));
    members_.push_back(std::move(card).value());
  }
  return Status::ok();
}

Result<std::shared_ptr<group::Group>> LateJoin::rejoin(Store& store, const Life& life) {
  TRY(read_cards(store, life));
  contacts_ = members_;
  if (const auto coordinator = runtime_->coordinator()) contacts_ = {*coordinator};
  const Instant now = runtime_->clock()->now();
  hope_until_ = now + hope();
  tell_at_ = now + kQuietWait;
  auto group = run(&store, &life);
  if (!group.is_ok() || group.value() == nullptr) {
    runtime_->run([&] {
      for (const Card& card : members_) runtime_->stop_calling(card.member);
    });
  }
  if (deserted_) TRY(life.end(store));
  if (!group.is_ok() || group.value() == nullptr) return group;
  // A process that is started again later finds this one by its card. The card is not written
  // before the admission, for a process that only waits does not show that the life goes on. An
  // error is ignored: when the store has gone, no later process comes by it.
  [[maybe_unused]] const Status told =
      store.set(life.key("card", request_.rank), encode_card(runtime_->own_card()));
  return group;
}

Result<std::shared_ptr<group::Group>> LateJoin::join() {
  contacts_.push_back(*runtime_->coordinator());
  return run(nullptr, nullptr);
}

Result<std::shared_ptr<group::Group>> LateJoin::run(Store* store, const Life* life) {
  met_.resize(contacts_.size());
  runtime_->run([&] {
    runtime_->router().set_joining(&joining_);
    for (const Card& card : contacts_) runtime_->call_member(card, deadline_);
  });
  Status hope = Status::ok();
  bool over = false;
  bool admitted = false;
  Instant next_end_look = runtime_->clock()->now() + kEndLook;
  while (hope.is_ok() && !deserted_ && !over && !admitted) {
    runtime_->drive_until([] { return false; }, runtime_->clock()->now() + kTurn);
    runtime_->run([&] {
      hope = look(runtime_->clock()->now());
      admitted = joining_.state() == State::kAdmitted;
    });
    if (life == nullptr || runtime_->clock()->now() < next_end_look) continue;
    next_end_look = runtime_->clock()->now() + kEndLook;
    const auto is_over = life->is_over(*store);
    // An error is ignored: neither the members nor a newcomer need the store any more.
    over = is_over.is_ok() && is_over.value();
  }
  Result<std::shared_ptr<group::Group>> entered = std::shared_ptr<group::Group>();
  runtime_->run([&] {
    runtime_->router().set_joining(nullptr);
    // This process was admitted after all, whatever the store says of that life.
    if (joining_.state() == State::kAdmitted) {
      deserted_ = false;
      entered = enter(joining_.decision());
    }
  });
  if (!hope.is_ok()) return hope;
  return entered;
}

void LateJoin::look_for_contacts() {
  for (std::size_t i = 0; i < contacts_.size(); ++i) {
    if (runtime_->find_peer(contacts_[i].member) == nullptr) {
      // Not connected yet, or no longer: a coordinator may come back.
      runtime_->call_member(contacts_[i], deadline_);
      continue;
    }
    if (met_[i]) continue;
    met_[i] = true;
    joining_.add_contact(contacts_[i].member);
  }
}

Duration LateJoin::hope() const { return silence_of(runtime_->parts().options) + kReach; }

bool LateJoin::reaches_members() const {
  const auto is_here = [&](MemberId member) { return runtime_->find_peer(member) != nullptr; };
  const auto& coordinator = runtime_->coordinator();
  // A coordinator that keeps this process waiting proves like a member that the group goes on.
  if (coordinator && joining_.state() == State::kWaiting && is_here(coordinator->member)) {
    return true;
  }
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Card& card) { return is_here(card.member); }) ||
         std::any_of(joining_.view().members.begin(), joining_.view().members.end(), is_here);
}

// With a secret that says nothing: anybody may have refused the calls.
bool LateJoin::are_all_refused() const {
  return !runtime_->has_secret() &&
         std::all_of(members_.begin(), members_.end(),
                     [&](const Card& card) { return runtime_->is_refused(card.member); });
}

// Whether all members that were within reach have said goodbye and none has died: the job has
// ended.
bool LateJoin::have_all_left() const {
  bool any = false;
  const auto has_left_or_never_met = [&](MemberId member) {
    const group::Loss* loss = runtime_->router().loss_of(member);
    any = any || (loss != nullptr && loss->left);
    return loss == nullptr || loss->left;
  };
  bool all = true;
  for (const Card& card : members_) all = has_left_or_never_met(card.member) && all;
  for (const MemberId member : joining_.view().members) all = has_left_or_never_met(member) && all;
  return any && all;
}

Status LateJoin::look_at_members(Instant now) {
  for (const Card& card : members_) {
    if (runtime_->find_peer(card.member) == nullptr) runtime_->call_member(card, deadline_);
  }
  if (reaches_members()) {
    hope_until_ = now + hope();
    return Status::ok();
  }
  const bool late = now >= hope_until_;
  if (late && have_all_left()) {
    return {Code::kNotMember, "group " + request_.group + ": rank " +
                                  std::to_string(request_.rank.value) +
                                  " was part of it before, and all others have left while it "
                                  "waited to be admitted: the job has ended"};
  }
  deserted_ = late || (are_all_refused() && !have_all_left());
  return Status::ok();
}

// Tells the user what this process waits for: members that never pass a step boundary admit no
// process, and say nothing.
void LateJoin::tell_of_wait(Instant now) {
  if (joining_.reason() != told_reason_) {
    told_reason_ = joining_.reason();
    if (!told_reason_.empty())
      runtime_->say("group " + request_.group + ": waits: " + told_reason_);
  }
  if (now < tell_at_ || joining_.state() != State::kWaiting) return;
  tell_at_ = {Duration::max()};
  runtime_->say("group " + request_.group + ": rank " + std::to_string(request_.rank.value) +
                " has come back, and waits for the others' next advance()");
}

// Of processes that wait to found a group, the one with the lowest id says which addresses go for
// all: not all of them give up because of one.
Status LateJoin::check_others() {
  if (checked_changes_ == joining_.changes()) return Status::ok();
  checked_changes_ = joining_.changes();
  const ft::WorldView& view = joining_.view();
  MemberId lowest = runtime_->parts().self;
  for (const ft::Joiner& other : joining_.wanted()) lowest = std::min(lowest, other.member);
  for (const ft::Joiner& other : joining_.wanted()) {
    if (checked_.contains(other.member)) continue;
    const bool goes_for_all = view.members.empty() && other.member == lowest;
    if (!goes_for_all && !view.has(other.member)) continue;
    checked_.insert(other.member);
    const auto card = parse_card(other.card);
    if (!card.is_ok()) continue;
    TRY(check_coordinators(runtime_->own_card(), card.value(),
                           "group " + request_.group + ": a peer on host " + card.value().host));
  }
  return Status::ok();
}

Status LateJoin::look(Instant now) {
  look_for_contacts();
  const std::string who = "group " + request_.group + ": ";
  if (joining_.state() == State::kRefused) {
    return {Code::kNotMember, who + "refused: " + joining_.refusal()};
  }
  if (joining_.state() == State::kAdmitted) return Status::ok();
  const bool met = std::find(met_.begin(), met_.end(), true) != met_.end();
  if (!met && runtime_->coordinator()) TRY(runtime_->coordinator_failure());
  if (runtime_->coordinator()) TRY(check_others());
  if (hope_until_ != Instant{}) TRY(look_at_members(now));
  if (deserted_) return Status::ok();
  tell_of_wait(now);
  if (now < deadline_) return Status::ok();
  if (!met && runtime_->coordinator()) return no_coordinator(*runtime_);
  std::string waits = joining_.view().epoch.value == 0
                          ? "the group waits for more peers (min_peers)"
                          : "the members admit at advance()";
  if (!joining_.reason().empty()) waits = joining_.reason();
  return {Code::kTimeout, who + "not admitted in time (option connect_timeout); " + waits};
}

Result<std::shared_ptr<group::Group>> LateJoin::enter(const ft::Message& decision) {
  ft::MembershipSettings settings = runtime_->membership_settings();
  settings.elastic = request_.rank.value < 0;
  ft::Membership membership(runtime_->world_name(request_.group), runtime_->parts().self, decision,
                            settings);
  auto world = std::make_shared<group::World>(decision, std::move(membership), runtime_->router());
  runtime_->router().add_world(world);
  const group::GroupConfig base = runtime_->base_config(request_);
  auto config = settings.elastic ? world->elastic(base) : world->admitted(base);
  if (!config) {
    return Status{Code::kProtocolError,
                  "group " + request_.group + ": admitted to a world without it"};
  }
  auto group = runtime_->enter_group(std::move(*config), world);
  if (const auto coordinator = runtime_->coordinator()) {
    world->on_connected(coordinator->member, runtime_->clock()->now());
  }
  return group;
}

Status meet_coordinator(Runtime& runtime, Duration timeout) {
  const Instant deadline = runtime.clock()->now() + timeout;
  runtime.run([&] { runtime.call_member(*runtime.coordinator(), deadline); });
  for (;;) {
    Status failure = Status::ok();
    bool greeted = true;
    runtime.run([&] {
      failure = runtime.coordinator_failure();
      runtime.router().each_world([&](const auto& world) {
        greeted = greeted && world->membership().is_greeted();
        const std::string& refusal = world->membership().refusal();
        if (!refusal.empty()) failure = {Code::kConfigError, refusal};
      });
      const bool late = runtime.clock()->now() >= deadline;
      if (failure.is_ok() && !greeted && late) failure = no_coordinator(runtime);
    });
    if (!failure.is_ok() || greeted) return failure;
    runtime.drive_until([] { return false; }, runtime.clock()->now() + kTurn);
  }
}

}  // namespace holdfast::runtime

#include "runtime/arrival.h"

#include <algorithm>

namespace holdfast::runtime {
namespace {

// For what is in the store.
constexpr Duration kStoreLook = std::chrono::seconds(5);
constexpr Duration kTurn = std::chrono::milliseconds(1);
// A living process answers within this time, at one of its addresses.
constexpr Duration kCall = std::chrono::seconds(1);
// One of the members is within reach, or is again, within this time, unless the job has ended.
constexpr Duration kSilence = std::chrono::seconds(5);

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
  const Status last = runtime.connect_failure(runtime.coordinator()->member);
  return {Code::kTimeout, "no coordinator at " + runtime.parts().options.coordinator +
                              " in time (option connect_timeout)" +
                              (last.is_ok() ? "" : ": " + last.message())};
}

}  // namespace

Arrival::Arrival(std::shared_ptr<Runtime> runtime, const JoinRequest& request, Duration timeout,
                 std::size_t min_peers)
    : runtime_(std::move(runtime)),
      request_(request),
      deadline_(runtime_->clock()->now() + timeout),
      joining_(runtime_->world_name(request.group),
               {runtime_->parts().self, request.rank, encode_card(runtime_->own_card())},
               runtime_->parts().options.heartbeat, min_peers) {}

Result<bool> Arrival::is_due(Runtime& runtime, Store& store, const JoinRequest& request) {
  auto began = store.has(store_key(request.group, "ready", request.rank));
  if (!began.is_ok() || began.value()) return began;
  const std::string key = store_key(request.group, "card", request.rank);
  auto was_here = store.has(key);
  if (!was_here.is_ok() || !was_here.value()) return was_here;
  auto text = store.get(key, kStoreLook);
  if (!text.is_ok()) return text.status();
  const auto card = parse_card(text.value());
  if (!card.is_ok()) return card.status();
  if (!is_alive(runtime, card.value())) return false;
  return Status{Code::kNotMember, "group " + request.group + ": rank " +
                                      std::to_string(request.rank.value) +
                                      " is held by a live process (was it started twice?)"};
}

Status Arrival::read_cards(Store& store) {
  for (int r = 0; r < request_.size; ++r) {
    if (r == request_.rank.value) continue;
    const std::string key = store_key(request_.group, "card", {r});
    auto is_there = store.has(key);
    if (!is_there.is_ok()) return is_there.status();
    if (!is_there.value()) continue;
    auto text = store.get(key, kStoreLook);
    if (!text.is_ok()) return text.status();
    auto card = parse_card(text.value());
    if (!card.is_ok()) return card.status();
    TRY(check_settings(runtime_->own_card(), request_.rank, card.value(), {r}, request_.group));
    contacts_.push_back(std::move(card).value());
  }
  return Status::ok();
}

Result<std::shared_ptr<ft::Group>> Arrival::rejoin(Store& store) {
  if (const auto coordinator = runtime_->coordinator()) {
    contacts_.push_back(*coordinator);
  } else {
    TRY(read_cards(store));
    hope_until_ = runtime_->clock()->now() + kSilence;
  }
  // Whoever is started again later looks for this process here.
  TRY(store.set(store_key(request_.group, "card", request_.rank),
                encode_card(runtime_->own_card())));
  return run();
}

Result<std::shared_ptr<ft::Group>> Arrival::join() {
  contacts_.push_back(*runtime_->coordinator());
  return run();
}

Result<std::shared_ptr<ft::Group>> Arrival::run() {
  met_.resize(contacts_.size());
  runtime_->run([&] {
    runtime_->hub().set_joining(&joining_);
    for (const Card& card : contacts_) runtime_->call_member(card, deadline_);
  });
  Status hope = Status::ok();
  while (hope.is_ok() && joining_.state() != ft::Joining::State::kAdmitted) {
    runtime_->drive_until([] { return false; }, runtime_->clock()->now() + kTurn);
    runtime_->run([&] { hope = look(runtime_->clock()->now()); });
  }
  Result<std::shared_ptr<ft::Group>> entered = Status(Code::kAborted, "not entered");
  runtime_->run([&] {
    runtime_->hub().set_joining(nullptr);
    if (hope.is_ok()) entered = enter(joining_.decision());
  });
  if (!hope.is_ok()) return hope;
  return entered;
}

void Arrival::look_for_contacts() {
  for (std::size_t i = 0; i < contacts_.size(); ++i) {
    if (runtime_->find_peer(contacts_[i].member) == nullptr) {
      // Not yet, or no longer: a coordinator may come back.
      runtime_->call_member(contacts_[i], deadline_);
      continue;
    }
    if (met_[i]) continue;
    met_[i] = true;
    joining_.add_contact(contacts_[i].member);
  }
}

bool Arrival::reaches_members() const {
  const auto is_here = [&](MemberId member) { return runtime_->find_peer(member) != nullptr; };
  return std::any_of(contacts_.begin(), contacts_.end(),
                     [&](const Card& card) { return is_here(card.member); }) ||
         std::any_of(joining_.view().members.begin(), joining_.view().members.end(), is_here);
}

Status Arrival::look(Instant now) {
  look_for_contacts();
  const std::string who = "group " + request_.group + ": ";
  if (joining_.state() == ft::Joining::State::kRefused) {
    return {Code::kNotMember, who + "refused: " + joining_.refusal()};
  }
  if (joining_.state() == ft::Joining::State::kAdmitted) return Status::ok();
  const bool met = std::find(met_.begin(), met_.end(), true) != met_.end();
  if (!met && runtime_->coordinator()) TRY(runtime_->coordinator_failure());
  const bool by_store = hope_until_ != Instant{};
  if (by_store && reaches_members()) hope_until_ = now + kSilence;
  if (by_store && now >= hope_until_) {
    return {Code::kNotMember, who + "rank " + std::to_string(request_.rank.value) +
                                  " was part of it before, and none of the others answers any "
                                  "more: the job has ended (a new one needs a store of its own)"};
  }
  if (now < deadline_) return Status::ok();
  if (!met && runtime_->coordinator()) return no_coordinator(*runtime_);
  const std::string waits = joining_.view().epoch.value == 0
                                ? "the group waits for more peers (min_peers)"
                                : "the members admit at advance()";
  return {Code::kTimeout, who + "not admitted in time (option connect_timeout); " + waits};
}

Result<std::shared_ptr<ft::Group>> Arrival::enter(const ft::Message& decision) {
  ft::MembershipSettings settings = runtime_->membership_settings();
  settings.elastic = request_.rank.value < 0;
  ft::Membership membership(runtime_->world_name(request_.group), runtime_->parts().self, decision,
                            settings);
  auto world = std::make_shared<ft::World>(decision, std::move(membership), runtime_->hub());
  runtime_->hub().add_world(world);
  const ft::GroupConfig base = runtime_->base_config(request_);
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
      runtime.hub().each_world([&](const auto& world) {
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

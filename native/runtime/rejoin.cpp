#include "runtime/rejoin.h"

#include <algorithm>

namespace holdfast::runtime {
namespace {

// What another rank has in the store is there at once, or not at all.
constexpr Duration kLook = std::chrono::milliseconds(20);
constexpr Duration kTurn = std::chrono::milliseconds(1);
// The first of the members answers within this time, unless the job has ended.
constexpr Duration kFirstAnswer = std::chrono::seconds(5);

}  // namespace

Rejoin::Rejoin(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
               Duration timeout)
    : runtime_(std::move(runtime)),
      store_(store),
      request_(request),
      deadline_(runtime_->clock()->now() + timeout),
      joining_(request.group,
               {runtime_->parts().self, request.rank, encode_card(runtime_->own_card())},
               runtime_->parts().options.heartbeat) {}

Result<bool> Rejoin::is_due(Store& store, const JoinRequest& request) {
  return store.has(card_key(request.group, request.rank));
}

Status Rejoin::read_cards() {
  const std::string own = encode_card(runtime_->own_card());
  for (int r = 0; r < request_.size; ++r) {
    if (r == request_.rank.value) continue;
    auto text = store_.get(card_key(request_.group, {r}), kLook);
    if (!text.is_ok()) {
      if (text.status().code() == Code::kTimeout) continue;
      return text.status();
    }
    auto card = parse_card(text.value());
    if (!card.is_ok()) return card.status();
    others_.push_back(std::move(card).value());
  }
  met_.resize(others_.size());
  // Whoever is started again later looks for this process here.
  return store_.set(card_key(request_.group, request_.rank), own);
}

Result<std::shared_ptr<ft::Group>> Rejoin::run() {
  TRY(read_cards());
  const Instant first_answer = runtime_->clock()->now() + kFirstAnswer;
  runtime_->run([&] {
    runtime_->hub().set_joining(&joining_);
    for (const Card& card : others_) runtime_->call_member(card, deadline_);
  });
  Status hope = Status::ok();
  while (hope.is_ok() && joining_.state() != ft::Joining::State::kAdmitted) {
    runtime_->drive_until([] { return false; }, runtime_->clock()->now() + kTurn);
    runtime_->run([&] { hope = look(); });
    const Instant now = runtime_->clock()->now();
    const bool met = std::find(met_.begin(), met_.end(), true) != met_.end();
    if (!met && now >= first_answer) {
      hope = {Code::kNotMember, "group " + request_.group + ": rank " +
                                    std::to_string(request_.rank.value) +
                                    " was part of it before, and none of the others answers any "
                                    "more: the job has ended (a new one needs a store of its own)"};
    } else if (now >= deadline_) {
      hope = {Code::kTimeout, "group " + request_.group + ": rank " +
                                  std::to_string(request_.rank.value) +
                                  " was not admitted in time (option connect_timeout); the others "
                                  "admit at advance()"};
    }
  }
  Result<std::shared_ptr<ft::Group>> entered = Status(Code::kAborted, "not entered");
  runtime_->run([&] {
    runtime_->hub().set_joining(nullptr);
    if (hope.is_ok()) entered = enter(joining_.decision());
  });
  if (!hope.is_ok()) return hope;
  return entered;
}

Status Rejoin::look() {
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (met_[i] || runtime_->find_peer(others_[i].member) == nullptr) continue;
    met_[i] = true;
    joining_.add_contact(others_[i].member);
  }
  if (joining_.state() != ft::Joining::State::kRefused) return Status::ok();
  return {Code::kNotMember, "group " + request_.group + ": refused: " + joining_.refusal()};
}

Result<std::shared_ptr<ft::Group>> Rejoin::enter(const ft::Message& decision) {
  ft::Membership membership(request_.group, runtime_->parts().self, decision,
                            runtime_->membership_settings());
  auto world = std::make_shared<ft::World>(decision, std::move(membership), runtime_->hub());
  runtime_->hub().add_world(world);
  auto config = world->admitted(runtime_->base_config(request_));
  if (!config) {
    return Status{Code::kProtocolError,
                  "group " + request_.group + ": admitted to a world without it"};
  }
  return runtime_->enter_group(std::move(*config), world);
}

}  // namespace holdfast::runtime

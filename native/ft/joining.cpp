#include "ft/joining.h"

#include <algorithm>

#include "ft/standing.h"
#include "ft/view_change.h"

namespace holdfast::ft {
namespace {

// For how many patience_ a coordinator that was named may stay unconnected: if it has gone, another
// member coordinates by then.
constexpr int kPatience = 4;

}  // namespace

void Joining::want(const Joiner& joiner) {
  if (joiner.member == self_.member || joiner.member == kNobody) return;
  const auto known = std::find_if(wanted_.begin(), wanted_.end(),
                                  [&](const Joiner& w) { return w.member == joiner.member; });
  if (known == wanted_.end()) wanted_.push_back(joiner);
}

void Joining::on_message(MemberId from, const Message& message) {
  if (state_ == JoiningState::kAdmitted || state_ == JoiningState::kRefused) return;
  const bool asked = coordinator_ == from ||
                     std::find(contacts_.begin(), contacts_.end(), from) != contacts_.end();
  const Speaker speaker = asked ? Speaker::kCoordinator : Speaker::kStranger;
  if (!may_say(Listener::kJoiner, speaker, claim_of(message))) return;
  ++changes_;
  switch (message.kind) {
    case MessageKind::kRedirect:
      if (message.joiners.size() != 1) return;
      coordinator_ = message.joiners[0].member;
      id_ = message.world;
      want(message.joiners[0]);
      next_ask_ = {};
      return;
    case MessageKind::kLobby:
      state_ = JoiningState::kWaiting;
      coordinator_ = from;
      id_ = message.world;
      generation_ = message.generation;
      if (message.digest == 0) view_ = message.view;
      if (message.digest != 0 && message.digest != digest_of(view_)) return fall_behind(from);
      version_ = message.version;
      reason_ = message.text;
      told_ = 0;  // the last answer may have been lost
      wanted_.clear();
      for (std::size_t r = 0; r < view_.members.size(); ++r) {
        want({view_.members[r], Rank{static_cast<std::int32_t>(r)}, view_.cards[r]});
      }
      for (const Joiner& joiner : message.joiners) want(joiner);
      return;
    case MessageKind::kDecide:
      decision_ = message;
      if (!spell_out(decision_, view_)) return fall_behind(from);
      if (decision_.view.has(self_.member)) state_ = JoiningState::kAdmitted;
      return;
    case MessageKind::kRefused:
      refusal_ = message.text;
      state_ = JoiningState::kRefused;
      return;
    case MessageKind::kOut: return on_out(from, message.world);
    default: return;
  }
}

// Tells the coordinator that this process lacks what its message refers to.
void Joining::fall_behind(MemberId coordinator) {
  Message m;
  m.kind = MessageKind::kBehind;
  m.world = id_;
  m.generation = generation_;
  m.epoch = view_.epoch;
  sends_.emplace_back(coordinator, std::move(m));
}

// If the coordinator has gone, another process coordinates by now: asks again.
void Joining::on_closed(MemberId member) {
  if (coordinator_ == member) {
    coordinator_.reset();
    state_ = JoiningState::kAsking;
    next_ask_ = {};
  }
}

Message Joining::question() const {
  Message m;
  m.kind = MessageKind::kJoin;
  m.world = id_;
  m.version = min_peers_;
  m.text = world_;
  m.joiners = {self_};
  return m;
}

void Joining::add_contact(MemberId contact) {
  const auto known = std::find(contacts_.begin(), contacts_.end(), contact);
  if (known == contacts_.end()) contacts_.push_back(contact);
}

std::optional<Message> Joining::opening(MemberId contact) {
  if (state_ != JoiningState::kAsking || coordinator_) return std::nullopt;
  add_contact(contact);
  return question();
}

// False: there is no process to ask yet.
bool Joining::ask(const std::function<bool(MemberId)>& is_connected) {
  // Contacts that are connected now; one that has gone may come back.
  std::vector<MemberId> here = contacts_;
  std::erase_if(here, [&](MemberId contact) { return !is_connected(contact); });
  if (!coordinator_ && here.empty()) return false;
  const MemberId to = coordinator_ ? *coordinator_ : here[next_contact_++ % here.size()];
  sends_.emplace_back(to, question());
  return true;
}

void Joining::tick(Instant now, const std::function<bool(MemberId)>& is_connected) {
  if (state_ == JoiningState::kAdmitted || state_ == JoiningState::kRefused) return;
  if (state_ == JoiningState::kWaiting && (told_ != version_ || told_epoch_ != view_.epoch)) {
    const bool all = std::all_of(wanted_.begin(), wanted_.end(),
                                 [&](const Joiner& w) { return is_connected(w.member); });
    if (all) {
      told_ = version_;
      told_epoch_ = view_.epoch;
      Message m;
      m.kind = MessageKind::kReady;
      m.world = id_;
      m.generation = generation_;
      m.epoch = view_.epoch;
      m.version = version_;
      sends_.emplace_back(*coordinator_, std::move(m));
    }
  }
  if (now < next_ask_) return;
  if (coordinator_ && !is_connected(*coordinator_)) {
    unreached_since_ = std::min(unreached_since_, now);
    if (now - unreached_since_ < patience_ * kPatience) return;
    // The process that named it may not have known yet that it had gone.
    coordinator_.reset();
    state_ = JoiningState::kAsking;
  }
  unreached_since_ = {Duration::max()};
  // Asks again now and then: a coordinator that took over knows nothing of its lobby.
  if (ask(is_connected)) next_ask_ = now + patience_;
}

}  // namespace holdfast::ft

// What members, newcomers and a coordinator say to each other, as lines for people: a message by
// its kind, its ballot, its view, and the fields that matter for the kind. A view that a message
// only names, by its digest or by what changes in another one, is shown with its members.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ft/membership.h"
#include "ft/view_change.h"

namespace holdfast::ft::testing {

inline constexpr MemberId kCoordinatorId{1000};
inline constexpr std::string_view kCoordinatorName = "coordinator";

inline constexpr std::array<std::string_view, kMessageKindCount> kKindNames = {
    "suspect", "report",   "prepare", "propose", "accept",   "decide",
    "join",    "redirect", "lobby",   "ready",   "boundary", "refused",
    "fenced",  "greet",    "out",     "behind",  "ask",      "absent"};

inline std::string_view kind_name(MessageKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind) - 1);
}

// Processes are called by the letters of the alphabet.
inline std::optional<MemberId> member_named(std::string_view name) {
  if (name == kCoordinatorName) return kCoordinatorId;
  if (name.size() != 1 || name[0] < 'a' || name[0] > 'z') return std::nullopt;
  return MemberId{static_cast<std::uint64_t>(name[0] - 'a') + 1};
}

inline std::string name_of(MemberId member) {
  if (member == kNobody) return "-";
  if (member == kCoordinatorId) return std::string(kCoordinatorName);
  return {static_cast<char>('a' + (member.value - 1))};
}

inline std::string names_of(const std::vector<MemberId>& members) {
  std::string text;
  for (const MemberId member : members) text += (text.empty() ? "" : " ") + name_of(member);
  return text.empty() ? "nobody" : text;
}

// By rank; a vacant one is a dash.
inline std::string brackets(const WorldView& view) {
  return "[" + (view.members.empty() ? "" : names_of(view.members)) + "]";
}

inline std::string view_words(const WorldView& view) {
  return "view " + std::to_string(view.epoch.value) + " " + brackets(view);
}

// COUNT.RANK; of a coordinator in a process of its own, COUNT.c and which life of it that is.
inline std::string ballot_words(Generation ballot) {
  constexpr std::uint64_t kOutsider = 0x8000;  // set in the lower half, above all ranks
  const std::uint64_t who = ballot.value & 0xffff;
  std::string text = std::to_string(ballot.value >> 16) + ".";
  if ((who & kOutsider) != 0) return text + "c" + std::to_string(who - kOutsider);
  return text + std::to_string(who);
}

// Versions of the lobby go on from the ballot of who counts them.
inline std::string version_words(std::uint64_t version) {
  if (version >> 16 == 0) return std::to_string(version);
  return ballot_words({version >> 16}) + "/" + std::to_string(version & 0xffff);
}

class Words {
 public:
  // Whatever is said in full is known by its digest from now on.
  void learn(const WorldView& view) { views_[digest_of(view)] = view; }
  void learn_decided(const WorldView& view) {
    learn(view);
    decided_[view.epoch] = view;
  }
  void learn(const Message& message) {
    if (message.view != WorldView{}) {
      learn(message.view);
      values_[digest_of_value(message)] = message.view;
    }
    if (!message.accepted.empty()) {
      if (const auto accepted = decode(message.accepted); accepted.is_ok()) learn(accepted.value());
    }
    const bool decides =
        message.kind == MessageKind::kPropose || message.kind == MessageKind::kDecide;
    if (!decides || message.digest != 0) return;
    Message whole = message;
    const auto base = base_of(message);
    if (message.change && (!base || !spell_out(whole, *base))) return;
    if (whole.kind == MessageKind::kDecide) learn_decided(whole.view);
    learn(whole.view);
    values_[digest_of_value(whole)] = whole.view;
  }

  std::string of(const Message& m) const {
    std::string text(kind_name(m.kind));
    const bool asks_in = m.kind == MessageKind::kJoin || m.kind == MessageKind::kRedirect;
    if (m.generation != Generation{} && !asks_in) text += ", ballot " + ballot_words(m.generation);
    if (m.epoch != Epoch{} && !asks_in) text += ", view " + std::to_string(m.epoch.value);
    return text + details(m);
  }

 private:
  std::optional<WorldView> base_of(const Message& message) const {
    if (!message.change) return std::nullopt;
    const auto at = views_.find(message.change->base);
    return at == views_.end() ? std::nullopt : std::optional(at->second);
  }

  // The next view of a proposal or decision, however it is said.
  std::string next_view(const Message& m) const {
    if (m.digest != 0) {
      const auto at = values_.find(m.digest);
      return (at == values_.end() ? "[?]" : brackets(at->second)) + " by name";
    }
    if (!m.change) return brackets(m.view) + " in full";
    const auto at = views_.find(m.change->result);
    return at == views_.end() ? "[?]" : brackets(at->second);
  }

  static std::string lost_words(const Message& m) {
    std::string text;
    for (const MemberId member : m.lost) {
      const auto& unproven = m.unproven;
      const bool silent = std::find(unproven.begin(), unproven.end(), member) != unproven.end();
      text += " " + name_of(member) + (silent ? "?" : "");
    }
    return ", lost" + (text.empty() ? " nobody" : text);
  }

  // Reports name the lost by their ranks in the view that ends.
  std::string rank_words(const Message& m) const {
    const auto at = decided_.find(m.epoch);
    std::string text;
    for (const auto& [rank, proven] : m.lost_ranks) {
      const auto r = static_cast<std::size_t>(rank.value);
      const bool known = at != decided_.end() && r < at->second.members.size();
      text += " " + (known ? name_of(at->second.members[r]) : "rank " + std::to_string(r));
      text += proven ? "" : "?";
    }
    return ", lost" + text;
  }

  std::string promise_words(const Message& m) const {
    std::string text;
    if (!m.accepted.empty()) {
      const auto accepted = decode(m.accepted);
      text += ", accepted " + (accepted.is_ok() ? ballot_words(accepted.value().generation) + " " +
                                                      next_view(accepted.value())
                                                : "?");
    }
    if (m.version != 0) text += ", once promised " + ballot_words({m.version});
    return text;
  }

  static std::string joiner_words(const Message& m) {
    std::vector<MemberId> waiting;
    for (const Joiner& joiner : m.joiners) waiting.push_back(joiner.member);
    return ", waiting " + names_of(waiting);
  }

  static std::string reason_words(const Message& m) {
    return m.text.empty() ? "" : ", because " + m.text;
  }

  // Of what is sent to members; who waits is told who there is as well.
  std::string lobby_words(const Message& m) const {
    const bool to_waiting = m.version != 0 && m.version >> 16 == 0;
    std::string text;
    if (m.view != WorldView{}) text += " " + brackets(m.view);
    text += (to_waiting ? ", arrivals " : ", lobby ") + version_words(m.version);
    return text + joiner_words(m) + reason_words(m);
  }

  std::string details(const Message& m) const {
    const std::string tells = m.view == WorldView{} ? "" : ", tells " + view_words(m.view);
    switch (m.kind) {
      case MessageKind::kSuspect:
        return ", silent " + names_of(m.lost) +
               (m.origin == kNobody ? "" : ", says " + name_of(m.origin)) + tells;
      case MessageKind::kReport:
        return (m.lost_ranks.empty() ? lost_words(m) : rank_words(m)) +
               (m.repeats ? ", body as before" : "") + promise_words(m) + tells;
      case MessageKind::kPrepare: return lost_words(m);
      case MessageKind::kPropose: return ", next " + next_view(m);
      case MessageKind::kDecide:
        return " " + next_view(m) + (m.boundary ? ", at a step boundary" : "");
      case MessageKind::kJoin:
        return m.joiners[0].wanted.value < 0
                   ? ", any rank" +
                         (m.version == 0 ? "" : ", world of " + std::to_string(m.version))
                   : ", rank " + std::to_string(m.joiners[0].wanted.value);
      case MessageKind::kRedirect: return ", to " + name_of(m.joiners[0].member);
      case MessageKind::kLobby: return lobby_words(m) + (m.boundary ? ", paused" : "");
      case MessageKind::kReady: return ", arrivals " + std::to_string(m.version);
      case MessageKind::kBoundary: return ", lobby " + version_words(m.version) + tells;
      case MessageKind::kRefused: return m.text.empty() ? ", unknown world" : ", because " + m.text;
      case MessageKind::kFenced: return reason_words(m);
      case MessageKind::kGreet: return " " + brackets(m.view) + promise_words(m);
      case MessageKind::kOut: return m.unproven.empty() ? "" : ", without " + names_of(m.unproven);
      case MessageKind::kAbsent:
        return m.lost.empty() ? ", asks for " + names_of(m.unproven) : ", gone " + names_of(m.lost);
      case MessageKind::kAccept:
      case MessageKind::kBehind:
      case MessageKind::kAsk: return "";
    }
    return "";
  }

  std::map<Epoch, WorldView> decided_;
  std::map<std::uint64_t, WorldView> views_;   // by digest
  std::map<std::uint64_t, WorldView> values_;  // by the digest of what decides them
};

}  // namespace holdfast::ft::testing

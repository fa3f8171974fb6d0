// The events of a membership scenario: each is a line of words, some of which stand for something.
// A line that is none of them, or that cannot happen now, is an error that says what can.
#pragma once

#include <array>
#include <charconv>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "world.h"

namespace holdfast::ft::testing {

// What the words of a line stand for, in the order of the pattern.
struct Meant {
  std::vector<std::vector<MemberId>> who;
  std::string kind;
  int number = 0;
  Duration time{};

  MemberId one(std::size_t which) const { return who[which].front(); }
};

inline Status cannot(const std::string& why, const std::string& accepted) {
  return {Code::kConfigError, why + "; accepted: " + accepted};
}

// In a pattern: WHO names several, or all, ONE one of them, and any of `sees|see` is the same word.
struct EventKind {
  std::string_view pattern;
  Status (*happens)(ScenarioWorld&, const Meant&);
};

inline std::string join(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text.empty() ? "nothing" : text;
}

inline Status each(ScenarioWorld& world, const std::vector<MemberId>& who,
                   const std::function<void(MemberId)>& act) {
  for (const MemberId id : who) {
    if (!world.runs(id)) {
      return cannot(name_of(id) + " does not run", "one that does: " + names_of(world.all()));
    }
    act(id);
  }
  return Status::ok();
}

inline Status each_member(ScenarioWorld& world, const std::vector<MemberId>& who,
                          const std::function<void(MemberId)>& act) {
  for (const MemberId id : who) {
    if (world.is_member(id)) continue;
    return cannot(name_of(id) + " is no member that runs", "a member: " + names_of(world.all()));
  }
  return each(world, who, act);
}

inline Status each_pair(ScenarioWorld& world, const Meant& m,
                        const std::function<void(MemberId, MemberId)>& act) {
  for (const MemberId who : m.who[0]) {
    for (const MemberId of : m.who[1]) {
      if (who == of) continue;  // all of them, and so itself
      const Status done = each(world, {who}, [&](MemberId id) { act(id, of); });
      if (!done.is_ok()) return done;
    }
  }
  return Status::ok();
}

inline Status found(ScenarioWorld& world, const Meant& m) {
  if (!world.all().empty()) {
    return cannot("there are members", "one such line, before others come");
  }
  const auto& ids = m.who[0];
  const std::set<MemberId> different(ids.begin(), ids.end());
  if (different.size() != ids.size() || different.contains(kCoordinatorId)) {
    return cannot("not a letter for each member", "letters, each once");
  }
  world.found(ids);
  return Status::ok();
}

inline Status start(ScenarioWorld& world, bool with_record) {
  if (world.runs(kCoordinatorId)) return cannot("it runs", "one coordinator at a time");
  if (!world.all().empty() && !world.has_come(kCoordinatorId)) {
    return cannot("the members have been founded without one", "this line before theirs");
  }
  world.start_coordinator(with_record);
  return Status::ok();
}

inline Status pass(ScenarioWorld& world, const Meant& m, bool delivers) {
  // A minute is far beyond all waits of the protocol, at this heartbeat, but those of names.
  constexpr Duration kMost = std::chrono::minutes(1);
  if (m.time > kMost) return cannot("too long", "at most 60 s");
  world.pass(m.time, delivers);
  return Status::ok();
}

inline Status come(ScenarioWorld& world, const Meant& m, Rank wanted, std::size_t peers) {
  if (m.one(0) == kCoordinatorId) return cannot("a coordinator asks nobody", "a letter");
  if (world.has_come(m.one(0))) {
    return cannot(name_of(m.one(0)) + " has been here", "a letter of its own for each process");
  }
  if (!world.runs(m.one(1))) return cannot("who is asked does not run", names_of(world.all()));
  world.come({m.one(0), m.one(1), wanted, peers});
  return Status::ok();
}

inline Status next_is(const ScenarioWorld& world, const Meant& m) {
  const auto kinds = world.on_the_way({m.one(0), m.one(1)});
  if (!kinds.empty() && kinds.front() == m.kind) return Status::ok();
  return cannot(
      "no " + m.kind + " comes next from " + name_of(m.one(0)) + " to " + name_of(m.one(1)),
      "what does: " + (kinds.empty() ? "nothing" : kinds.front()));
}

inline Status ordered(ScenarioWorld& world, const std::function<Status()>& ask) {
  if (!world.runs(kCoordinatorId)) return cannot("there is no coordinator", "coordinator starts");
  return ask();
}

using W = ScenarioWorld;

inline constexpr EventKind kEvents[] = {
    {"members WHO", found},
    {"coordinator starts", [](W& w, const Meant&) { return start(w, false); }},
    {"coordinator starts with its record", [](W& w, const Meant&) { return start(w, true); }},
    {"WHO ends|end",
     [](W& w, const Meant& m) { return each(w, m.who[0], [&](MemberId id) { w.end(id); }); }},
    {"WHO sees|see the end of ONE",
     [](W& w, const Meant& m) {
       if (w.runs(m.one(1)))
         return cannot(name_of(m.one(1)) + " runs", "the end of one that ended");
       return each_pair(w, m, [&](MemberId who, MemberId of) { w.see_end(who, of); });
     }},
    {"WHO hears|hear nothing of WHO",
     [](W& w, const Meant& m) {
       return each_pair(w, m, [&](MemberId who, MemberId of) { w.hear_nothing(who, of); });
     }},
    {"WHO hears|hear WHO again",
     [](W& w, const Meant& m) {
       return each_pair(w, m, [&](MemberId who, MemberId of) { w.hear_again(who, of); });
     }},
    {"ONE leaves",
     [](W& w, const Meant& m) {
       return each_member(w, m.who[0], [&](MemberId id) { w.leave(id); });
     }},
    {"ONE misses ONE",
     [](W& w, const Meant& m) {
       return each_member(w, m.who[0], [&](MemberId id) { w.miss(id, m.one(1)); });
     }},
    {"ONE and ONE connect anew",
     [](W& w, const Meant& m) {
       return each_member(w, {m.one(0), m.one(1)}, [&](MemberId id) {
         if (id == m.one(0)) w.connect_anew(id, m.one(1));
       });
     }},
    {"WHO greets|greet the coordinator",
     [](W& w, const Meant& m) {
       if (!w.runs(kCoordinatorId)) return cannot("there is none", "coordinator starts");
       return each(w, m.who[0], [&](MemberId id) { w.greet(id); });
     }},
    {"WHO is|are at a step boundary",
     [](W& w, const Meant& m) {
       return each_member(w, m.who[0], [&](MemberId id) { w.reach_boundary(id); });
     }},
    {"an operator kicks ONE",
     [](W& w, const Meant& m) { return ordered(w, [&] { return w.kick(m.one(0)); }); }},
    {"an operator drains ONE",
     [](W& w, const Meant& m) { return ordered(w, [&] { return w.drain(m.one(0)); }); }},
    {"an operator pauses the job",
     [](W& w, const Meant&) { return ordered(w, [&] { return w.pause(); }); }},
    {"an operator resumes the job",
     [](W& w, const Meant&) { return ordered(w, [&] { return w.resume(); }); }},
    {"ONE asks ONE for rank NUMBER",
     [](W& w, const Meant& m) { return come(w, m, {m.number}, 0); }},
    {"ONE asks ONE for any rank", [](W& w, const Meant& m) { return come(w, m, {-1}, 0); }},
    {"ONE asks ONE for a world of NUMBER",
     [](W& w, const Meant& m) { return come(w, m, {-1}, static_cast<std::size_t>(m.number)); }},
    {"cut WHO from WHO",
     [](W& w, const Meant& m) {
       w.cut(m.who[0], m.who[1]);
       return Status::ok();
     }},
    {"heal",
     [](W& w, const Meant&) {
       w.heal();
       return Status::ok();
     }},
    {"deliver",
     [](W& w, const Meant&) {
       w.deliver_all();
       return Status::ok();
     }},
    {"deliver ONE to ONE",
     [](W& w, const Meant& m) {
       w.deliver({m.one(0), m.one(1)});
       return Status::ok();
     }},
    {"deliver KIND ONE to ONE",
     [](W& w, const Meant& m) {
       const Status there = next_is(w, m);
       if (there.is_ok()) w.deliver_next({m.one(0), m.one(1)});
       return there;
     }},
    {"drop",
     [](W& w, const Meant&) {
       w.drop_all();
       return Status::ok();
     }},
    {"drop ONE to ONE",
     [](W& w, const Meant& m) {
       w.drop({m.one(0), m.one(1)});
       return Status::ok();
     }},
    {"drop KIND ONE to ONE",
     [](W& w, const Meant& m) {
       const Status there = next_is(w, m);
       if (there.is_ok()) w.drop_next({m.one(0), m.one(1)});
       return there;
     }},
    {"wait TIME", [](W& w, const Meant& m) { return pass(w, m, false); }},
    {"run TIME", [](W& w, const Meant& m) { return pass(w, m, true); }},
    {"how they stand",
     [](W& w, const Meant&) {
       w.say_standing();
       return Status::ok();
     }},
};

inline std::vector<std::string> words_in(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

inline std::optional<int> number_in(const std::string& word) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size() || number < 0) return std::nullopt;
  return number;
}

// Reads one line by one pattern.
class Reading {
 public:
  Reading(const ScenarioWorld& world, std::vector<std::string> line)
      : world_(world), line_(std::move(line)) {}

  // Nothing: it is not this one.
  std::optional<Meant> as(std::string_view pattern) {
    at_ = 0;
    meant_ = {};
    for (const std::string& word : words_in(pattern)) {
      if (!take(word)) return std::nullopt;
    }
    return at_ == line_.size() ? std::optional(meant_) : std::nullopt;
  }

 private:
  bool take(const std::string& word) {
    if (at_ == line_.size()) return false;
    if (word == "WHO") return take_names(line_.size());
    if (word == "ONE") return take_names(1);
    if (word == "KIND") return take_kind();
    if (word == "NUMBER") return take_number();
    if (word == "TIME") return take_time();
    const std::string bars = "|" + word + "|";
    return bars.find("|" + line_[at_++] + "|") != std::string::npos;
  }
  bool take_names(std::size_t most) {
    std::vector<MemberId> ids;
    if (most > 1 && line_[at_] == "all") {
      ids = world_.all();
      ++at_;
    }
    for (; at_ < line_.size() && ids.size() < most; ++at_) {
      const auto id = member_named(line_[at_]);
      if (!id) break;
      ids.push_back(*id);
    }
    meant_.who.push_back(ids);
    return !ids.empty();
  }
  bool take_kind() {
    meant_.kind = line_[at_++];
    return std::find(kKindNames.begin(), kKindNames.end(), meant_.kind) != kKindNames.end();
  }
  bool take_number() {
    const auto number = number_in(line_[at_++]);
    meant_.number = number.value_or(0);
    return number.has_value();
  }
  bool take_time() {
    if (!take_number() || at_ == line_.size()) return false;
    const std::string& unit = line_[at_++];
    meant_.time = unit == "s" ? Duration(std::chrono::seconds(meant_.number))
                              : Duration(std::chrono::milliseconds(meant_.number));
    return unit == "s" || unit == "ms";
  }

  const ScenarioWorld& world_;
  std::vector<std::string> line_;
  std::size_t at_ = 0;
  Meant meant_;
};

inline Status happen(ScenarioWorld& world, const std::string& line) {
  Reading reading(world, words_in(line));
  for (const EventKind& event : kEvents) {
    if (const auto meant = reading.as(event.pattern)) return event.happens(world, *meant);
  }
  std::vector<std::string> patterns;
  for (const EventKind& event : kEvents) patterns.emplace_back(event.pattern);
  return cannot("\"" + line + "\" is no event", join(patterns, ", "));
}

}  // namespace holdfast::ft::testing

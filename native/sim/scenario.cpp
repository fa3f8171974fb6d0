#include "sim/scenario.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "ft/message.h"

namespace holdfast::sim {
namespace {

constexpr std::array<const char*, kFaultKindCount> kNames = {
    "crash",     "restart", "pause",  "partition", "clog",   "slow",        "drop",
    "duplicate", "corrupt", "cut",    "leave",     "drift",  "coordinator", "vanish",
    "reset",     "late",    "cutoff", "move",      "grow",   "close",       "suspend",
    "stranger",  "kick",    "drain",  "hold",      "refuse", "witness"};
constexpr std::array<const char*, kWhenCount> kWhens = {"start", "sends", "adopts", "begins",
                                                        "ends",  "rings", "fault"};
// Limits of a scenario that was written by hand.
constexpr int kMostScenarioRanks = 1024;
constexpr int kMostElements = 1 << 20;

std::string message_name(int kind) {
  ft::Message message;
  message.kind = static_cast<ft::MessageKind>(kind);
  const std::string text = ft::to_string(message);
  return text.substr(0, text.find(' '));
}

int message_kind(const std::string& name) {
  for (int kind = 1; kind <= ft::kMessageKindCount; ++kind) {
    if (message_name(kind) == name) return kind;
  }
  return 0;
}

std::string who(int by) {
  if (by == kAnybody) return "anybody";
  return by == kOutsideCoordinator ? "coordinator" : std::to_string(by);
}

void write_trigger(std::ostream& out, const Trigger& t) {
  if (t.when == When::kStart) return;
  out << " when " << kWhens.at(static_cast<std::size_t>(t.when)) << " "
      << (t.when == When::kSends ? message_name(t.what) : std::to_string(t.what)) << " count "
      << t.count << " by " << who(t.by);
}

// Reads the words of a line, as pairs of a name and a value.
bool read_trigger(std::istringstream& in, Trigger& t, const Scenario& s) {
  std::string word;
  if (!(in >> word)) {
    in.clear();
    return true;
  }
  std::string when;
  std::string what;
  std::string by;
  in >> when >> what >> word >> t.count >> word >> by;
  const auto known = std::find(kWhens.begin(), kWhens.end(), when);
  if (in.fail() || known == kWhens.end() || t.count < 1) return false;
  t.when = static_cast<When>(known - kWhens.begin());
  const auto number = [](const std::string& text, int& value) {
    std::istringstream digits(text);
    return bool(digits >> value) && value >= 0;
  };
  if (t.when == When::kSends) {
    t.what = message_kind(what);
    if (t.what == 0) return false;
  } else if (!number(what, t.what)) {
    return false;
  }
  if (t.when == When::kFault && t.what >= static_cast<int>(s.faults.size())) return false;
  if (by == "anybody") return t.by = kAnybody, true;
  if (by == "coordinator") return t.by = kOutsideCoordinator, true;
  return number(by, t.by);
}

bool read_fault(std::istringstream& in, Fault& f, const Scenario& s) {
  std::string word;
  std::int64_t at = 0;
  std::int64_t lasts = 0;
  in >> word >> at >> word >> f.a >> word >> f.b >> word >> f.mask >> word >> lasts;
  f.at = Duration(at);
  f.lasts = Duration(lasts);
  const bool ranks_exist = f.a >= 0 && f.b >= 0 && f.a < s.ranks && f.b < s.ranks;
  if (in.fail() || !ranks_exist || at < 0 || lasts < 0) return false;
  return read_trigger(in, f.trigger, s);
}

bool read_setting(const std::string& name, std::istringstream& in, Scenario& s) {
  const std::map<std::string, bool*> flags = {
      {"raise", &s.raise},       {"zero_holes", &s.zero_holes}, {"flat", &s.flat},
      {"blocking", &s.blocking}, {"two_links", &s.two_links},   {"advances", &s.advances},
      {"outside", &s.outside},   {"terms", &s.terms},           {"slow_store", &s.slow_store},
      {"elastic", &s.elastic},   {"subgroup", &s.subgroup},     {"two_worlds", &s.two_worlds},
      {"maps", &s.maps},         {"signs", &s.signs},           {"launched", &s.launched},
      {"sparse", &s.sparse}};
  const std::map<std::string, int*> numbers = {
      {"ranks", &s.ranks}, {"steps", &s.steps}, {"elements", &s.elements}, {"hosts", &s.hosts}};
  if (name == "seed") {
    in >> s.seed;
  } else if (name == "delays") {
    in >> s.delays;
  } else if (const auto flag = flags.find(name); flag != flags.end()) {
    in >> *flag->second;
  } else if (const auto number = numbers.find(name); number != numbers.end()) {
    in >> *number->second;
  } else {
    return false;
  }
  return !in.fail() && s.ranks >= 1 && s.ranks <= kMostScenarioRanks && s.steps >= 0 &&
         s.elements >= 0 && s.elements <= kMostElements && s.hosts >= 1;
}

}  // namespace

std::string fault_name(FaultKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

std::string to_text(const Scenario& s) {
  std::ostringstream out;
  out << "seed " << s.seed << "\nranks " << s.ranks << "\nsteps " << s.steps << "\nelements "
      << s.elements << "\nhosts " << s.hosts << "\n";
  const std::pair<const char*, bool> flags[] = {
      {"raise", s.raise},       {"zero_holes", s.zero_holes}, {"flat", s.flat},
      {"blocking", s.blocking}, {"two_links", s.two_links},   {"advances", s.advances},
      {"outside", s.outside},   {"terms", s.terms},           {"slow_store", s.slow_store},
      {"elastic", s.elastic},   {"subgroup", s.subgroup},     {"two_worlds", s.two_worlds},
      {"maps", s.maps},         {"signs", s.signs},           {"launched", s.launched},
      {"sparse", s.sparse}};
  for (const auto& [name, set] : flags) {
    if (set) out << name << " 1\n";
  }
  if (s.delays != 0) out << "delays " << s.delays << "\n";
  for (const Fault& f : s.faults) {
    out << fault_name(f.kind) << " at " << f.at.count() << " a " << f.a << " b " << f.b << " mask "
        << f.mask << " lasts " << f.lasts.count();
    write_trigger(out, f.trigger);
    out << "\n";
  }
  return out.str();
}

Result<Scenario> parse_scenario(const std::string& text) {
  Scenario s;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::string name;
    in >> name;
    const auto known = std::find(kNames.begin(), kNames.end(), name);
    bool sound = false;
    // "coordinator" is only a fault: a setting of that name would be read as a fault.
    if (known != kNames.end()) {
      Fault f;
      f.kind = static_cast<FaultKind>(known - kNames.begin());
      sound = read_fault(in, f, s);
      s.faults.push_back(f);
    } else {
      sound = read_setting(name, in, s);
    }
    if (!sound) return Status{Code::kConfigError, "cannot read: " + line};
  }
  return s;
}

}  // namespace holdfast::sim

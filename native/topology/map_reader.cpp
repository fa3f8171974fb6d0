// The map of links from JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/json_reader.h"
#include "topology/link_map.h"

namespace holdfast::topology {
namespace {

constexpr double kKbitPerGbit = 1e6;
constexpr double kMapNsPerUs = 1e3;
constexpr double kMapNsPerS = 1e9;
constexpr double kMostMapGamma = 1e3;
constexpr std::size_t kMostMapLevels = 8;

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

Status refused(const std::string& key, const std::string& what) {
  return {Code::kConfigError, "topology: " + key + ": " + what};
}

// What a value is, short, for errors.
std::string shown(const JsonValue& value) {
  if (value.is(JsonKind::kNumber)) return number_text(value.number);
  if (value.is(JsonKind::kText)) return "\"" + shown_text(value.text, kMostMapNameBytes) + "\"";
  if (value.is(JsonKind::kList)) return "a list of " + std::to_string(value.items.size());
  return kind_text(value.kind);
}

std::string at(const std::string& key, std::size_t i) {
  return key + "[" + std::to_string(i) + "]";
}

// A number of `unit`s, in whole parts of it; `most`: in units.
Status read_number(const std::string& key, const JsonValue& value, double unit, double least,
                   double most, std::int64_t* out) {
  if (!value.is(JsonKind::kNumber) || value.number < least || value.number > most) {
    return refused(key, shown(value) + "; accepted: a number from " + number_text(least) + " to " +
                            number_text(most));
  }
  *out = static_cast<std::int64_t>(std::floor(value.number * unit + 0.5));
  return Status::ok();
}

Status read_count(const std::string& key, const JsonValue& value, int least, int most, int* out) {
  const bool is_whole = value.is(JsonKind::kNumber) && value.number == std::floor(value.number);
  if (!is_whole || value.number < least || value.number > most) {
    return refused(key, shown(value) + "; accepted: a whole number from " + std::to_string(least) +
                            " to " + std::to_string(most));
  }
  *out = static_cast<int>(value.number);
  return Status::ok();
}

Status read_name(const std::string& key, const JsonValue& value, std::string* out) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (!value.is(JsonKind::kText) || value.text.empty() || value.text.size() > kMostMapNameBytes ||
      std::any_of(value.text.begin(), value.text.end(), is_control)) {
    return refused(key, shown(value) + "; accepted: a string of 1 to " +
                            std::to_string(kMostMapNameBytes) +
                            " bytes without control characters");
  }
  *out = value.text;
  return Status::ok();
}

Status check_list(const std::string& key, const JsonValue& value, std::size_t length,
                  const std::string& of) {
  if (value.is(JsonKind::kList) && value.items.size() == length) return Status::ok();
  return refused(key, shown(value) + "; accepted: a list of " + std::to_string(length) + " " + of);
}

Status check_fields(const std::string& key, const JsonValue& object,
                    std::initializer_list<const char*> known) {
  for (const std::string& name : object.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string accepted;
    for (const char* one : known) accepted += (accepted.empty() ? "" : ", ") + std::string(one);
    return refused(key + "\"" + shown_text(name, kMostMapNameBytes) + "\"",
                   "no such key; accepted: " + accepted);
  }
  return Status::ok();
}

struct MapLevel {
  std::string name;
  int count = 0;
  std::int64_t kbit_per_s = 0;
  std::int64_t alpha_ns = 0;
};

}  // namespace

class MapReader {
 public:
  explicit MapReader(const JsonValue& whole) : whole_(whole) {}

  Result<LinkMap> read() {
    if (!whole_.is(JsonKind::kObject)) {
      return refused("the document", shown(whole_) + "; accepted: an object");
    }
    TRY(check_fields("", whole_,
                     {"format", "ranks", "domains", "alpha_us", "gbit_per_s", "shared", "levels",
                      "gamma_s_per_gbyte"}));
    TRY(read_head());
    const JsonValue* levels = whole_.find("levels");
    TRY(levels != nullptr ? read_levels(*levels) : read_pairs());
    if (const JsonValue* shared = whole_.find("shared")) TRY(read_shared(*shared));
    TRY(check_no_islands());
    return std::move(map_);
  }

 private:
  Status read_head() {
    const JsonValue* format = whole_.find("format");
    if (format == nullptr || !format->is(JsonKind::kNumber) || format->number != kMapFormat) {
      return refused("format", (format ? shown(*format) : "it is missing") +
                                   "; accepted: " + std::to_string(kMapFormat));
    }
    if (const JsonValue* gamma = whole_.find("gamma_s_per_gbyte")) {
      TRY(read_number("gamma_s_per_gbyte", *gamma, kMapNsPerS, 0, kMostMapGamma,
                      &map_.gamma_ns_per_gbyte_));
    }
    return Status::ok();
  }

  Status read_pairs() {
    const JsonValue* ranks = whole_.find("ranks");
    if (ranks == nullptr) return refused("ranks", "it is missing, and so is levels");
    TRY(read_count("ranks", *ranks, 2, kMostMapRanks, &map_.capacities_.ranks));
    map_.domains_.resize(as_index(map_.size()));
    if (const JsonValue* domains = whole_.find("domains")) TRY(read_domains(*domains));
    TRY(read_matrix("gbit_per_s", kKbitPerGbit, kMostGbitPerS, map_.capacities_.kbit_per_s));
    return read_matrix("alpha_us", kMapNsPerUs, kMostAlphaUs, map_.alpha_ns_);
  }

  // By row the sender, by column the receiver; one number: all pairs alike. What stands for a rank
  // and itself does not count.
  Status read_matrix(const std::string& key, double unit, double most,
                     std::vector<std::int64_t>& out) {
    const JsonValue* value = whole_.find(key);
    if (value == nullptr) return refused(key, "it is missing, and so is levels");
    const auto n = as_index(map_.size());
    out.assign(n * n, 0);
    const bool is_one = value->is(JsonKind::kNumber);
    if (!is_one) TRY(check_list(key, *value, n, "rows, or a number for all pairs"));
    for (std::size_t from = 0; from < n; ++from) {
      const std::string row_key = at(key, from);
      if (!is_one) TRY(check_list(row_key, value->items[from], n, "numbers"));
      for (std::size_t to = 0; to < n; ++to) {
        if (from == to) continue;
        const JsonValue& cell = is_one ? *value : value->items[from].items[to];
        std::int64_t& number = out[from * n + to];
        TRY(read_number(is_one ? key : at(row_key, to), cell, unit, 0, most, &number));
      }
    }
    return Status::ok();
  }

  Status read_domains(const JsonValue& domains) {
    TRY(check_list("domains", domains, as_index(map_.size()), "paths, one a rank"));
    for (std::size_t r = 0; r < domains.items.size(); ++r) {
      const JsonValue& path = domains.items[r];
      const std::string key = at("domains", r);
      if (!path.is(JsonKind::kList) || path.items.size() > kMostDomainDepth) {
        return refused(key, shown(path) + "; accepted: a list of at most " +
                                std::to_string(kMostDomainDepth) + " names, from the outside in");
      }
      for (std::size_t i = 0; i < path.items.size(); ++i) {
        map_.domains_[r].emplace_back();
        TRY(read_name(at(key, i), path.items[i], &map_.domains_[r].back()));
      }
    }
    return Status::ok();
  }

  Status read_shared(const JsonValue& shared) {
    if (!shared.is(JsonKind::kList) || shared.items.size() > kMostSharedCapacities) {
      return refused("shared", shown(shared) + "; accepted: a list of at most " +
                                   std::to_string(kMostSharedCapacities) + " capacities");
    }
    for (std::size_t i = 0; i < shared.items.size(); ++i) {
      const std::string key = at("shared", i);
      const JsonValue& one = shared.items[i];
      if (!one.is(JsonKind::kObject)) return refused(key, shown(one) + "; accepted: an object");
      TRY(check_fields(key + ".", one, {"name", "gbit_per_s", "from", "to"}));
      SharedCapacity capacity;
      for (const char* name : {"name", "gbit_per_s", "from", "to"}) {
        if (one.find(name) == nullptr) return refused(key + "." + name, "it is missing");
      }
      TRY(read_name(key + ".name", *one.find("name"), &capacity.name));
      TRY(read_number(key + ".gbit_per_s", *one.find("gbit_per_s"), kKbitPerGbit, 1 / kKbitPerGbit,
                      kMostGbitPerS, &capacity.kbit_per_s));
      TRY(read_ranks(key + ".from", *one.find("from"), &capacity.from));
      TRY(read_ranks(key + ".to", *one.find("to"), &capacity.to));
      map_.capacities_.shared.push_back(std::move(capacity));
    }
    return Status::ok();
  }

  Status read_ranks(const std::string& key, const JsonValue& value, std::vector<int>* out) {
    if (!value.is(JsonKind::kList) || value.items.empty() ||
        value.items.size() > as_index(map_.size())) {
      return refused(key, shown(value) + "; accepted: a list of 1 to " +
                              std::to_string(map_.size()) + " ranks");
    }
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      out->push_back(0);
      TRY(read_count(at(key, i), value.items[i], 0, map_.size() - 1, &out->back()));
    }
    std::sort(out->begin(), out->end());
    const auto twice = std::adjacent_find(out->begin(), out->end());
    if (twice == out->end()) return Status::ok();
    return refused(key, "rank " + std::to_string(*twice) + " stands twice");
  }

  // ---- levels ----

  Status read_levels(const JsonValue& list) {
    for (const char* other : {"domains", "alpha_us", "gbit_per_s"}) {
      if (whole_.find(other) == nullptr) continue;
      return refused(other, "it stands beside levels; accepted: one of both");
    }
    if (!list.is(JsonKind::kList) || list.items.empty() || list.items.size() > kMostMapLevels) {
      return refused("levels", shown(list) + "; accepted: a list of 1 to " +
                                   std::to_string(kMostMapLevels) + " levels");
    }
    std::vector<MapLevel> levels;
    std::int64_t ranks = 1;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      levels.emplace_back();
      TRY(read_level(at("levels", i), list.items[i], &levels.back()));
      ranks *= levels.back().count;
      if (ranks > kMostMapRanks) break;
    }
    if (ranks < 2 || ranks > kMostMapRanks) {
      return refused("levels", std::to_string(ranks) + " ranks by their counts; accepted: 2 to " +
                                   std::to_string(kMostMapRanks));
    }
    map_.capacities_.ranks = static_cast<int>(ranks);
    if (const JsonValue* told = whole_.find("ranks")) {
      int count = 0;
      TRY(read_count("ranks", *told, 2, kMostMapRanks, &count));
      if (count != ranks) {
        return refused("ranks", std::to_string(count) + ", where the levels' counts make " +
                                    std::to_string(ranks));
      }
    }
    place(levels);
    return Status::ok();
  }

  Status read_level(const std::string& key, const JsonValue& value, MapLevel* level) {
    if (!value.is(JsonKind::kObject)) return refused(key, shown(value) + "; accepted: an object");
    TRY(check_fields(key + ".", value, {"name", "count", "gbit_per_s", "alpha_us"}));
    for (const char* name : {"name", "count", "gbit_per_s", "alpha_us"}) {
      if (value.find(name) == nullptr) return refused(key + "." + name, "it is missing");
    }
    TRY(read_name(key + ".name", *value.find("name"), &level->name));
    TRY(read_count(key + ".count", *value.find("count"), 1, kMostMapRanks, &level->count));
    TRY(read_number(key + ".gbit_per_s", *value.find("gbit_per_s"), kKbitPerGbit, 1 / kKbitPerGbit,
                    kMostGbitPerS, &level->kbit_per_s));
    return read_number(key + ".alpha_us", *value.find("alpha_us"), kMapNsPerUs, 0, kMostAlphaUs,
                       &level->alpha_ns);
  }

  // Ranks are numbered in order. The innermost level's domains are ranks.
  void place(const std::vector<MapLevel>& levels) {
    const int n = map_.size();
    const auto count = as_index(n);
    map_.domains_.resize(count);
    map_.alpha_ns_.assign(count * count, 0);
    map_.capacities_.kbit_per_s.assign(count * count, 0);
    int inside = n;  // ranks of a domain of the level
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const MapLevel& level = levels[k];
      const int parent = inside;
      inside /= level.count;
      for (int from = 0; from < n; ++from) {
        if (k + 1 < levels.size()) {
          map_.domains_[as_index(from)].push_back(level.name + "-" + std::to_string(from / inside));
        }
        for (int to = 0; to < n; ++to) {
          if (from / parent != to / parent || from / inside == to / inside) continue;
          map_.alpha_ns_[map_.capacities_.pair(from, to)] = level.alpha_ns;
        }
      }
      for (int domain = 0; level.count > 1 && domain < n / inside; ++domain) {
        share_way_out(level, domain, inside);
      }
    }
    // What a pair reaches by itself: its domains' ways decide, whatever it is.
    std::int64_t fastest = 0;
    for (const MapLevel& level : levels) fastest = std::max(fastest, level.kbit_per_s);
    for (int r = 0; r < n * n; ++r) {
      if (r / n != r % n) map_.capacities_.kbit_per_s[as_index(r)] = fastest;
    }
  }

  void share_way_out(const MapLevel& level, int domain, int inside) {
    std::vector<int> own;
    std::vector<int> others;
    for (int r = 0; r < map_.size(); ++r) (r / inside == domain ? own : others).push_back(r);
    const std::string name = level.name + "-" + std::to_string(domain);
    map_.capacities_.shared.push_back({name + " out", level.kbit_per_s, own, others});
    map_.capacities_.shared.push_back({name + " in", level.kbit_per_s, others, own});
  }

  // ---- the whole ----

  // Every rank reaches every other one, over others where it must.
  Status check_no_islands() const {
    for (const bool forwards : {true, false}) {
      const std::vector<int> reached = reach(forwards);
      for (int r = 0; r < map_.size(); ++r) {
        if (reached[as_index(r)] != 0) continue;
        return refused("gbit_per_s", "there is no way " + std::string(forwards ? "from" : "to") +
                                         " rank 0 " + (forwards ? "to" : "from") + " rank " +
                                         std::to_string(r) + ", not even over others");
      }
    }
    return Status::ok();
  }

  std::vector<int> reach(bool forwards) const {
    std::vector<int> reached(as_index(map_.size()), 0);
    std::vector<int> open{0};
    reached[0] = 1;
    while (!open.empty()) {
      const int here = open.back();
      open.pop_back();
      for (int other = 0; other < map_.size(); ++other) {
        const std::size_t pair =
            forwards ? map_.capacities_.pair(here, other) : map_.capacities_.pair(other, here);
        if (reached[as_index(other)] != 0 || map_.capacities_.kbit_per_s[pair] == 0) continue;
        reached[as_index(other)] = 1;
        open.push_back(other);
      }
    }
    return reached;
  }

  const JsonValue& whole_;
  LinkMap map_;
};

Result<LinkMap> LinkMap::parse(std::string_view json) {
  Result<JsonValue> whole = read_json(json);
  if (!whole.is_ok()) {
    return Status{Code::kConfigError, "topology: " + whole.status().message()};
  }
  return MapReader(whole.value()).read();
}

}  // namespace holdfast::topology

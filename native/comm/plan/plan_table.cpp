#include "comm/plan/plan_table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

#include "comm/algorithms/catalogue.h"

namespace holdfast::comm {
namespace {

constexpr std::string_view kFirstLine = "holdfast-plan 1";
constexpr std::string_view kColumns =
    "# collective ranks hosts shm|tcp bytes algorithm seconds\n"
    "# link shm|tcp seconds_per_message seconds_per_byte seconds_per_reduced_byte\n";
// More rows than 20 sizes of every algorithm for hundreds of numbers of ranks.
constexpr std::size_t kMaxLines = 100'000;
constexpr int kMaxRanks = 1 << 20;
constexpr double kMaxSeconds = 86'400;

int power_of(std::uint64_t bytes) { return static_cast<int>(std::bit_width(bytes)); }

std::string number_text(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, std::end(text), value);
  return {text, error == std::errc{} ? end : text};
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

template <class T>
bool read(std::string_view text, T least, T most, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= least &&
         value <= most;
}

bool read_transport(std::string_view text, bool& shared) {
  shared = text == "shm";
  return shared || text == "tcp";
}

// Returns what is wrong with the line; empty: nothing.
std::string read_link(const std::vector<std::string_view>& words, PlanTable& table) {
  bool shared = false;
  topology::LinkModel link{};
  if (words.size() != 5 || !read_transport(words[1], shared) ||
      !read(words[2], 0.0, kMaxSeconds, link.alpha_s) ||
      !read(words[3], 0.0, kMaxSeconds, link.beta_s_per_byte) ||
      !read(words[4], 0.0, kMaxSeconds, link.gamma_s_per_byte)) {
    return "a link; accepted: link shm|tcp and three numbers of seconds";
  }
  table.set_link(shared, link);
  return {};
}

std::string read_row(const std::vector<std::string_view>& words, PlanTable& table) {
  if (words.size() != 7) return "of " + std::to_string(words.size()) + " words; accepted: 7";
  PlanRow row;
  const auto collective = find_collective(words[0]);
  if (!collective) return "collective " + std::string(words[0]);
  row.key.collective = *collective;
  row.algorithm = words[5];
  if (words[5] != kSharedMemory &&
      (words[5].empty() || find_algorithm(row.key.collective, words[5]) == nullptr)) {
    return "algorithm " + row.algorithm + " of " + std::string(words[0]) +
           "; accepted: shared_memory, or what `holdfast info` lists for it";
  }
  Placement& place = row.key.place;
  if (!read(words[1], 1, kMaxRanks, place.ranks) || !read(words[2], 1, place.ranks, place.hosts)) {
    return "ranks and hosts " + std::string(words[1]) + " " + std::string(words[2]) +
           "; accepted: at least 1, and no more hosts than ranks";
  }
  if (!read_transport(words[3], place.shared)) {
    return "transport " + std::string(words[3]) + "; accepted: shm, tcp";
  }
  if (!read(words[4], std::uint64_t{0}, ~std::uint64_t{0} >> 1, row.bytes)) {
    return "size " + std::string(words[4]) + "; accepted: a number of bytes";
  }
  if (!read(words[6], 0.0, kMaxSeconds, row.seconds)) {
    return "time " + std::string(words[6]) + "; accepted: seconds, 0 to a day";
  }
  table.add(std::move(row));
  return {};
}

}  // namespace

void PlanTable::add(PlanRow row) {
  Rows& rows = sizes_[row.key][power_of(row.bytes)];
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const PlanRow& r) { return r.algorithm == row.algorithm; });
  if (at != rows.end()) {
    *at = std::move(row);
  } else {
    rows.push_back(std::move(row));
  }
}

void PlanTable::merge(const PlanTable& other) {
  for (PlanRow& row : other.rows()) add(std::move(row));
  for (std::size_t i = 0; i < 2; ++i) {
    if (other.links_[i]) links_[i] = other.links_[i];
  }
}

void PlanTable::set_link(bool shared, const topology::LinkModel& link) {
  links_[shared ? 1 : 0] = link;
}

topology::LinkModel PlanTable::link(bool shared) const {
  return links_[shared ? 1 : 0].value_or(shared ? topology::kShmLink : topology::kTcpLink);
}

std::optional<std::string_view> PlanTable::find(const PlanKey& key, std::uint64_t bytes,
                                                bool or_near) const {
  const auto sizes = sizes_.find(key);
  if (sizes == sizes_.end()) return std::nullopt;
  const int power = power_of(bytes);
  for (const int near : {power, power - 1, power + 1}) {
    if (near != power && !or_near) break;
    const auto rows = sizes->second.find(near);
    if (rows == sizes->second.end()) continue;
    const auto best =
        std::min_element(rows->second.begin(), rows->second.end(),
                         [](const PlanRow& a, const PlanRow& b) { return a.seconds < b.seconds; });
    return best->algorithm;
  }
  return std::nullopt;
}

std::vector<PlanRow> PlanTable::rows() const {
  std::vector<PlanRow> all;
  for (const auto& [key, sizes] : sizes_) {
    for (const auto& [power, rows] : sizes) all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

std::string PlanTable::text() const {
  std::string out = std::string(kFirstLine) + "\n" + std::string(kColumns);
  for (const bool shared : {true, false}) {
    const auto& link = links_[shared ? 1 : 0];
    if (!link) continue;
    out += std::string("link ") + (shared ? "shm " : "tcp ") + number_text(link->alpha_s) + " " +
           number_text(link->beta_s_per_byte) + " " + number_text(link->gamma_s_per_byte) + "\n";
  }
  for (const PlanRow& row : rows()) {
    const Placement& place = row.key.place;
    out += std::string(collective_name(row.key.collective)) + " " + std::to_string(place.ranks) +
           " " + std::to_string(place.hosts) + (place.shared ? " shm " : " tcp ") +
           std::to_string(row.bytes) + " " + row.algorithm + " " + number_text(row.seconds) + "\n";
  }
  return out;
}

Result<PlanTable> PlanTable::parse(std::string_view text) {
  PlanTable table;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto wrong = [&](const std::string& what) {
      constexpr std::size_t kShown = 80;
      return Status(Code::kConfigError, "line " + std::to_string(number) + " (\"" +
                                            std::string(line.substr(0, kShown)) + "\"): " + what);
    };
    if (++number > kMaxLines) return wrong("more than " + std::to_string(kMaxLines) + " lines");
    if (number == 1) {
      if (line != kFirstLine) return wrong("accepted: \"" + std::string(kFirstLine) + "\"");
      continue;
    }
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty() || words[0][0] == '#') continue;
    const std::string what = words[0] == "link" ? read_link(words, table) : read_row(words, table);
    if (!what.empty()) return wrong(what);
  }
  if (number == 0) return Status{Code::kConfigError, "the table of plans is empty"};
  return table;
}

}  // namespace holdfast::comm

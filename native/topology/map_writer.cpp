// A map of links as JSON: the same map gives the same text on every machine, and the text the same
// map.
#include <algorithm>
#include <functional>

#include "topology/link_map.h"

namespace holdfast::topology {
namespace {

// A whole number of thousandths, or millionths, as a decimal fraction without zeros at its end.
std::string decimal(std::int64_t value, int digits) {
  std::string text = std::to_string(value);
  if (static_cast<int>(text.size()) <= digits) {
    text.insert(0, static_cast<std::size_t>(digits) + 1 - text.size(), '0');
  }
  text.insert(text.size() - static_cast<std::size_t>(digits), ".");
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void put_name(std::string& out, const std::string& name) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20) {
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void put_list(std::string& out, std::size_t count, const std::function<void(std::size_t)>& put) {
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    put(i);
  }
  out += ']';
}

// One number where all pairs have it, else a matrix.
void put_pairs(std::string& out, const Capacities& capacities,
               const std::vector<std::int64_t>& values, int digits) {
  const auto ranks = static_cast<std::size_t>(capacities.ranks);
  const auto value = [&](std::size_t from, std::size_t to) {
    return values[capacities.pair(static_cast<int>(from), static_cast<int>(to))];
  };
  bool alike = ranks > 1;
  for (std::size_t a = 0; a < ranks && alike; ++a) {
    for (std::size_t b = 0; b < ranks && alike; ++b) {
      alike = value(a, b) == (a == b ? 0 : value(0, 1));
    }
  }
  if (alike) {
    out += decimal(value(0, 1), digits);
    return;
  }
  put_list(out, ranks, [&](std::size_t a) {
    put_list(out, ranks, [&](std::size_t b) { out += decimal(value(a, b), digits); });
  });
}

}  // namespace

std::string LinkMap::to_json() const {
  std::string out =
      "{\"format\": " + std::to_string(kMapFormat) + ", \"ranks\": " + std::to_string(size());
  const bool placed =
      std::any_of(domains_.begin(), domains_.end(), [](const auto& path) { return !path.empty(); });
  if (placed) {
    out += ", \"domains\": ";
    put_list(out, domains_.size(), [&](std::size_t rank) {
      put_list(out, domains_[rank].size(),
               [&](std::size_t i) { put_name(out, domains_[rank][i]); });
    });
  }
  out += ", \"gbit_per_s\": ";
  put_pairs(out, capacities_, capacities_.kbit_per_s, 6);
  out += ", \"alpha_us\": ";
  put_pairs(out, capacities_, alpha_ns_, 3);
  if (!capacities_.shared.empty()) {
    out += ", \"shared\": ";
    put_list(out, capacities_.shared.size(), [&](std::size_t i) {
      const SharedCapacity& one = capacities_.shared[i];
      const auto put_ranks = [&](const std::vector<int>& ranks) {
        put_list(out, ranks.size(), [&](std::size_t r) { out += std::to_string(ranks[r]); });
      };
      out += "{\"name\": ";
      put_name(out, one.name);
      out += ", \"gbit_per_s\": " + decimal(one.kbit_per_s, 6) + ", \"from\": ";
      put_ranks(one.from);
      out += ", \"to\": ";
      put_ranks(one.to);
      out += '}';
    });
  }
  if (gamma_ns_per_gbyte_ != 0) {
    out += ", \"gamma_s_per_gbyte\": " + decimal(gamma_ns_per_gbyte_, 9);
  }
  return out + "}";
}

}  // namespace holdfast::topology

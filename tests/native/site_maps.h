// Maps of ranks in sites, which tests of plans go by.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "topology/fabric.h"
#include "topology/link_map.h"

namespace holdfast::testing {

inline std::string list(const std::vector<int>& values) {
  std::string text = "[";
  for (const int value : values) {
    text += (text.size() > 1 ? "," : "") + std::to_string(value);
  }
  return text + "]";
}

// Ranks in sites: 1 Gbit/s and 0.1 ms inside, a line of 200 Mbit/s out of each, 20 ms between two.
inline std::shared_ptr<const topology::LinkMap> sites(const std::vector<int>& site_of) {
  const auto n = static_cast<int>(site_of.size());
  std::string alpha = "[";
  std::string shared;
  const auto add = [&](const std::string& rate, const std::vector<int>& a,
                       const std::vector<int>& b) {
    shared += std::string(shared.empty() ? "" : ",") + "{\"name\":\"c\",\"gbit_per_s\":" + rate +
              ",\"from\":" + list(a) + ",\"to\":" + list(b) + "}";
  };
  for (int r = 0; r < n; ++r) {
    std::vector<int> row;
    std::vector<int> others;
    for (int s = 0; s < n; ++s) {
      const bool near =
          site_of[static_cast<std::size_t>(r)] == site_of[static_cast<std::size_t>(s)];
      row.push_back(r == s ? 0 : near ? 100 : 20'000);
      if (r != s) others.push_back(s);
    }
    alpha += (r > 0 ? "," : "") + list(row);
    add("1", {r}, others);
    add("1", others, {r});
  }
  for (int site = 0; site < 3; ++site) {
    std::vector<int> inside;
    std::vector<int> outside;
    for (int r = 0; r < n; ++r) {
      (site_of[static_cast<std::size_t>(r)] == site ? inside : outside).push_back(r);
    }
    if (inside.empty() || outside.empty()) continue;
    add("0.2", inside, outside);
    add("0.2", outside, inside);
  }
  const std::string text = "{\"format\":1,\"ranks\":" + std::to_string(n) +
                           ",\"gbit_per_s\":10,\"alpha_us\":" + alpha + "],\"shared\":[" + shared +
                           "]}";
  auto map = topology::LinkMap::parse(text);
  REQUIRE_MESSAGE(map.is_ok(), map.status().message());
  return std::make_shared<const topology::LinkMap>(std::move(map).value());
}

inline topology::Fabric on(const std::shared_ptr<const topology::LinkMap>& map) {
  std::vector<int> hosts;
  for (int r = 0; r < map->size(); ++r) hosts.push_back(r);
  return topology::Fabric::of_hosts(hosts, topology::kTcpLink).value().on_map(map);
}

}  // namespace holdfast::testing

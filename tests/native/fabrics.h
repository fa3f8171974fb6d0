// Fabrics of every level shape, which the sweeps of algorithms go over.
#pragma once

#include <utility>
#include <vector>

#include "topology/fabric.h"

namespace holdfast::testing {

inline topology::Fabric on_hosts(const std::vector<int>& host_of) {
  return topology::Fabric::of_hosts(host_of, topology::kTcpLink).value();
}

// Sites of hosts: by rank, the number of its site and that of its host there.
inline topology::Fabric on_sites(const std::vector<std::pair<int, int>>& places) {
  std::vector<std::vector<int>> paths;
  for (const auto& [site, host] : places) paths.push_back({site, host});
  const topology::LinkModel far{10e-3, 1.0 / 25e6, 1.0 / 12e9};
  return topology::Fabric::make({{"all", far},
                                 {"site", topology::kTcpLink, 1.0 / 25e6},
                                 {"host", topology::kShmLink, 1.0 / 2.5e9}},
                                paths)
      .value();
}

// Sites of hosts of devices, a rank on each device.
inline topology::Fabric on_devices(const std::vector<std::pair<int, int>>& places) {
  std::vector<std::vector<int>> paths;
  for (const auto& [site, host] : places) {
    paths.push_back({site, host, static_cast<int>(paths.size())});
  }
  return topology::Fabric::make({{"all", topology::kTcpLink},
                                 {"site", topology::kTcpLink},
                                 {"host", topology::kShmLink},
                                 {"device", {}}},
                                paths)
      .value();
}

inline std::vector<topology::Fabric> fabrics() {
  std::vector<topology::Fabric> all{topology::Fabric()};
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0, 0},
                                        {0, 0, 1, 1},
                                        {0, 1, 0, 1},
                                        {0, 1, 0, 1, 0},
                                        {0, 0, 0, 1},
                                        {0, 1, 1, 1},
                                        {0, 1, 2, 3},
                                        {0, 0, 1, 1, 2, 2},
                                        {0, 0, 0, 1, 1, 1},
                                        {0, 1, 1, 2, 2, 2, 2},
                                        {0, 1, 2, 0, 1, 2, 0},
                                        {0, 0, 0, 0, 0, 1, 1, 1},
                                        {0, 1},
                                        {0, 0, 0, 1, 1, 2, 2, 2, 2},
                                        {0, 1, 1, 0, 2, 1, 0, 2, 2, 2, 0, 1, 1, 0, 3, 3}}) {
    all.push_back(on_hosts(hosts));
  }
  for (const std::vector<std::pair<int, int>>& places :
       {std::vector<std::pair<int, int>>{{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 1}},
        {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}, {1, 0}, {0, 1}, {1, 1}},  // alternating
        {{0, 0}, {0, 0}, {0, 0}, {1, 0}, {1, 1}, {1, 2}, {1, 2}},          // one host and three
        {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}},                          // hosts of one rank
        {{0, 0}, {0, 0}, {1, 0}, {1, 0}, {1, 0}},                          // sites of one host
        {{0, 0}, {0, 0}, {0, 1}},                                          // one site
        {{0, 0}, {1, 0}, {2, 0}}}) {
    all.push_back(on_sites(places));
    all.push_back(on_devices(places));
  }
  return all;
}

}  // namespace holdfast::testing

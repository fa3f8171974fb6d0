// Board: what a coordinator tells of its worlds on its pages. The driving thread writes it, the
// endpoint's thread reads it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics/text.h"
#include "ft/coordination.h"

namespace holdfast::runtime {

class Board {
 public:
  // Where the coordinator itself is scraped. Before anybody reads.
  void set_own_address(std::string address) { own_address_ = std::move(address); }
  // Driving thread.
  void set(const std::vector<ft::Coordination::Standing>& worlds);

  // Any thread. Prometheus http_sd: all ranks that serve pages, and the coordinator.
  std::string targets() const;
  void write_metrics(metrics::TextEncoder& out) const;

 private:
  struct Target {
    std::size_t rank = 0;
    std::string address;
    std::string host;
  };
  struct World {
    Epoch epoch;
    std::vector<MemberId> members;
    std::size_t present = 0;
    std::size_t waiting = 0;
    bool blocked = false;
    std::vector<Target> targets;
  };
  static std::vector<Target> targets_of(const ft::WorldView& view);

  std::string own_address_;
  mutable std::mutex mutex_;  // guards worlds_
  std::map<std::string, World> worlds_;
};

}  // namespace holdfast::runtime

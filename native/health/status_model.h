// StatusModel: what a process tells of its worlds on its pages: a coordinator of those it decides
// for, a rank of those it is in. The driving thread writes it, the endpoint's thread reads it. Why:
// docs/decisions/0058-the-page-compares-views.md
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics/text.h"
#include "health/world_status.h"

namespace holdfast::runtime {

inline constexpr std::size_t kEventsKept = 128;

// All that a status page is made of, at one moment.
struct StatusSnapshot {
  std::vector<WorldStatus> worlds;  // by name
  std::deque<StatusEvent> events;   // the latest last
  Instant seen;                     // when it was brought up to date
};

class StatusModel {
 public:
  explicit StatusModel(PlaceOf place_of) : place_of_(place_of) {}

  // Where this process itself is scraped. Before anybody reads.
  void set_own_address(std::string address) { own_address_ = std::move(address); }

  // Driving thread. What all worlds are now; `look` says how the connection to a member is.
  void set(const std::vector<WorldNews>& worlds, const ContactOf& look, Instant now);
  // Driving thread. What a member's heartbeat brought.
  void hear(MemberId from, const RankSummary& summary, Instant now);

  // Any thread. Prometheus http_sd: all ranks that serve pages, and the coordinator.
  std::string targets() const;
  void write_metrics(metrics::TextEncoder& out) const;
  StatusSnapshot state() const;

 private:
  void forget_absent(const std::vector<WorldNews>& worlds);
  void add_event(StatusEvent event);

  const PlaceOf place_of_;
  std::string own_address_;
  // Of the driving thread. Owners: this, seats, and copies of those that are being written out.
  std::map<MemberId, std::shared_ptr<const RankNumbers>> numbers_;
  mutable std::mutex mutex_;  // guards state_
  StatusSnapshot state_;
};

}  // namespace holdfast::runtime

// StatusModel: what a process shows of its worlds on its pages. A coordinator shows the worlds that
// it decides for, a rank the worlds that it is in. The driving thread writes the model, the
// endpoint's thread reads it.
// Why: docs/decisions/0058-the-page-compares-views.md
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics/text.h"
#include "health/far/relay_numbers.h"
#include "health/world_status.h"

namespace holdfast::health {

inline constexpr std::size_t kEventsKept = 128;

// Everything a status page shows, at one moment.
struct StatusSnapshot {
  std::vector<WorldStatus> worlds;  // by name
  std::deque<StatusEvent> events;   // oldest first
  std::optional<RelayNumbers> relay;
  Instant seen;  // when it was last updated
};

class StatusModel {
 public:
  explicit StatusModel(PlaceOf place_of) : place_of_(place_of) {}

  // Sets the address at which this process itself is scraped. Call before any thread reads the
  // model.
  void set_own_address(std::string address) { own_address_ = std::move(address); }

  // Driving thread. Takes the present state of all worlds; `look` gives the state of the connection
  // to a member.
  void set(const std::vector<WorldNews>& worlds, const ContactOf& look, Instant now);
  // Driving thread. Takes the summary that a member's heartbeat brought.
  void hear(MemberId from, const RankSummary& summary, Instant now);
  // Driving thread. What the process's own relay counts.
  void set_relay(const RelayNumbers& numbers);

  // Any thread. All ranks that serve pages, and the coordinator, in the format of Prometheus
  // http_sd.
  std::string targets() const;
  void write_metrics(metrics::TextEncoder& out) const;
  StatusSnapshot state() const;

 private:
  void forget_absent(const std::vector<WorldNews>& worlds);
  void add_event(StatusEvent event);

  const PlaceOf place_of_;
  std::string own_address_;
  // Used by the driving thread only. Owners: this, each RankStatus, and its copies that are being
  // written out.
  std::map<MemberId, std::shared_ptr<const RankNumbers>> numbers_;
  mutable std::mutex mutex_;  // guards state_
  StatusSnapshot state_;
};

}  // namespace holdfast::health

// Health: the observer used in production. It counts into Metrics, writes the flight record, and
// tells whether the process is alive and a member. Each process has one, owned by the runtime;
// links and groups see it only as a LinkMeter or an Observer.
// Why: docs/decisions/0049-health-is-one-observer.md
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "comm/observer.h"
#include "health/flight_recorder.h"
#include "health/metrics.h"
#include "health/stacks.h"

namespace holdfast::health {

struct HealthSettings {
  std::string flight_dir;  // where the flight record is made; empty: in memory
  Duration heartbeat{};    // interval of the driver; several missed beats are a sickness
};

class Health final : public comm::Observer {
 public:
  // kSystem when the flight record cannot be made.
  static Result<std::unique_ptr<Health>> create(const HealthSettings& settings, MemberId self,
                                                const std::string& host,
                                                std::shared_ptr<const Clock> clock);
  Health(std::unique_ptr<health::FlightRecorder> flight, Duration heartbeat, Duration wall_offset,
         std::shared_ptr<const Clock> clock);

  // comm::Observer.
  void on_op_begun(const ObservedOp& op, comm::OpTicket& ticket, Instant now) override;
  void on_path_taken(const comm::OpTicket& ticket, Epoch epoch) override {
    flight_->set_path(ticket, epoch);
  }
  void on_waited(const comm::OpTicket& ticket, std::span<const Rank> peers, Duration time) override;
  void on_residual_left(compress::CodecId codec, double squares) override;
  void on_op_ended(const comm::OpTicket& ticket, Code code, bool repaired, Instant now) override;
  void on_group_named(CommId group, const std::string& name) override {
    flight_->name_group(group, name);
  }
  void on_linked(Rank peer, comm::Link& link) override;
  comm::MailMeter* mail_meter(Rank peer) override {
    return &metrics_.mail[Metrics::peer_index(peer)];
  }
  void on_view_begun(const ObservedView& view) override;
  void on_member_lost(comm::LossCause cause) override;
  void on_standing(comm::Standing standing) override {
    standing_.store(standing, std::memory_order_relaxed);  // relaxed: a value by itself
  }
  void on_map_taken(const ObservedMap& map) override { metrics_.maps.set(map, clock_->now()); }
  // Tells that the driving thread has just run.
  void turned(Instant now) {
    turned_.store(now.since_origin.count(), std::memory_order_relaxed);  // relaxed: as above
  }

  // Any thread.
  std::string metrics_text(metrics::TextFormat format) const {
    return metrics_.text(format, wall_offset_, clock_->now());
  }
  // What is wrong with the process; empty when it is well.
  std::string sickness() const;
  std::string unreadiness() const;
  const health::FlightRecorder& flight() const { return *flight_; }
  Duration wall_offset() const { return wall_offset_; }
  const Metrics& metrics() const { return metrics_; }
  LayerMetrics& layers() { return metrics_.layers; }
  comm::Standing standing() const { return standing_.load(std::memory_order_relaxed); }
  Instant now() const { return clock_->now(); }
  Stacks& stacks() { return stacks_; }
  // Stacks of the threads above the core. kUnsupported while ops begin: walking the stacks of
  // running threads is not safe, and a rank that makes progress has nothing to explain.
  Result<std::string> stack() const;

 private:
  void count_overlap(const comm::OpTicket& ticket, Instant now);

  Metrics metrics_;
  Stacks stacks_;
  std::unique_ptr<health::FlightRecorder> flight_;
  const Duration patience_;  // how long the driver may not run
  const Duration wall_offset_;
  const std::shared_ptr<const Clock> clock_;  // owners: the runtime and all that it made
  std::atomic<comm::Standing> standing_{comm::Standing::kAlone};
  std::atomic<std::int64_t> turned_{0};
  std::atomic<std::int64_t> began_{0};  // when the latest op began
};

}  // namespace holdfast::health

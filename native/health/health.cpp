#include "health/health.h"

#include <algorithm>
#include <cmath>

#include "comm/call/replicated.h"
#include "comm/transport/link.h"

namespace holdfast::health {
namespace {

// The driver turns at least this often when it has nothing to do; a busy machine may delay it.
constexpr Duration kShortestPatience = std::chrono::seconds(5);
constexpr int kPatienceBeats = 10;

// Stacks of a rank are given only when no op began for this long.
constexpr Duration kQuiet = std::chrono::seconds(1);

Duration wall_offset_of(const Clock& clock) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Duration>(wall) - clock.now().since_origin;
}

}  // namespace

Result<std::unique_ptr<Health>> Health::create(const HealthSettings& settings, MemberId self,
                                               const std::string& host,
                                               std::shared_ptr<const Clock> clock) {
  health::FlightSettings record;
  record.folder = settings.flight_dir;
  record.host = host;
  record.member = self;
  record.wall_offset = wall_offset_of(*clock);
  auto flight = health::FlightRecorder::create(record);
  if (!flight.is_ok()) return flight.status();
  return std::make_unique<Health>(std::move(flight).value(), settings.heartbeat, record.wall_offset,
                                  std::move(clock));
}

Health::Health(std::unique_ptr<health::FlightRecorder> flight, Duration heartbeat,
               Duration wall_offset, std::shared_ptr<const Clock> clock)
    : flight_(std::move(flight)),
      patience_(std::max(kShortestPatience, heartbeat * kPatienceBeats)),
      wall_offset_(wall_offset),
      clock_(std::move(clock)) {
  metrics_.rank.set(-1);
  turned(clock_->now());
}

void Health::on_op_begun(const ObservedOp& op, comm::OpTicket& ticket, Instant now) {
  ticket.started = now;
  if (ticket.enqueued == Instant{}) ticket.enqueued = now;
  ticket.group = op.group;
  ticket.sequence = op.sequence;
  ticket.collective = op.request.called_collective();
  ticket.bytes = comm::called_bytes(op.request);
  if (op.request.caller != nullptr) {
    bool is_new = false;
    ticket.caller = metrics_.callers.number_of(op.request.caller, &is_new);
    if (is_new) flight_->name_caller(ticket.caller, op.request.caller);
    metrics_.calls[ticket.caller].add(1);
  }
  ticket.number = flight_->begin(op, ticket);
  metrics_.begun.add(1);
  ticket.active_before_ns = metrics_.active.total_ns();
  ticket.exposed_before_ns = metrics_.exposed.total_ns();
  began_.store(now.since_origin.count(), std::memory_order_relaxed);  // relaxed: a value by itself
}

void Health::on_waited(const comm::OpTicket& ticket, std::span<const Rank> peers, Duration time) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count()));
  for (const Rank peer : peers) metrics_.peer_wait_ns[Metrics::peer_index(peer)].add(ns);
  flight_->set_waited(ticket.number, peers);
}

void Health::on_op_ended(const comm::OpTicket& ticket, Code code, bool repaired, Instant now) {
  flight_->end(ticket.number, code, repaired, now);
  metrics_.ended.add(1);
  count_overlap(ticket, now);
  if (code != Code::kOk) return metrics_.ops_failed[static_cast<std::size_t>(code)].add(1);
  const auto collective = static_cast<std::size_t>(ticket.collective);
  const auto path = static_cast<std::size_t>(ticket.path);
  metrics_.ops[collective][path].add(1);
  metrics_.op_bytes[collective][path].add(ticket.bytes);
  metrics_.op_duration[collective].record(
      {ticket.group.value, ticket.sequence.value, now - ticket.started, now});
  if (repaired) metrics_.repairs.add(1);
  if (ticket.encoded.frame_bytes == 0) return;
  Metrics::CodecMetrics& codec = metrics_.codecs[static_cast<std::size_t>(ticket.encoded.codec)];
  codec.raw.add(ticket.encoded.plain_bytes);
  codec.wire.add(ticket.encoded.frame_bytes);
}

void Health::count_overlap(const comm::OpTicket& ticket, Instant now) {
  const comm::Wait& wait = ticket.wait;
  if (!wait.known()) return;
  metrics_.active.add(ticket.started, now, ticket.active_before_ns);
  const Duration latest =
      wait.since == Instant{} ? Duration::zero() : now - std::max(wait.since, ticket.started);
  const Duration waited = std::min(wait.earlier + latest, now - ticket.started);
  // Waits that were given up are placed at the end of the op: only their length matters.
  if (waited > Duration::zero()) {
    metrics_.exposed.add({now.since_origin - waited}, now, ticket.exposed_before_ns);
  }
}

void Health::on_residual_left(compress::CodecId codec, double squares) {
  metrics_.codecs[static_cast<std::size_t>(codec)].residual_norm.set(std::sqrt(squares));
}

void Health::on_linked(Rank peer, comm::Link& link) {
  if (auto* meter = metrics_.link(peer, link.transport())) link.set_meter(meter);
}

void Health::on_view_begun(const ObservedView& view) {
  metrics_.epoch.set(view.epoch.value);
  metrics_.members.set(static_cast<std::int64_t>(view.members));
  metrics_.rank.set(view.self.value);
  flight_->set_rank(view.self);
  metrics_.joins.add(view.joined);
  if (view.lost > 0) {
    metrics_.recovery.record({0, view.epoch.value, view.stopped, clock_->now()});
  }
}

void Health::on_member_lost(comm::LossCause cause) {
  metrics_.losses[static_cast<std::size_t>(cause)].add(1);
}

std::string Health::sickness() const {
  const Instant turned{Duration(turned_.load(std::memory_order_relaxed))};
  const Duration silence = clock_->now() - turned;
  if (silence < patience_) return {};
  return "the runtime has not turned for " +
         metrics::number_text(std::chrono::duration<double>(silence).count()) + " s";
}

Result<std::string> Health::stack() const {
  const Instant began{Duration(began_.load(std::memory_order_relaxed))};
  if (clock_->now() - began < kQuiet) {
    return Status{Code::kUnsupported, "ops have begun within the last second: nothing hangs here"};
  }
  return stacks_.take();
}

std::string Health::unreadiness() const {
  if (std::string sick = sickness(); !sick.empty()) return sick;
  switch (standing_.load(std::memory_order_relaxed)) {
    case comm::Standing::kAlone: return "in no group yet";
    case comm::Standing::kMember: return {};
    case comm::Standing::kChanging: return "a change of view is under way";
    case comm::Standing::kVotedOut: return "voted out by the others";
    case comm::Standing::kEnded: return "the group has failed";
  }
  return {};
}

}  // namespace holdfast::health

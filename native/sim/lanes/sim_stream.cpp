#include "sim/lanes/sim_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace holdfast::sim {
namespace {

// How late a side may learn of a reset that it does hear of.
constexpr std::uint64_t kLatestWordMs = 2'000;

std::size_t place_of(int end) { return static_cast<std::size_t>(end); }

}  // namespace

SimConnection::SimConnection(StreamKeeper& keeper, const PathTerms& path, bool relayed)
    : keeper_(keeper),
      path_(path),
      relayed_(relayed),
      pipes_{BytePipe(0, path_, keeper.outages()), BytePipe(1, path_, keeper.outages())} {}

void SimConnection::end_for(int end, Instant at, int why) {
  if (at >= ends_[place_of(end)]) return;
  ends_[place_of(end)] = at;
  why_[place_of(end)] = why;
  keeper_.wake(end, at);
}

void SimConnection::cut() {
  static constexpr std::array kWhys = {ECONNRESET, EBADMSG, EPIPE, 0};
  Random& random = keeper_.random();
  const Instant now = keeper_.now();
  broken_ = true;
  for (const int end : {0, 1}) {
    pipes_[place_of(end)].settle(now);
    pipes_[place_of(end)].cut(random.below(pipes_[place_of(end)].unread() + 1));
  }
  for (const int end : {0, 1}) {
    const int why = kWhys.at(random.below(kWhys.size()));
    const auto how = random.below(4);
    if (how == 0) end_for(end, now, why);
    if (how == 1) end_for(end, now + path_.latency, why);
    if (how == 2) end_for(end, now + std::chrono::milliseconds(random.below(kLatestWordMs)), why);
    // Else when it says something.
  }
}

void SimConnection::replan() {
  for (const int end : {0, 1}) {
    pipes_[place_of(end)].replan(keeper_.now());
    keeper_.wake(end, keeper_.now());
  }
}

void SimConnection::answer_reset(int end) {
  const Instant there = keeper_.now() + path_.latency;
  const Instant back = there + path_.latency;
  const Outages& outages = keeper_.outages();
  const bool lost = outages.loses(end, number(), there) || outages.loses(1 - end, number(), back);
  if (!lost) end_for(end, back, ECONNRESET);
}

void SimConnection::open(int end) { opened_[place_of(end)] = keeper_.now(); }

ssize_t SimConnection::send(int end, std::span<const iovec> parts) {
  const Instant now = keeper_.now();
  if (ends_[place_of(end)] <= now && why_[place_of(end)] != 0) return errno = EPIPE, -1;
  BytePipe& pipe = pipes_[place_of(end)];
  const std::size_t count = pipe.write(now, parts, keeper_.random());
  if (broken_ || closed_[place_of(1 - end)]) answer_reset(end);
  if (count == 0) return waits_[place_of(end)] = true, errno = EAGAIN, -1;
  keeper_.wake(1 - end, pipe.next_arrival());
  return static_cast<ssize_t>(count);
}

ssize_t SimConnection::receive(int end, std::span<const iovec> parts) {
  const Instant now = keeper_.now();
  const std::size_t count = pipes_[place_of(1 - end)].read(now, parts);
  if (count > 0) return static_cast<ssize_t>(count);
  if (ends_[place_of(end)] > now) return errno = EAGAIN, -1;
  if (why_[place_of(end)] == 0) return 0;
  return errno = why_[place_of(end)], -1;
}

// What the other side had sent and nobody reads is answered with a reset, which may overtake the
// rest of what this side had sent.
void SimConnection::close(int end) {
  if (closed_[place_of(end)]) return;
  const Instant now = keeper_.now();
  closed_[place_of(end)] = true;
  keeper_.on_closed(end, number());
  if (closed_[place_of(1 - end)]) return;
  BytePipe& out = pipes_[place_of(end)];
  BytePipe& in = pipes_[place_of(1 - end)];
  out.settle(now);
  in.settle(now);
  const bool is_reset = in.unread() > 0 && keeper_.random().chance(50);
  if (is_reset) out.cut(keeper_.random().below(out.unread() + 1));
  const Instant heard = is_reset ? now + path_.latency : out.end_arrival(now);
  const bool lost = is_reset && keeper_.outages().loses(end, number(), heard);
  if (!lost && !broken_ && heard != kNever) end_for(1 - end, heard, is_reset ? ECONNRESET : 0);
  in.cut(0);
}

bool SimConnection::is_readable(int end) const {
  const Instant now = keeper_.now();
  return ends_[place_of(end)] <= now || pipes_[place_of(1 - end)].has_arrived(now);
}

bool SimConnection::is_writable(int end) {
  if (!waits_[place_of(end)]) return false;
  const Instant now = keeper_.now();
  const bool moved = pipes_[place_of(end)].has_room(now) || ends_[place_of(end)] <= now;
  if (moved) waits_[place_of(end)] = false;
  return moved;
}

Instant SimConnection::next_look(int end) const {
  if (closed_[place_of(end)]) return kNever;
  const Instant now = keeper_.now();
  Instant next = kNever;
  const Instant arrival = pipes_[place_of(1 - end)].next_arrival();
  if (arrival > now) next = arrival;
  if (ends_[place_of(end)] > now) next = std::min(next, ends_[place_of(end)]);
  const Instant answer = pipes_[place_of(end)].next_answer();
  if (waits_[place_of(end)] && answer > now) next = std::min(next, answer);
  return next;
}

void SimConnection::look(int end, TcpPath& path) {
  const Instant now = keeper_.now();
  BytePipe& out = pipes_[place_of(end)];
  BytePipe& in = pipes_[place_of(1 - end)];
  out.settle(now);
  in.settle(now);
  path.least_round_trip_ns = path.round_trip_ns = (2 * path_.latency).count();
  path.delivered = out.delivered();
  path.timeouts = out.timeouts(now);
  path.quiet_ns = (now - std::max({out.answered(), in.arrived(), opened_[place_of(end)]})).count();
}

void SimWatch::poll(std::vector<comm::LaneNews>& news) {
  news.clear();
  std::erase_if(lanes_, [this](const auto& entry) { return entry.second->is_closed(end_); });
  for (const auto& [lane, connection] : lanes_) {
    const comm::LaneNews now{lane, connection->is_readable(end_), connection->is_writable(end_)};
    if (now.readable || now.writable) news.push_back(now);
  }
}

}  // namespace holdfast::sim

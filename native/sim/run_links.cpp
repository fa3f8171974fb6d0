// The connections of a simulation: they are made, break, and are made again.
#include <algorithm>

#include "sim/run.h"

namespace holdfast::sim {
namespace {

// One world in so many has links that keep two or three early messages: senders run out of credit,
// and notices are forgotten.
constexpr std::uint64_t kPoorWorlds = 4;
constexpr comm::EarlyLimits kPoor{1024, 2};

}  // namespace

void Simulation::link(int a, int b) {
  std::unique_ptr<comm::Link> ends[2][2];
  const int count = scenario_.two_links ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    auto there = std::make_shared<Wire>();
    auto back = std::make_shared<Wire>();
    there->from = back->to = a;
    there->to = back->from = b;
    wires_[{a, b}].push_back(there);
    wires_[{b, a}].push_back(back);
    incoming_.resize(hosts_.size());
    incoming_[static_cast<std::size_t>(b)].push_back(there.get());
    incoming_[static_cast<std::size_t>(a)].push_back(back.get());
    ends[0][i] = std::make_unique<SimLink>(*this, there, back);
    ends[1][i] = std::make_unique<SimLink>(*this, back, there);
    if (scenario_.seed % kPoorWorlds != 0) continue;
    for (auto& side : ends) side[i]->session().limit_early(kPoor);
  }
  // A process that was refused before has called again.
  std::erase_if(refusals_, [&](const Refusal& refusal) {
    return refusal.from == a && refusal.to == host(b).process->id() &&
           refusal.word != Refusal::Word::kWitness;
  });
  host(a).process->add_peer(host(b).process->id(), std::move(ends[0][0]), std::move(ends[0][1]));
  host(b).process->add_peer(host(a).process->id(), std::move(ends[1][0]), std::move(ends[1][1]));
  wake(a, now_);
  wake(b, now_);
}

void Simulation::connect(int from, MemberId to) {
  const auto target = std::find_if(hosts_.begin(), hosts_.end(),
                                   [&](const Host& h) { return h.alive && h.process->id() == to; });
  if (target == hosts_.end()) return;
  const int b = target->process->number();
  if (host(from).process->has_peer(to) || !connecting_.insert(std::minmax(from, b)).second) return;
  wake(from, arrival(b, from));
}

// A connection that a fault has cut is made again when the fault ends; one that broke otherwise, at
// once.
void Simulation::mend(int from, MemberId to) {
  // The last process of this id: a coordinator that was started anew has the id of the one before.
  const auto target = std::find_if(hosts_.rbegin(), hosts_.rend(),
                                   [&](const Host& h) { return h.process->id() == to; });
  if (target == hosts_.rend()) return;
  const int other = target->process->number();
  if (!target->alive) return refuse(from, other);
  const auto is_cut = [&](int a, int b) {
    const auto way = wires_.find({a, b});
    return way != wires_.end() && way->second.back()->dead;
  };
  const bool closed = is_closed(from, other);
  if (!closed && (is_cut(from, other) || is_cut(other, from))) return;
  const auto how = closed ? SimEvent::Other::kRedial : SimEvent::Other::kRelink;
  events_.push({arrival(other, from), ++order_, from, -1, how, other});
}

// The other one may want it, too, and one connection is enough.
void Simulation::join(int from, MemberId to) {
  const auto target = std::find_if(hosts_.begin(), hosts_.end(),
                                   [&](const Host& h) { return h.process->id() == to; });
  if (target == hosts_.end()) return;
  const int other = target->process->number();
  if (!target->alive) return refuse(from, other);
  events_.push({arrival(other, from), ++order_, from, -1, SimEvent::Other::kRedial, other});
}

// The kernel of a process that has ended refuses a call to it, if no other process is at its
// address.
void Simulation::refuse(int from, int to) {
  if (host(to).vanished) return;
  const bool replaced = std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& h) {
    return h.alive && h.process->id() == host(to).process->id();
  });
  if (replaced) return;
  const Instant at = arrival(to, from);
  const auto word = share_host(from, to) ? Refusal::Word::kKernel : Refusal::Word::kPacket;
  refusals_.push_back({from, host(to).process->id(), at, word});
  wake(from, at);
}

void Simulation::relink(int a, int b) {
  if (host(a).alive && host(b).alive) return link(a, b);
  if (host(a).alive) refuse(a, b);
  if (host(b).alive) refuse(b, a);
}

}  // namespace holdfast::sim

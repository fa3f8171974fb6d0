// Flat: every rank sends what others need in one hop and folds what arrives in rank order. It takes
// the latency of one message, but bytes grow with the ranks, so it is for small messages. In shared
// memory of one host the flat exchange (engine/flat_exchange.h) does the same fold without
// messages. Source: the one-hop exchange of Chan et al., "Collective communication: theory,
// practice, and experience", CCPE 2007, section 4 (minimum-spanning of depth one).
//
// Per rank, n ranks, S bytes: all_reduce n-1 messages, (n-1) S sent, (n-1) S reduced, and so a scan
// at its first and its last rank; all_gather and reduce_scatter (n-1) S/n; broadcast, gather,
// scatter and reduce n-1 messages at the root, one elsewhere. Copies: arrivals of a fold wait in
// scratch unless they are the last operand.
#include "base/check.h"
#include "base/planted.h"
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// Receives the others' contributions to `chunk` and folds them in rank order: ((0 + 1) + 2) + ...
void fold(Builder& b, const BuildSpec& spec, int chunk) {
  const Slot own = Builder::input(chunk);
  if (spec.size == 1) return b.copy(Builder::output(chunk), own);
  Slot sum{};
  for (int r = 0; r < spec.size; ++r) {
    Slot operand = own;
    if (r != spec.rank.value) {
      operand = b.scratch(own);
      b.recv(r, operand);
    }
    if (r == 0) {
      sum = operand;
    } else if (r == spec.size - 1) {
      b.reduce_final(Builder::output(chunk), sum, operand);
    } else {
      const bool spills = is_planted(Planted::kPartialSums);
      const Slot next = spills ? Builder::output(chunk) : b.scratch(own);
      b.reduce(next, sum, operand);
      sum = next;
    }
  }
}

template <class Action>
void for_each_peer(const BuildSpec& spec, Action action) {
  // Each rank starts with the rank after it, which spreads the load: otherwise all would send to
  // rank 0 first.
  for (int i = 1; i < spec.size; ++i) action((spec.rank.value + i) % spec.size);
}

// Ranks in front of this one send it their inputs, and it sends its own to all behind it.
void scan_from_all(Builder& b, const BuildSpec& spec) {
  const int own = spec.rank.value;
  const Slot input = Builder::input(0);
  const Slot output = Builder::output(0);
  const bool inclusive = spec.collective == Collective::kScan;
  for (int peer = own + 1; peer < spec.size; ++peer) b.send(peer, input);
  if (own == 0) {
    if (inclusive) b.copy(output, input);
    return;
  }
  const int operands = own + (inclusive ? 1 : 0);
  if (operands == 1) return b.recv(0, output);
  Slot sum{};
  for (int r = 0; r < operands; ++r) {
    const Slot operand = r == own ? input : b.scratch(input);
    if (r != own) b.recv(r, operand);
    const Slot before = sum;
    sum = r == 0 ? operand : r + 1 == operands ? output : b.scratch(input);
    if (r > 0) b.reduce(sum, before, operand);
  }
}

void gather_to(Builder& b, const BuildSpec& spec) {
  const int own = spec.rank.value;
  if (spec.rank != spec.root) return b.send(spec.root.value, Builder::input(own));
  for_each_peer(spec, [&](int peer) { b.recv(peer, Builder::output(peer)); });
  b.copy(Builder::output(own), Builder::input(own));
}

void scatter_from(Builder& b, const BuildSpec& spec) {
  const int own = spec.rank.value;
  if (spec.rank != spec.root) return b.recv(spec.root.value, Builder::output(own));
  for_each_peer(spec, [&](int peer) { b.send(peer, Builder::input(peer)); });
  b.copy(Builder::output(own), Builder::input(own));
}

void broadcast_from(Builder& b, const BuildSpec& spec) {
  if (spec.rank != spec.root) return b.recv(spec.root.value, Builder::output(0));
  for_each_peer(spec, [&](int peer) { b.send(peer, Builder::input(0)); });
  b.copy(Builder::output(0), Builder::input(0));
}

}  // namespace

Schedule build_flat(const BuildSpec& spec) {
  const int own = spec.rank.value;
  const bool one_block =
      spec.collective == Collective::kAllReduce || spec.collective == Collective::kReduce ||
      spec.collective == Collective::kScan || spec.collective == Collective::kExscan ||
      spec.collective == Collective::kBroadcast;
  Builder b(spec, one_block ? 1 : static_cast<std::uint32_t>(spec.size));
  switch (spec.collective) {
    case Collective::kAllReduce:
      for_each_peer(spec, [&](int peer) { b.send(peer, Builder::input(0)); });
      fold(b, spec, 0);
      break;
    case Collective::kReduce:
      if (spec.rank == spec.root) {
        fold(b, spec, 0);
      } else {
        b.send(spec.root.value, Builder::input(0));
      }
      break;
    case Collective::kReduceScatter:
      for_each_peer(spec, [&](int peer) { b.send(peer, Builder::input(peer)); });
      fold(b, spec, own);
      break;
    case Collective::kAllGather:
      b.copy(Builder::output(own), Builder::input(own));
      for_each_peer(spec, [&](int peer) { b.send(peer, Builder::input(own)); });
      for_each_peer(spec, [&](int peer) { b.recv(peer, Builder::output(peer)); });
      break;
    case Collective::kBroadcast: broadcast_from(b, spec); break;
    case Collective::kScan:
    case Collective::kExscan: scan_from_all(b, spec); break;
    case Collective::kGather: gather_to(b, spec); break;
    case Collective::kScatter: scatter_from(b, spec); break;
    default: CHECK(false);
  }
  return std::move(b).finish();
}

namespace {

// Messages to all ranks at once are on their way together, but each further one costs its sender
// half a latency.
constexpr double messages_to_all(int size) { return 1 + (size - 2) / 2.0; }

}  // namespace

topology::CostTerms cost_flat_all_reduce(int size, std::uint64_t bytes) {
  const double moved = (size - 1) * static_cast<double>(bytes);
  return {messages_to_all(size), moved, moved};
}

topology::CostTerms cost_flat_block_exchange(int size, std::uint64_t bytes) {
  return {1, (size - 1.0) / size * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_flat_reduce_scatter(int size, std::uint64_t bytes) {
  const double moved = (size - 1.0) / size * static_cast<double>(bytes);
  return {1, moved, moved};
}

topology::CostTerms cost_flat_broadcast(int size, std::uint64_t bytes) {
  return {messages_to_all(size), (size - 1) * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_flat_reduce(int size, std::uint64_t bytes) {
  const double moved = (size - 1) * static_cast<double>(bytes);
  return {1, moved, moved};
}

topology::CostTerms cost_flat_scan(int size, std::uint64_t bytes) {
  const double moved = (size - 1) * static_cast<double>(bytes);
  return {messages_to_all(size), moved, moved};
}

}  // namespace holdfast::comm

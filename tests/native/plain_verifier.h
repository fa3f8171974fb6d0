// A verifier that is as simple as can be, for tests to compare the other one with: sets of
// contributions are lists, every pair of steps is looked at for races, and ranks take turns until
// nothing moves. It shares no code with the other one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "comm/schedule/fusion.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm::testing {

// One rank's input chunk.
struct PlainAtom {
  std::uint32_t rank;
  std::uint32_t chunk;
  friend auto operator<=>(const PlainAtom&, const PlainAtom&) = default;
};

// A sorted set of atoms, without doubles: the verifier refuses to add an atom twice.
class PlainContribution {
 public:
  PlainContribution() = default;
  explicit PlainContribution(PlainAtom atom) : atoms_{atom} {}

  bool empty() const { return atoms_.empty(); }
  const std::vector<PlainAtom>& atoms() const { return atoms_; }
  friend bool operator==(const PlainContribution&, const PlainContribution&) = default;

  // An atom that both contributions have, or nullptr.
  static const PlainAtom* common(const PlainContribution& a, const PlainContribution& b) {
    auto i = a.atoms_.begin();
    auto j = b.atoms_.begin();
    while (i != a.atoms_.end() && j != b.atoms_.end()) {
      if (*i == *j) return &*i;
      if (*i < *j)
        ++i;
      else
        ++j;
    }
    return nullptr;
  }

  static PlainContribution together(const PlainContribution& a, const PlainContribution& b) {
    PlainContribution sum;
    std::set_union(a.atoms_.begin(), a.atoms_.end(), b.atoms_.begin(), b.atoms_.end(),
                   std::back_inserter(sum.atoms_));
    return sum;
  }

 private:
  std::vector<PlainAtom> atoms_;
};

inline bool reads_slot(const Step& step, const Slot& slot) {
  switch (step.kind) {
    case StepKind::kRecv: return false;
    case StepKind::kReduce: return step.lhs == slot || step.rhs == slot;
    default: return step.lhs == slot;
  }
}

inline bool writes_slot(const Step& step, const Slot& slot) {
  return step.kind != StepKind::kSend && step.dst == slot;
}

inline bool waits_for_a_send(const Schedule& schedule, const Step& step) {
  return std::any_of(step.deps.begin(), step.deps.end(), [&](const Dependency& d) {
    return schedule.steps[d.step].kind == StepKind::kSend;
  });
}

inline std::vector<ScratchUse> plain_scratch_uses(const Schedule& schedule) {
  std::vector<ScratchUse> uses(schedule.scratch.size());
  for (std::uint32_t chunk = 0; chunk < uses.size(); ++chunk) {
    const Slot slot{Space::kScratch, chunk};
    ScratchUse& use = uses[chunk];
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const int step = static_cast<int>(i);
      if (writes_slot(schedule.steps[i], slot)) use.producer = step, ++use.producers;
      if (reads_slot(schedule.steps[i], slot)) use.consumer = step, ++use.consumers;
    }
  }
  return uses;
}

inline std::vector<int> plain_fusions(const Schedule& schedule) {
  std::vector<int> fused(schedule.steps.size(), -1);
  const std::vector<ScratchUse> uses = plain_scratch_uses(schedule);
  for (std::size_t chunk = 0; chunk < uses.size(); ++chunk) {
    const ScratchUse& use = uses[chunk];
    if (!use.passes_once() || schedule.scratch[chunk].form != Form::kPlain) continue;
    const auto producer = static_cast<std::size_t>(use.producer);
    const Step& consumer = schedule.steps[static_cast<std::size_t>(use.consumer)];
    if (schedule.steps[producer].kind != StepKind::kRecv) continue;
    if (consumer.kind != StepKind::kReduce || consumer.lhs == consumer.rhs) continue;
    const bool taken = std::find(fused.begin(), fused.end(), use.consumer) != fused.end();
    if (!taken && !waits_for_a_send(schedule, consumer)) fused[producer] = use.consumer;
  }
  return fused;
}

inline bool touches(const Step& step, const Slot& slot, bool in_place) {
  if (reads(step) && may_alias(step.lhs, slot, in_place)) return true;
  if (step.kind == StepKind::kReduce && may_alias(step.rhs, slot, in_place)) return true;
  return writes(step) && may_alias(step.dst, slot, in_place);
}

inline bool conflict(const Step& a, const Step& b, bool in_place) {
  return (writes(a) && touches(b, a.dst, in_place)) || (writes(b) && touches(a, b.dst, in_place));
}

// The order of steps: bit j of row i says that step i comes after step j.
class PlainOrder {
 public:
  explicit PlainOrder(const Schedule& schedule) : words_((schedule.steps.size() + 63) / 64) {
    rows_.resize(schedule.steps.size(), std::vector<std::uint64_t>(words_));
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      for (const Dependency& d : schedule.steps[i].deps) {
        for (std::size_t w = 0; w < words_; ++w) rows_[i][w] |= rows_[d.step][w];
        rows_[i][d.step / 64] |= 1ULL << (d.step % 64);
      }
    }
  }
  bool after(std::size_t i, std::size_t j) const { return (rows_[i][j / 64] >> (j % 64) & 1) != 0; }

 private:
  std::size_t words_;
  std::vector<std::vector<std::uint64_t>> rows_;
};

inline Status race(const Schedule& schedule, std::size_t i, std::size_t j) {
  return {Code::kProtocolError, "rank " + std::to_string(schedule.rank.value) + ": steps " +
                                    std::to_string(j) + " and " + std::to_string(i) +
                                    " race for one chunk"};
}

inline Status plain_races(const Schedule& schedule) {
  const auto& steps = schedule.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Dependency& d : steps[i].deps) {
      if (d.step >= i) {
        return {Code::kProtocolError, "rank " + std::to_string(schedule.rank.value) + ": step " +
                                          std::to_string(i) + " depends on a later step"};
      }
    }
  }
  const PlainOrder order(schedule);
  const bool in_place = may_be_in_place(schedule.collective);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (conflict(steps[i], steps[j], in_place) && !order.after(i, j)) return race(schedule, i, j);
    }
  }
  return Status::ok();
}

inline std::string at(int rank, std::size_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
}

inline Status broken(std::string what) { return {Code::kProtocolError, std::move(what)}; }

// One rank's chunks and how far its steps have come.
struct PlainRank {
  const Schedule* schedule = nullptr;
  std::vector<PlainContribution> input;
  std::vector<PlainContribution> output;
  std::vector<PlainContribution> scratch;
  std::vector<bool> done;
  std::vector<int> fused;  // plain_fusions()
  std::size_t left = 0;

  std::vector<PlainContribution>& space(Space s) {
    return s == Space::kInput ? input : s == Space::kOutput ? output : scratch;
  }
};

// The rank whose block has the chunk, where every rank has a block.
inline std::uint32_t block_of(const Schedule& s, std::uint32_t chunk) { return chunk / s.pieces; }

inline bool input_exists(const Schedule& s, std::uint32_t chunk) {
  if (!input_counts(s.collective, s.rank == s.root)) return false;
  const auto own = static_cast<std::uint32_t>(s.rank.value);
  return !has_own_input(s.collective) || block_of(s, chunk) == own;
}

// Checks the forms of the step's slots; returns what is wrong, or an empty string.
inline std::string check_forms(const Schedule& s, const Step& step) {
  const Form from = step.kind == StepKind::kRecv ? Form::kPlain : form_of(s, step.lhs);
  const Form to = step.kind == StepKind::kSend ? Form::kPlain : form_of(s, step.dst);
  switch (step.kind) {
    case StepKind::kEncode:
      return to == Form::kFrame && from != Form::kFrame ? "" : "encodes what cannot be";
    case StepKind::kDecode:
      return from == Form::kFrame && to != Form::kFrame ? "" : "decodes what cannot be";
    case StepKind::kCopy:
      return from == to || (from == Form::kWide && to == Form::kPlain) ? "" : "copies to a form";
    case StepKind::kReduce: {
      const Form right = form_of(s, step.rhs);
      const bool plain = from == Form::kPlain && right == from && to == from;
      const bool wide = from == Form::kWide && right == Form::kFrame && step.dst == step.lhs;
      return plain || wide ? "" : "reduces what cannot be";
    }
    default: return from == Form::kWide || to == Form::kWide ? "moves a wide chunk" : "";
  }
}

class PlainProof {
 public:
  explicit PlainProof(const std::vector<Schedule>& schedules) {
    for (const Schedule& s : schedules) {
      PlainRank state;
      state.schedule = &s;
      state.input.resize(s.chunks);
      state.output.resize(s.chunks);
      state.scratch.resize(s.scratch.size());
      state.done.resize(s.steps.size());
      state.fused = plain_fusions(s);
      state.left = s.steps.size();
      for (std::uint32_t c = 0; c < s.chunks; ++c) {
        if (!input_exists(s, c)) continue;
        state.input[c] = PlainContribution(PlainAtom{static_cast<std::uint32_t>(s.rank.value), c});
      }
      ranks_.push_back(std::move(state));
    }
  }

  Status run() {
    TRY(check_shapes());
    TRY(check_pairing());
    for (const PlainRank& r : ranks_) TRY(plain_races(*r.schedule));
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const auto advanced = advance(r);
        if (!advanced.is_ok()) return advanced.status();
        moved = moved || advanced.value();
      }
    }
    TRY(check_ended());
    for (std::size_t r = 0; r < ranks_.size(); ++r) TRY(check_result(r));
    return Status::ok();
  }

 private:
  using OrdinalKey = std::tuple<int, int, std::uint32_t>;  // from, to, ordinal

  Status check_shapes() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Schedule& s = *ranks_[r].schedule;
      const bool same =
          s.collective == ranks_[0].schedule->collective && s.root == ranks_[0].schedule->root &&
          s.chunks == ranks_[0].schedule->chunks && s.pieces == ranks_[0].schedule->pieces &&
          s.shares == ranks_[0].schedule->shares;
      if (!same || s.rank.value != static_cast<int>(r) ||
          s.size != static_cast<int>(ranks_.size())) {
        return broken("rank " + std::to_string(r) + "'s schedule is of another collective");
      }
      bool fits = s.shares.size() == s.chunks;
      const std::uint32_t run = has_blocks_by_rank(s.collective) ? s.pieces : s.chunks;
      for (std::uint32_t c = 0; fits && c < s.chunks; c += run) {
        std::uint64_t sum = 0;
        for (std::uint32_t i = c; i < c + run && i < s.chunks; ++i) sum += s.shares[i];
        fits = sum > 0 && c + run <= s.chunks;
      }
      if (!s.shares.empty() && !fits) {
        return broken("rank " + std::to_string(r) + "'s shares are not one for each chunk");
      }
      for (std::size_t i = 0; i < s.steps.size(); ++i) TRY(check_step(s, i));
    }
    return Status::ok();
  }

  Status check_step(const Schedule& s, std::size_t i) {
    const Step& step = s.steps[i];
    const auto exists = [&](const Slot& slot) {
      return slot.chunk < (slot.space == Space::kScratch ? s.scratch.size() : s.chunks);
    };
    const bool message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
    const bool peer_fits = step.peer.value >= 0 && step.peer.value < s.size;
    if (message && (!peer_fits || step.peer == s.rank)) {
      return broken(at(s.rank.value, i) + "no such peer");
    }
    const bool slots = (step.kind == StepKind::kRecv || exists(step.lhs)) &&
                       (step.kind != StepKind::kReduce || exists(step.rhs)) &&
                       (step.kind == StepKind::kSend || exists(step.dst));
    if (!slots) return broken(at(s.rank.value, i) + "no such chunk");
    if (step.kind != StepKind::kSend && step.dst.space == Space::kInput) {
      return broken(at(s.rank.value, i) + "input is written");
    }
    const std::string wrong = check_forms(s, step);
    return wrong.empty() ? Status::ok() : broken(at(s.rank.value, i) + wrong);
  }

  // Checks that every message has one send and one receive.
  Status check_pairing() {
    for (const PlainRank& r : ranks_) {
      const int self = r.schedule->rank.value;
      for (std::size_t i = 0; i < r.schedule->steps.size(); ++i) {
        const Step& step = r.schedule->steps[i];
        if (step.kind == StepKind::kRecv) {
          const OrdinalKey key{step.peer.value, self, step.ordinal};
          if (!receives_.emplace(key, i).second) return broken(at(self, i) + "received twice");
        }
        if (step.kind == StepKind::kSend) {
          const OrdinalKey key{self, step.peer.value, step.ordinal};
          if (!sends_.emplace(key, i).second) return broken(at(self, i) + "sent twice");
        }
      }
    }
    for (const auto& [key, step] : sends_) {
      if (!receives_.contains(key)) return broken(at(std::get<0>(key), step) + "nobody receives");
    }
    for (const auto& [key, step] : receives_) {
      const auto sent = sends_.find(key);
      if (sent == sends_.end()) return broken(at(std::get<1>(key), step) + "nobody sends");
      const Schedule& from = *ranks_[static_cast<std::size_t>(std::get<0>(key))].schedule;
      const Schedule& to = *ranks_[static_cast<std::size_t>(std::get<1>(key))].schedule;
      if (form_of(from, from.steps[sent->second].lhs) != form_of(to, to.steps[step].dst)) {
        return broken(at(std::get<1>(key), step) + "receives another form than is sent");
      }
    }
    return Status::ok();
  }

  bool ready(const PlainRank& r, std::size_t i, std::size_t but = SIZE_MAX) const {
    const auto& deps = r.schedule->steps[i].deps;
    return std::all_of(deps.begin(), deps.end(),
                       [&](const Dependency& d) { return d.step == but || r.done[d.step]; });
  }

  // Whether receive i is posted. A fused one is posted only when its reduction waits for nothing
  // else.
  bool posted(const PlainRank& r, std::size_t i) const {
    if (!ready(r, i)) return false;
    return r.fused[i] < 0 || ready(r, static_cast<std::size_t>(r.fused[i]), i);
  }

  Result<bool> advance(std::size_t rank) {
    PlainRank& r = ranks_[rank];
    bool moved = false;
    for (std::size_t i = 0; i < r.done.size(); ++i) {
      const Step& step = r.schedule->steps[i];
      // A receive completes together with its send, below.
      if (r.done[i] || step.kind == StepKind::kRecv || !ready(r, i)) continue;
      if (step.kind == StepKind::kSend) {
        const OrdinalKey key{static_cast<int>(rank), step.peer.value, step.ordinal};
        PlainRank& to = ranks_[static_cast<std::size_t>(step.peer.value)];
        const std::size_t receive = receives_.at(key);
        if (!posted(to, receive)) continue;
        const PlainContribution value = r.space(step.lhs.space)[step.lhs.chunk];
        TRY(write(to, receive, value));
        finish(to, receive);
      } else {
        TRY(compute(r, i));
      }
      finish(r, i);
      moved = true;
    }
    return moved;
  }

  static void finish(PlainRank& r, std::size_t i) {
    r.done[i] = true;
    --r.left;
  }

  Status compute(PlainRank& r, std::size_t i) {
    const Step& step = r.schedule->steps[i];
    const PlainContribution& left = r.space(step.lhs.space)[step.lhs.chunk];
    if (step.kind != StepKind::kReduce) return write(r, i, left);
    const PlainContribution& right = r.space(step.rhs.space)[step.rhs.chunk];
    if (left.empty() || right.empty()) {
      return broken(at(r.schedule->rank.value, i) + "reduces a chunk that holds nothing");
    }
    const bool barrier = r.schedule->collective == Collective::kBarrier;
    if (const PlainAtom* twice = PlainContribution::common(left, right);
        twice != nullptr && !barrier) {
      return broken(at(r.schedule->rank.value, i) + "counts rank " + std::to_string(twice->rank) +
                    "'s chunk " + std::to_string(twice->chunk) + " twice");
    }
    return write(r, i, PlainContribution::together(left, right));
  }

  Status write(PlainRank& r, std::size_t i, const PlainContribution& value) {
    const Step& step = r.schedule->steps[i];
    if (value.empty()) {
      return broken(at(r.schedule->rank.value, i) + "moves a chunk that holds nothing");
    }
    if (step.dst.space == Space::kOutput && value != expected(*r.schedule, step.dst.chunk)) {
      return broken(at(r.schedule->rank.value, i) + "writes a value into output that is not final");
    }
    const bool single = r.schedule->collective == Collective::kBarrier || ranks_.size() == 1;
    if (step.kind == StepKind::kReduce && !single && step.final != is_final(r, step, value)) {
      return broken(at(r.schedule->rank.value, i) + "a final reduction is the last of its chunk");
    }
    r.space(step.dst.space)[step.dst.chunk] = value;
    return Status::ok();
  }

  // Whether a reduction is the last one of its chunk, into output or into the sum that becomes the
  // output. A scan has no averages, and no such reduction.
  bool is_final(const PlainRank& r, const Step& step, const PlainContribution& value) const {
    const Schedule& s = *r.schedule;
    if (is_scan(s.collective)) return false;
    const bool scratch = step.dst.space == Space::kScratch;
    return value == everybody(scratch ? s.scratch[step.dst.chunk].like.chunk : step.dst.chunk);
  }

  // What the output chunk must hold in the end; empty: the rank has no such chunk.
  PlainContribution expected(const Schedule& s, std::uint32_t chunk) const {
    const auto own = static_cast<std::uint32_t>(s.rank.value);
    const auto root = static_cast<std::uint32_t>(s.root.value);
    const std::uint32_t block = block_of(s, chunk);
    switch (s.collective) {
      case Collective::kAllReduce:
      case Collective::kBarrier: return everybody(chunk);
      case Collective::kReduceScatter: return block == own ? everybody(chunk) : PlainContribution{};
      case Collective::kReduce: return own == root ? everybody(chunk) : PlainContribution{};
      case Collective::kAllGather: return PlainContribution(PlainAtom{block, chunk});
      case Collective::kAllToAll:
        return PlainContribution(PlainAtom{block, own * s.pieces + chunk % s.pieces});
      case Collective::kBroadcast: return PlainContribution(PlainAtom{root, chunk});
      case Collective::kGather:
        return own == root ? PlainContribution(PlainAtom{block, chunk}) : PlainContribution{};
      case Collective::kScatter:
        return block == own ? PlainContribution(PlainAtom{root, chunk}) : PlainContribution{};
      case Collective::kScan: return first_ranks(own + 1, chunk);
      case Collective::kExscan: return first_ranks(own, chunk);
      default: return {};
    }
  }

  PlainContribution everybody(std::uint32_t chunk) const {
    return first_ranks(static_cast<std::uint32_t>(ranks_.size()), chunk);
  }

  static PlainContribution first_ranks(std::uint32_t count, std::uint32_t chunk) {
    PlainContribution all;
    for (std::uint32_t r = 0; r < count; ++r) {
      all = PlainContribution::together(all, PlainContribution(PlainAtom{r, chunk}));
    }
    return all;
  }

  Status check_ended() {
    for (const PlainRank& r : ranks_) {
      if (r.left == 0) continue;
      const auto stuck = std::find(r.done.begin(), r.done.end(), false) - r.done.begin();
      return broken(at(r.schedule->rank.value, static_cast<std::size_t>(stuck)) + "deadlock");
    }
    return Status::ok();
  }

  Status check_result(std::size_t rank) {
    const Schedule& s = *ranks_[rank].schedule;
    for (std::uint32_t c = 0; c < s.chunks; ++c) {
      if (ranks_[rank].output[c] == expected(s, c)) continue;
      return broken("rank " + std::to_string(rank) + ": output chunk " + std::to_string(c) +
                    " does not hold what " + std::string(collective_name(s.collective)) +
                    " promises");
    }
    return Status::ok();
  }

  std::vector<PlainRank> ranks_;
  std::map<OrdinalKey, std::size_t> sends_;
  std::map<OrdinalKey, std::size_t> receives_;
};

inline Status plain_verify(const std::vector<Schedule>& schedules) {
  if (schedules.empty()) return broken("no schedules");
  return PlainProof(schedules).run();
}

}  // namespace holdfast::comm::testing

#include "comm/schedule/verifier.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "comm/schedule/contribution.h"
#include "comm/schedule/fusion.h"
#include "comm/schedule/races.h"

namespace holdfast::comm {
namespace {

std::string at(int rank, std::size_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
}

Status broken(std::string what) { return {Code::kProtocolError, std::move(what)}; }

// One rank's chunks and how far its steps have come.
struct SymbolicRank {
  const Schedule* schedule = nullptr;
  std::vector<Contribution> input;
  std::vector<Contribution> output;
  std::vector<Contribution> scratch;
  std::vector<bool> done;
  std::vector<int> fused;  // find_fusions()
  std::size_t left = 0;

  std::vector<Contribution>& space(Space s) {
    return s == Space::kInput ? input : s == Space::kOutput ? output : scratch;
  }
};

// The rank whose block has the chunk, where every rank has a block.
std::uint32_t block_of(const Schedule& s, std::uint32_t chunk) { return chunk / s.pieces; }

bool input_exists(const Schedule& s, std::uint32_t chunk) {
  if (!input_counts(s.collective, s.rank == s.root)) return false;
  const auto own = static_cast<std::uint32_t>(s.rank.value);
  return !has_own_input(s.collective) || block_of(s, chunk) == own;
}

// Whether the shares, if there are any, are one for each chunk, and no block's are all zero.
bool shares_fit(const Schedule& s) {
  if (s.shares.empty()) return true;
  if (s.shares.size() != s.chunks) return false;
  const std::size_t run = has_blocks_by_rank(s.collective) ? s.pieces : s.chunks;
  for (std::size_t first = 0; first < s.chunks; first += run) {
    const auto begin = s.shares.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(run);
    if (std::all_of(begin, end, [](auto share) { return share == 0; })) return false;
  }
  return true;
}

// Checks the forms of the step's slots; returns what is wrong, or an empty string.
std::string check_forms(const Schedule& s, const Step& step) {
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

class Proof {
 public:
  explicit Proof(const std::vector<Schedule>& schedules) {
    for (const Schedule& s : schedules) {
      SymbolicRank state;
      state.schedule = &s;
      state.input.resize(s.chunks);
      state.output.resize(s.chunks);
      state.scratch.resize(s.scratch.size());
      state.done.resize(s.steps.size());
      state.fused = find_fusions(s);
      state.left = s.steps.size();
      for (std::uint32_t c = 0; c < s.chunks; ++c) {
        if (!input_exists(s, c)) continue;
        state.input[c] = Contribution(Atom{static_cast<std::uint32_t>(s.rank.value), c});
      }
      ranks_.push_back(std::move(state));
    }
  }

  Status run() {
    TRY(check_shapes());
    TRY(check_pairing());
    for (const SymbolicRank& r : ranks_) TRY(check_races(*r.schedule));
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
      if (!shares_fit(s)) {
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
    for (const SymbolicRank& r : ranks_) {
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

  bool ready(const SymbolicRank& r, std::size_t i, std::size_t but = SIZE_MAX) const {
    const auto& deps = r.schedule->steps[i].deps;
    return std::all_of(deps.begin(), deps.end(),
                       [&](const Dependency& d) { return d.step == but || r.done[d.step]; });
  }

  // Whether receive i is posted. A fused one is posted only when its reduction waits for nothing
  // else.
  bool posted(const SymbolicRank& r, std::size_t i) const {
    if (!ready(r, i)) return false;
    return r.fused[i] < 0 || ready(r, static_cast<std::size_t>(r.fused[i]), i);
  }

  Result<bool> advance(std::size_t rank) {
    SymbolicRank& r = ranks_[rank];
    bool moved = false;
    for (std::size_t i = 0; i < r.done.size(); ++i) {
      const Step& step = r.schedule->steps[i];
      // A receive completes together with its send, below.
      if (r.done[i] || step.kind == StepKind::kRecv || !ready(r, i)) continue;
      if (step.kind == StepKind::kSend) {
        const OrdinalKey key{static_cast<int>(rank), step.peer.value, step.ordinal};
        SymbolicRank& to = ranks_[static_cast<std::size_t>(step.peer.value)];
        const std::size_t receive = receives_.at(key);
        if (!posted(to, receive)) continue;
        const Contribution value = r.space(step.lhs.space)[step.lhs.chunk];
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

  static void finish(SymbolicRank& r, std::size_t i) {
    r.done[i] = true;
    --r.left;
  }

  Status compute(SymbolicRank& r, std::size_t i) {
    const Step& step = r.schedule->steps[i];
    const Contribution& left = r.space(step.lhs.space)[step.lhs.chunk];
    if (step.kind != StepKind::kReduce) return write(r, i, left);
    const Contribution& right = r.space(step.rhs.space)[step.rhs.chunk];
    if (left.empty() || right.empty()) {
      return broken(at(r.schedule->rank.value, i) + "reduces a chunk that holds nothing");
    }
    const bool barrier = r.schedule->collective == Collective::kBarrier;
    if (const Atom* twice = Contribution::common(left, right); twice != nullptr && !barrier) {
      return broken(at(r.schedule->rank.value, i) + "counts rank " + std::to_string(twice->rank) +
                    "'s chunk " + std::to_string(twice->chunk) + " twice");
    }
    return write(r, i, Contribution::together(left, right));
  }

  Status write(SymbolicRank& r, std::size_t i, const Contribution& value) {
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
  bool is_final(const SymbolicRank& r, const Step& step, const Contribution& value) const {
    const Schedule& s = *r.schedule;
    if (is_scan(s.collective)) return false;
    const bool scratch = step.dst.space == Space::kScratch;
    return value == everybody(scratch ? s.scratch[step.dst.chunk].like.chunk : step.dst.chunk);
  }

  // What the output chunk must hold in the end; empty: the rank has no such chunk.
  Contribution expected(const Schedule& s, std::uint32_t chunk) const {
    const auto own = static_cast<std::uint32_t>(s.rank.value);
    const auto root = static_cast<std::uint32_t>(s.root.value);
    const std::uint32_t block = block_of(s, chunk);
    switch (s.collective) {
      case Collective::kAllReduce:
      case Collective::kBarrier: return everybody(chunk);
      case Collective::kReduceScatter: return block == own ? everybody(chunk) : Contribution{};
      case Collective::kReduce: return own == root ? everybody(chunk) : Contribution{};
      case Collective::kAllGather: return Contribution(Atom{block, chunk});
      case Collective::kAllToAll:
        return Contribution(Atom{block, own * s.pieces + chunk % s.pieces});
      case Collective::kBroadcast: return Contribution(Atom{root, chunk});
      case Collective::kGather:
        return own == root ? Contribution(Atom{block, chunk}) : Contribution{};
      case Collective::kScatter:
        return block == own ? Contribution(Atom{root, chunk}) : Contribution{};
      case Collective::kScan: return first_ranks(own + 1, chunk);
      case Collective::kExscan: return first_ranks(own, chunk);
      default: return {};
    }
  }

  Contribution everybody(std::uint32_t chunk) const {
    return first_ranks(static_cast<std::uint32_t>(ranks_.size()), chunk);
  }

  static Contribution first_ranks(std::uint32_t count, std::uint32_t chunk) {
    Contribution all;
    for (std::uint32_t r = 0; r < count; ++r) {
      all = Contribution::together(all, Contribution(Atom{r, chunk}));
    }
    return all;
  }

  Status check_ended() {
    for (const SymbolicRank& r : ranks_) {
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

  std::vector<SymbolicRank> ranks_;
  std::map<OrdinalKey, std::size_t> sends_;
  std::map<OrdinalKey, std::size_t> receives_;
};

}  // namespace

Status verify(const std::vector<Schedule>& schedules) {
  if (schedules.empty()) return broken("no schedules");
  return Proof(schedules).run();
}

}  // namespace holdfast::comm

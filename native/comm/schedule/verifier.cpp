#include "comm/schedule/verifier.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "comm/schedule/contributions.h"
#include "comm/schedule/fusion.h"
#include "comm/schedule/pairing.h"
#include "comm/schedule/races.h"

namespace holdfast::comm {
namespace {

std::string at(int rank, std::size_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
}

Status broken(std::string what) { return {Code::kProtocolError, std::move(what)}; }

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
  if (run == 0 || s.chunks % run != 0) return false;
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

Status check_shapes(const std::vector<Schedule>& schedules) {
  const Schedule& first = schedules[0];
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const Schedule& s = schedules[r];
    const bool same = s.collective == first.collective && s.root == first.root &&
                      s.chunks == first.chunks && s.pieces == first.pieces &&
                      s.shares == first.shares;
    if (!same || s.rank.value != static_cast<int>(r) ||
        s.size != static_cast<int>(schedules.size())) {
      return broken("rank " + std::to_string(r) + "'s schedule is of another collective");
    }
    const bool has_root = s.root.value >= 0 && s.root.value < s.size;
    if (s.pieces == 0 || (is_rooted(s.collective) && !has_root)) {
      return broken("rank " + std::to_string(r) + "'s schedule has no such root, or no pieces");
    }
    if (!shares_fit(s)) {
      return broken("rank " + std::to_string(r) + "'s shares are not one for each chunk");
    }
    for (std::size_t i = 0; i < s.steps.size(); ++i) TRY(check_step(s, i));
  }
  return Status::ok();
}

// Ranks and blocks, whose numbers are ranks' where all is well.
std::size_t ranks_and_blocks(const std::vector<Schedule>& schedules) {
  return std::max(schedules.size(), std::size_t{block_of(schedules[0], schedules[0].chunks)} + 1);
}

// Runs the schedules, whose shapes, messages and races are checked. A step is looked at when
// something that it waits for has ended; because the steps on one slot have an order, all orders in
// which they may run give the same.
class SymbolicRun {
 public:
  using Id = Contributions::Id;

  SymbolicRun(const std::vector<Schedule>& schedules, const StepNumbers& numbers,
              std::vector<std::uint32_t> partner)
      : schedules_(schedules),
        numbers_(numbers),
        partner_(std::move(partner)),
        values_(ranks_and_blocks(schedules)),
        everybody_(schedules[0].chunks, Contributions::kNothing),
        spaces_(schedules.size()),
        waits_(numbers.count(), 0),
        fused_(numbers.count(), kNoStep),
        fed_by_(numbers.count(), kNoStep),
        done_(numbers.count(), 0),
        first_dependent_(numbers.count() + 1, 0) {
    for (std::size_t r = 0; r < schedules.size(); ++r) add_rank(r);
    add_dependents();
  }

  Status run() {
    for (std::uint32_t step = 0; step < numbers_.count(); ++step) open_.push_back(step);
    while (!open_.empty()) {
      const std::uint32_t step = open_.front();
      open_.pop_front();
      TRY(look_at(step));
    }
    TRY(check_ended());
    for (const Schedule& s : schedules_) TRY(check_result(s));
    return Status::ok();
  }

 private:
  struct Chunks {
    std::vector<Id> input;
    std::vector<Id> output;
    std::vector<Id> scratch;
  };

  void add_rank(std::size_t rank) {
    const Schedule& s = schedules_[rank];
    Chunks& chunks = spaces_[rank];
    chunks.input.resize(s.chunks);
    chunks.output.resize(s.chunks);
    chunks.scratch.resize(s.scratch.size());
    for (std::uint32_t c = 0; c < s.chunks; ++c) {
      if (input_exists(s, c)) chunks.input[c] = values_.one({static_cast<std::uint32_t>(rank), c});
    }
    const std::vector<int> fused = find_fusions(s);
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      const std::uint32_t step = numbers_.of(rank, i);
      waits_[step] = static_cast<std::uint32_t>(s.steps[i].deps.size());
      for (const Dependency& d : s.steps[i].deps) ++first_dependent_[numbers_.of(rank, d.step) + 1];
      if (fused[i] < 0) continue;
      fused_[step] = numbers_.of(rank, static_cast<std::size_t>(fused[i]));
      fed_by_[fused_[step]] = step;
    }
  }

  void add_dependents() {
    for (std::size_t i = 1; i < first_dependent_.size(); ++i) {
      first_dependent_[i] += first_dependent_[i - 1];
    }
    dependents_.resize(first_dependent_.back());
    std::vector<std::uint32_t> next(first_dependent_);
    for (std::uint32_t step = 0; step < numbers_.count(); ++step) {
      const std::uint32_t first = numbers_.first[numbers_.rank_of[step]];
      for (const Dependency& d : step_of(step).deps) dependents_[next[first + d.step]++] = step;
    }
  }

  const Schedule& schedule_of(std::uint32_t step) const {
    return schedules_[numbers_.rank_of[step]];
  }
  const Step& step_of(std::uint32_t step) const {
    const std::uint32_t rank = numbers_.rank_of[step];
    return schedules_[rank].steps[step - numbers_.first[rank]];
  }
  Id& value_at(std::uint32_t step, const Slot& slot) {
    Chunks& chunks = spaces_[numbers_.rank_of[step]];
    return (slot.space == Space::kInput    ? chunks.input
            : slot.space == Space::kOutput ? chunks.output
                                           : chunks.scratch)[slot.chunk];
  }
  Status broken_at(std::uint32_t step, const std::string& what) const {
    return broken_step(schedules_, numbers_, step, what.c_str());
  }

  // Whether the receive is posted. A fused one is posted only when its reduction waits for nothing
  // else.
  bool posted(std::uint32_t receive) const {
    if (waits_[receive] > 0) return false;
    const std::uint32_t into = fused_[receive];
    if (into == kNoStep) return true;
    const std::uint32_t own = receive - numbers_.first[numbers_.rank_of[receive]];
    const auto& deps = step_of(into).deps;
    const auto for_it =
        std::count_if(deps.begin(), deps.end(), [&](const Dependency& d) { return d.step == own; });
    return waits_[into] == static_cast<std::uint32_t>(for_it);
  }

  // Runs the step if it can run; a send and its receive run together.
  Status look_at(std::uint32_t step) {
    if (done_[step] != 0) return Status::ok();
    const StepKind kind = step_of(step).kind;
    if (kind != StepKind::kSend && kind != StepKind::kRecv) {
      if (waits_[step] > 0) return Status::ok();
      TRY(compute(step));
      finish(step);
      return Status::ok();
    }
    const std::uint32_t send = kind == StepKind::kSend ? step : partner_[step];
    const std::uint32_t receive = partner_[send];
    if (waits_[send] > 0 || !posted(receive)) return Status::ok();
    TRY(write(receive, value_at(send, step_of(send).lhs)));
    finish(receive);
    finish(send);
    return Status::ok();
  }

  void finish(std::uint32_t step) {
    done_[step] = 1;
    for (std::uint32_t i = first_dependent_[step]; i < first_dependent_[step + 1]; ++i) {
      const std::uint32_t dependent = dependents_[i];
      --waits_[dependent];
      open_.push_back(dependent);
      // The receive that is part of it may be posted now.
      if (fed_by_[dependent] != kNoStep) open_.push_back(fed_by_[dependent]);
    }
  }

  Status compute(std::uint32_t number) {
    const Step& step = step_of(number);
    const Id left = value_at(number, step.lhs);
    if (step.kind != StepKind::kReduce) return write(number, left);
    const Id right = value_at(number, step.rhs);
    if (left == Contributions::kNothing || right == Contributions::kNothing) {
      return broken_at(number, "reduces a chunk that holds nothing");
    }
    const bool barrier = schedules_[0].collective == Collective::kBarrier;
    if (const auto twice = values_.common(left, right); twice && !barrier) {
      return broken_at(number, "counts rank " + std::to_string(twice->rank) + "'s chunk " +
                                   std::to_string(twice->chunk) + " twice");
    }
    return write(number, values_.together(left, right));
  }

  Status write(std::uint32_t number, Id value) {
    const Step& step = step_of(number);
    if (value == Contributions::kNothing) {
      return broken_at(number, "moves a chunk that holds nothing");
    }
    if (step.dst.space == Space::kOutput &&
        !values_.equal(value, expected(schedule_of(number), step.dst.chunk))) {
      return broken_at(number, "writes a value into output that is not final");
    }
    const bool single = schedules_[0].collective == Collective::kBarrier || schedules_.size() == 1;
    if (step.kind == StepKind::kReduce && !single && step.final != is_final(number, value)) {
      return broken_at(number, "a final reduction is the last of its chunk");
    }
    value_at(number, step.dst) = value;
    return Status::ok();
  }

  // Whether a reduction is the last one of its chunk, into output or into the sum that becomes the
  // output. A scan has no averages, and no such reduction.
  bool is_final(std::uint32_t number, Id value) {
    const Schedule& s = schedule_of(number);
    if (is_scan(s.collective)) return false;
    const Slot& to = step_of(number).dst;
    const bool scratch = to.space == Space::kScratch;
    return values_.equal(value, everybody(scratch ? s.scratch[to.chunk].like.chunk : to.chunk));
  }

  // What the output chunk must hold in the end; nothing: the rank has no such chunk.
  Id expected(const Schedule& s, std::uint32_t chunk) {
    const auto own = static_cast<std::uint32_t>(s.rank.value);
    const auto root = static_cast<std::uint32_t>(s.root.value);
    const std::uint32_t block = block_of(s, chunk);
    constexpr Id kNothing = Contributions::kNothing;
    switch (s.collective) {
      case Collective::kAllReduce:
      case Collective::kBarrier: return everybody(chunk);
      case Collective::kReduceScatter: return block == own ? everybody(chunk) : kNothing;
      case Collective::kReduce: return own == root ? everybody(chunk) : kNothing;
      case Collective::kAllGather: return values_.one({block, chunk});
      case Collective::kAllToAll: return values_.one({block, own * s.pieces + chunk % s.pieces});
      case Collective::kBroadcast: return values_.one({root, chunk});
      case Collective::kGather: return own == root ? values_.one({block, chunk}) : kNothing;
      case Collective::kScatter: return block == own ? values_.one({root, chunk}) : kNothing;
      case Collective::kScan: return values_.first_ranks(own + 1, chunk);
      case Collective::kExscan: return values_.first_ranks(own, chunk);
      default: return kNothing;
    }
  }

  Id everybody(std::uint32_t chunk) {
    const auto size = static_cast<std::uint32_t>(schedules_.size());
    if (chunk >= everybody_.size()) return values_.first_ranks(size, chunk);
    Id& all = everybody_[chunk];
    if (all == Contributions::kNothing) all = values_.first_ranks(size, chunk);
    return all;
  }

  Status check_ended() const {
    const auto stuck = std::find(done_.begin(), done_.end(), 0);
    if (stuck == done_.end()) return Status::ok();
    return broken_at(static_cast<std::uint32_t>(stuck - done_.begin()), "deadlock");
  }

  Status check_result(const Schedule& s) {
    const auto& output = spaces_[static_cast<std::size_t>(s.rank.value)].output;
    for (std::uint32_t c = 0; c < s.chunks; ++c) {
      if (values_.equal(output[c], expected(s, c))) continue;
      return broken("rank " + std::to_string(s.rank.value) + ": output chunk " + std::to_string(c) +
                    " does not hold what " + std::string(collective_name(s.collective)) +
                    " promises");
    }
    return Status::ok();
  }

  const std::vector<Schedule>& schedules_;
  const StepNumbers& numbers_;
  std::vector<std::uint32_t> partner_;  // by step: pair_messages()
  Contributions values_;
  std::vector<Id> everybody_;   // by chunk; made when it is first needed
  std::vector<Chunks> spaces_;  // by rank
  // By step.
  std::vector<std::uint32_t> waits_;   // how many dependencies have not ended
  std::vector<std::uint32_t> fused_;   // a receive's reduction
  std::vector<std::uint32_t> fed_by_;  // and the other way round
  std::vector<char> done_;
  std::vector<std::uint32_t> first_dependent_;  // where its dependents begin, in dependents_
  std::vector<std::uint32_t> dependents_;
  std::deque<std::uint32_t> open_;  // to be looked at
};

}  // namespace

Status verify(const std::vector<Schedule>& schedules) {
  if (schedules.empty()) return broken("no schedules");
  TRY(check_shapes(schedules));
  const StepNumbers numbers(schedules);
  auto partner = pair_messages(schedules, numbers);
  if (!partner.is_ok()) return partner.status();
  for (const Schedule& s : schedules) TRY(check_races(s));
  return SymbolicRun(schedules, numbers, std::move(partner).value()).run();
}

}  // namespace holdfast::comm

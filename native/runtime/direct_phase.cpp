// What a direct op does on its own device: its memory made ready for the others, and theirs read.
#include <algorithm>

#include "runtime/direct.h"
#include "runtime/direct_work.h"
#include "runtime/staged.h"

namespace holdfast::runtime {

using comm::Block;
using comm::Collective;
using device::CuEvent;
using device::Device;
using device::DevicePointer;
using device::Scratch;

namespace {

// The blocks as one run of memory; nothing: they lie apart.
std::optional<DevicePointer> run_of(const comm::BlockList& blocks, std::uint64_t element) {
  DevicePointer begin = 0;
  DevicePointer end = 0;
  for (const Block& block : blocks) {
    if (block.count == 0) continue;
    if (begin == 0) begin = end = address(block.data);
    if (address(block.data) != end) return std::nullopt;
    end += block.count * element;
  }
  return begin;
}

}  // namespace

// What goes wrong for lack of memory is told to the others, so that all of them stage the op.
Status DirectWork::prepare(std::span<const device::CuStream> streams) {
  TRY(take_row_memory(std::max(all_of(shape_.input), all_of(shape_.output))));
  auto event = device().take_event();
  if (!event.is_ok()) return event.status();
  arrived_ = event.value();
  card_.owner = direct_.owner();
  card_.able = direct_.prepare(request_) ? 1 : 0;
  card_.ready = 1;
  const std::vector<Move> moves = expose_input();
  choose_result();
  for (const device::CuStream stream : streams) TRY(device().order(stream, staged_->up()));
  for (const Move& move : moves) {
    TRY(device().copy(move.to, move.from, move.bytes, staged_->up()));
  }
  TRY(device().check(device().driver().event_record(*arrived_, staged_->up()),
                     "recording an event"));
  return staged_->wake_behind(staged_->up());
}

// What has to be copied for it, as an array of a pool or of pieces has no handle of its own.
std::vector<DirectWork::Move> DirectWork::expose_input() {
  const std::uint64_t bytes = all_of(shape_.input);
  if (!shape_.gives() || bytes == 0 || card_.able == 0) return {};
  const auto run = run_of(request_.input, shape_.element_bytes);
  if (run) {
    if (const auto piece = direct_.peers().expose(*run, bytes)) {
      card_.input = *piece;
      input_ = *run;
      return {};
    }
  }
  const auto scratch = take_scratch(bytes);
  if (!scratch) return {};
  expose_scratch(*scratch, bytes, card_.input);
  input_ = scratch->at;
  std::vector<Move> moves;
  DevicePointer to = scratch->at;
  for (std::size_t i = 0; i < request_.input.size(); ++i) {
    if (shape_.input[i] == 0) continue;
    moves.push_back({to, address(request_.input[i].data), shape_.input[i]});
    to += shape_.input[i];
  }
  return moves;
}

// Nobody's input may be written before all have read it, and those who read a result map it.
void DirectWork::choose_result() {
  const std::uint64_t bytes = all_of(shape_.output);
  if (bytes == 0 || card_.able == 0) return;
  const bool meets = results_meet_inputs();
  if (!shape_.in_two() && !meets) return;
  if (!meets) {
    if (const auto piece = direct_.peers().expose(address(request_.output[0].data), bytes)) {
      card_.result = *piece;
      return;
    }
  }
  const auto scratch = take_scratch(bytes);
  if (!scratch) return;
  result_ = scratch->at;
  if (shape_.in_two()) expose_scratch(*scratch, bytes, card_.result);
}

bool DirectWork::results_meet_inputs() const {
  if (request_.collective == Collective::kBroadcast) return false;
  for (std::size_t o = 0; o < shape_.output.size(); ++o) {
    for (std::size_t i = 0; i < shape_.input.size(); ++i) {
      const DevicePointer out = address(request_.output[o].data);
      const DevicePointer in = address(request_.input[i].data);
      // A rank's own block of a gather may be where it goes: it is not copied.
      const bool own = request_.collective == Collective::kAllGather && out == in &&
                       o == static_cast<std::size_t>(shape_.rank.value);
      if (!own && out < in + shape_.input[i] && in < out + shape_.output[o]) return true;
    }
  }
  return false;
}

std::optional<Scratch::Piece> DirectWork::take_scratch(std::uint64_t bytes) {
  auto taken = direct_.scratch().take(bytes);
  if (!taken.is_ok()) {
    card_.ready = 0;
    return std::nullopt;
  }
  scratch_.push_back(taken.value());
  return taken.value();
}

void DirectWork::expose_scratch(const Scratch::Piece& scratch, std::uint64_t bytes,
                                device::PeerPiece& piece) {
  const auto exposed = direct_.peers().expose(scratch.at, bytes);
  // If not this, then nothing of this device has a handle.
  if (!exposed) card_.able = 0;
  piece = exposed.value_or(device::PeerPiece{});
}

void DirectWork::begin_phase(std::size_t number) {
  const Device::Current current(device());
  std::uint32_t word = kReached | kRead;
  Status ran = current.status();
  if (ran.is_ok()) ran = run_phase(direct_phase(shape_, ranks_, static_cast<int>(number)), word);
  // What was enqueued ends before the others are told, well or not.
  auto event = device().take_event();
  const bool recorded =
      event.is_ok() &&
      device().driver().event_record(event.value(), staged_->down()) == device::Cu::kSuccess;
  if (!recorded) word &= ~kRead;
  word_in_.at(number) = word;
  {
    const std::lock_guard lock(mutex_);
    if (event.is_ok()) phases_.at(number) = event.value();
    enqueued_.at(number) = true;
  }
  // A device that is lost calls nobody.
  if (!recorded || !staged_->wake_behind(staged_->down()).is_ok()) staged_->wake_now();
}

Status DirectWork::run_phase(const DirectPhase& phase, std::uint32_t& word) {
  const std::uint32_t good = std::exchange(word, 0);
  std::vector<DevicePointer> from;
  if (phase.fold && phase.fold->bytes > 0) {
    for (const Rank rank : ranks_) {
      auto at = peer(rank, false);
      if (!at.is_ok()) return at.status();
      from.push_back(at.value() + phase.fold->at);
    }
  }
  for (const DirectFetch& fetch : phase.fetches) {
    auto at = fetch.bytes == 0 ? Result<DevicePointer>(DevicePointer{0})
                               : peer(fetch.from, fetch.of_result);
    if (!at.is_ok()) return at.status();
    from.push_back(at.value() + fetch.at);
  }
  word = kReached;
  // Sizes that differ are for the staged op to tell of.
  for (const Rank rank : ranks_) {
    const std::uint64_t bytes = cards_[static_cast<std::size_t>(rank.value)].input.bytes;
    if (shape_.input_of(rank).value_or(bytes) != bytes) return Status::ok();
  }
  std::size_t next = 0;
  if (phase.fold && phase.fold->bytes > 0) {
    const auto divisor =
        request_.op == ReduceOp::kAvg ? static_cast<std::uint32_t>(ranks_.size()) : 1;
    TRY(direct_.fold(request_, result_at(0) + phase.fold->to, from, phase.fold->bytes, divisor));
  }
  for (const DirectFetch& fetch : phase.fetches) {
    const DevicePointer source = from[next++];
    const DevicePointer target = result_at(fetch.block) + fetch.to;
    if (fetch.bytes == 0 || source == target) continue;
    TRY(device().copy(target, source, fetch.bytes, staged_->down()));
  }
  for (const std::size_t block : phase.clears) {
    if (shape_.output[block] == 0) continue;
    TRY(device().check(device().driver().memset_d8_async(result_at(block), 0, shape_.output[block],
                                                         staged_->down()),
                       "clearing a block"));
  }
  word = good;
  return Status::ok();
}

Result<DevicePointer> DirectWork::peer(Rank rank, bool of_result) {
  if (rank == shape_.rank) return of_result ? result_at(0) : input_;
  const DirectCard& card = cards_[static_cast<std::size_t>(rank.value)];
  const device::PeerPiece& piece = of_result ? card.result : card.input;
  auto opened = direct_.peers().open(card.owner, piece);
  if (opened.is_ok()) opened_.emplace_back(card.owner, piece.buffer);
  return opened;
}

DevicePointer DirectWork::result_at(std::size_t block) const {
  if (!result_) return address(request_.output[block].data);
  DevicePointer at = *result_;
  for (std::size_t b = 0; b < block; ++b) at += shape_.output[b];
  return at;
}

void DirectWork::give_memory(bool idle) {
  std::vector<CuEvent> own;
  if (arrived_) own.push_back(*arrived_);
  for (const auto& phase : phases_) {
    if (phase) own.push_back(*phase);
  }
  for (const device::PeerMemory::Key& key : opened_) direct_.peers().done(key);
  for (const Scratch::Piece& piece : scratch_) {
    if (idle) {
      direct_.scratch().give(piece);
    } else {
      direct_.scratch().give_after(piece, pending_events());
    }
  }
  give_row_memory(idle, std::move(own));
}

}  // namespace holdfast::runtime

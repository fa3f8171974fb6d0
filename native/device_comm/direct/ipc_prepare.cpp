// How a rank's memory is made ready for the others of its host to read.
#include <algorithm>
#include <numeric>

#include "device_comm/direct/ipc_work.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::Collective;
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

std::uint64_t IpcWork::all_of(const std::vector<std::uint64_t>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
}

// A lack of memory is told to the others, so that all of them stage the op.
Status IpcWork::prepare(std::span<const device::CuStream> streams) {
  TRY(take_chain_memory(std::max(all_of(shape_.input), all_of(shape_.output))));
  auto event = device().take_event();
  if (!event.is_ok()) return event.status();
  arrived_ = event.value();
  card_.owner = direct_.owner();
  card_.able = direct_.prepare(request_) ? 1 : 0;
  card_.ready = 1;
  const std::vector<Move> moves = expose_input();
  choose_result();
  prepare_more();
  for (const device::CuStream stream : streams) TRY(device().order(stream, staged_->up()));
  for (const Move& move : moves) {
    TRY(device().copy(move.to, move.from, move.bytes, staged_->up()));
  }
  TRY(device().check(device().driver().event_record(*arrived_, staged_->up()),
                     "recording an event"));
  return staged_->wake_behind(staged_->up());
}

// Exposes the input; returns the copies that this needs, as an array of a pool or of pieces has no
// handle of its own.
std::vector<IpcWork::Move> IpcWork::expose_input() {
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

// No rank's input may be written before all have read it, and ranks that read a result map it.
void IpcWork::choose_result() {
  const std::uint64_t bytes = all_of(shape_.output);
  if (bytes == 0 || card_.able == 0) return;
  const bool meets = results_meet_inputs();
  const auto run = run_of(request_.output, shape_.element_bytes);
  result_run_ = run.value_or(0);
  if (!chain_.shows && !meets) return;
  if (!meets && run) {
    if (const auto piece = direct_.peers().expose(*run, bytes)) {
      card_.result = *piece;
      return;
    }
  }
  const auto scratch = take_scratch(bytes);
  if (!scratch) return;
  result_ = scratch->at;
  if (chain_.shows) expose_scratch(*scratch, bytes, card_.result);
}

bool IpcWork::results_meet_inputs() const {
  if (request_.collective == Collective::kBroadcast) return false;
  for (std::size_t o = 0; o < shape_.output.size(); ++o) {
    for (std::size_t i = 0; i < shape_.input.size(); ++i) {
      const DevicePointer out = address(request_.output[o].data);
      const DevicePointer in = address(request_.input[i].data);
      // A rank's own block of a gather may be its place in the output: it is not copied.
      const bool own = comm::has_own_input(request_.collective) && out == in &&
                       o == static_cast<std::size_t>(shape_.rank.value);
      if (!own && out < in + shape_.input[i] && in < out + shape_.output[o]) return true;
    }
  }
  return false;
}

std::optional<Scratch::Piece> IpcWork::take_scratch(std::uint64_t bytes) {
  auto taken = direct_.scratch().take(bytes);
  if (!taken.is_ok()) {
    card_.ready = 0;
    return std::nullopt;
  }
  scratch_.push_back(taken.value());
  return taken.value();
}

void IpcWork::expose_scratch(const Scratch::Piece& scratch, std::uint64_t bytes,
                             device::PeerPiece& piece) {
  const auto exposed = direct_.peers().expose(scratch.at, bytes);
  // If this cannot be exposed, no memory of this device can.
  if (!exposed) card_.able = 0;
  piece = exposed.value_or(device::PeerPiece{});
}

}  // namespace holdfast::device_comm

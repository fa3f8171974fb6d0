#include "device_comm/encoded/work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fnv.h"
#include "comm/call/call.h"
#include "comm/call/request_check.h"
#include "comm/observer.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::Collective;
using comm::OpRequest;
using comm::PathAgreement;
using device::CuEvent;
using device::CuStream;
using device::Device;

namespace {

std::size_t steps_of(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ? 2 : 1;
}

// Seeds by group: groups whose ops have the same numbers round differently.
std::uint64_t seed_of(const std::string& group) {
  Fnv1a seed;
  seed.mix(group);
  return seed.value();
}

}  // namespace

EncodedWork::EncodedWork(std::shared_ptr<Staged> staged, Encoded& encoded,
                         const comm::Communicator& group, const OpRequest& request,
                         Encoded::EncodedCall extra, std::shared_ptr<PathAgreement> agreement)
    : ChainedWork(std::move(staged), request, group.rank(), steps_of(request.collective)),
      encoded_(encoded),
      plan_(encoded_plan(request, group.rank(), group.size())),
      room_(encoded_room(plan_, request)),
      seed_(seed_of(group.name())),
      trial_(extra.trial),
      agreement_(std::move(agreement)) {
  take_packed(std::move(extra.packed));
}

EncodedWork::~EncodedWork() = default;

// A lack of device memory is told to the others, so that all of them stage the call.
Status EncodedWork::prepare(std::span<const CuStream> streams) {
  TRY(take_chain_memory(comm::payload_bytes(request_)));
  auto event = device().take_event();
  if (!event.is_ok()) return event.status();
  arrived_ = event.value();
  // Reports: one for all encoding, and one for each frame that is decoded: for a sum, for what the
  // sum's own frame leaves out, and into the result.
  const std::size_t own = plan_.parts[plan_.self()].size();
  const std::size_t decoded = (plan_.size() + 1) * own + plan_.frames();
  const std::size_t reports = (1 + decoded) * sizeof(compress::StageReport);
  const std::uint64_t messages = (plan_.sent() + plan_.received()) * plan_.message_bytes;
  auto frames = device().take(messages + reports);
  if (!frames.is_ok()) return frames.status();
  frames_ = frames.value();
  reports_ = reinterpret_cast<compress::StageReport*>(frames_.data + messages);
  std::memset(static_cast<void*>(reports_), 0, reports);
  if (encoded_.prepare(request_)) {
    vote_ = kAble;
    auto scratch = encoded_.scratch().take(room_.bytes);
    if (scratch.is_ok()) {
      scratch_ = scratch.value();
      vote_ |= kWell;
    }
  }
  for (const CuStream stream : streams) TRY(device().order(stream, staged_->up()));
  return Status::ok();
}

// Encodes only now, when there is an op number to draw random bits from.
void EncodedWork::on_numbered() {
  if (vote_ == (kAble | kWell) && !encode().is_ok()) vote_ &= ~kWell;
  const Status recorded = device().check(device().driver().event_record(*arrived_, staged_->up()),
                                         "recording an event");
  {
    const std::lock_guard lock(mutex_);
    encoding_ = true;
    lost_ = recorded;
  }
  // A lost device calls no callback.
  if (!recorded.is_ok() || !staged_->wake_behind(staged_->up()).is_ok()) staged_->wake_now();
}

Status EncodedWork::encode() {
  for (std::size_t b = 0; b < request_.residual.size(); ++b) {
    if (!plan_.encodes_block(b)) continue;
    TRY(device().copy(address(residual_of(b)), address(request_.residual[b]),
                      request_.input[b].count * sizeof(float), staged_->up()));
  }
  const compress::StageMemory memory{pointer(scratch_->at + room_.encoding), reports_};
  for (std::size_t part = 0; part < plan_.size(); ++part) {
    if (!plan_.encodes(part)) continue;
    const std::size_t block = plan_.input_block(part);
    const Block& input = request_.input[block];
    float* const residual = request_.residual.empty() ? nullptr : residual_of(block);
    for (const EncodedFrame& frame : plan_.parts[part]) {
      compress::StagedEncode what;
      what.input = input.data + frame.first * plan_.element_bytes;
      what.dtype = request_.dtype;
      what.count = frame.count;
      // The key differs from that of any other rank, and from that of the sum's owner.
      what.key = key_of(frame.chunk | static_cast<std::uint64_t>(rank_.value + 1) << 32);
      what.residual = residual == nullptr ? nullptr : residual + frame.first;
      what.frame = pointer(out(plan_.spreads() ? part : 0) + frame.at);
      TRY(encoded_.launch(encode_stages(*request_.codec, what, memory), staged_->up()));
    }
  }
  return send_up();
}

// Frames for other ranks only: a rank has its own already.
Status EncodedWork::send_up() {
  if (!comm::input_counts(plan_.collective, rank_ == request_.root)) return Status::ok();
  const std::uint64_t bytes = plan_.message_bytes - sizeof(EncodedHead);
  for (std::size_t message = 0; message < plan_.sent(); ++message) {
    if (plan_.spreads() && message == plan_.self()) continue;
    TRY(device().copy(address(out_host(message) + sizeof(EncodedHead)),
                      out(message) + sizeof(EncodedHead), bytes, staged_->up()));
  }
  return Status::ok();
}

OpRequest EncodedWork::step_request(std::size_t step) {
  OpRequest request = step == 0 ? first_step() : second_step();
  request.step.frames = std::make_shared<const comm::EncodedBytes>(frames_of(step));
  return request;
}

// What this rank sends to others as frames.
comm::EncodedBytes EncodedWork::frames_of(std::size_t step) const {
  comm::EncodedBytes encoded;
  encoded.codec = request_.codec->spec().id;
  const bool broadcasts = plan_.collective == Collective::kBroadcast;
  if (broadcasts && (step > 0 || rank_ != request_.root)) return encoded;
  const bool spreads = plan_.spreads() && step == 0;
  for (std::size_t part = 0; part < plan_.size(); ++part) {
    if (spreads ? part == plan_.self() : part != plan_.self() && !broadcasts) continue;
    const std::uint64_t times = spreads ? 1 : plan_.size() - 1;
    for (const EncodedFrame& frame : plan_.parts[part]) {
      encoded.plain_bytes += times * frame.count * plan_.element_bytes;
      encoded.frame_bytes += times * frame.bytes;
    }
  }
  return encoded;
}

OpRequest EncodedWork::first_step() {
  OpRequest request;
  request.dtype = DType::kU8;
  request.how.on_device = true;
  request.step.stands_for = std::make_shared<const comm::Call>(comm::call_of(request_, {}));
  request.step.way = comm::Way::kEncoded;
  for (std::size_t m = 0; m < plan_.sent(); ++m) {
    request.input.push_back({out_host(m), plan_.message_bytes});
  }
  for (std::size_t m = 0; m < plan_.received(); ++m) {
    request.output.push_back({in_host(m), plan_.message_bytes});
  }
  if (plan_.collective == Collective::kBroadcast) {
    request.collective = Collective::kBroadcast;
    request.root = request_.root;
    request.output = request.input;
  } else if (plan_.spreads()) {
    request.collective = Collective::kAllToAll;
    request.equal_blocks = true;
  } else {
    request.collective = Collective::kAllGather;
  }
  return request;
}

OpRequest EncodedWork::second_step() {
  OpRequest request;
  if (plan_.collective == Collective::kBroadcast) {
    const auto bytes = [](std::uint32_t& vote) { return reinterpret_cast<std::byte*>(&vote); };
    request.collective = Collective::kAllReduce;
    request.dtype = DType::kU32;
    request.op = ReduceOp::kBand;
    request.input = {{bytes(vote_in_), 1}};
    request.output = {{bytes(vote_out_), 1}};
    return request;
  }
  // What the first step sent and got is not needed any more.
  request.collective = Collective::kAllGather;
  request.dtype = DType::kU8;
  request.input = {{in_host(0), plan_.message_bytes}};
  for (std::size_t m = 0; m < plan_.size(); ++m) {
    request.output.push_back({out_host(m), plan_.message_bytes});
  }
  return request;
}

std::optional<Status> EncodedWork::look_at_step(std::size_t step) {
  if (step == 0) return look_at_frames();
  if (plan_.collective == Collective::kAllReduce) return look_at_sums();
  return Status::ok();
}

std::optional<Status> EncodedWork::look_at_frames() {
  {
    const std::lock_guard lock(mutex_);
    if (!encoding_) return std::nullopt;
    if (!lost_.is_ok()) return lost_;
  }
  std::optional<Status> ended = look_at(*arrived_);
  if (!ended || !ended->is_ok()) return ended;
  vote_in_ = vote_;
  for (std::size_t m = 0; m < plan_.sent(); ++m) set_vote(out_host(m), vote_);
  return ended;
}

std::optional<Status> EncodedWork::look_at_sums() {
  std::optional<CuEvent> summed;
  {
    const std::lock_guard lock(mutex_);
    if (!summing_) return std::nullopt;
    summed = summed_;
  }
  const std::optional<Status> ended = summed ? look_at(*summed) : Status(Code::kSystem, "");
  if (!ended) return std::nullopt;
  // All ranks are to know of it.
  if (!ended->is_ok() || !look_at_result().is_ok()) vote_ &= ~kWell;
  set_vote(in_host(0), vote_);
  return Status::ok();
}

void EncodedWork::on_step_ended(std::size_t step, const comm::Outcome& outcome) {
  using Verdict = PathAgreement::PathVerdict;
  const bool all = outcome.contributors.size() == plan_.size();
  const bool whole = all && !outcome.retried;
  merge_outcome(outcome, !whole);
  if (!whole) {
    // A rank that is away stays so for a while; a rank that was lost may have voted or not.
    conclude(outcome.retried ? Verdict::kAgain : Verdict::kStaged);
    return give_up();
  }
  if (step == 0 && plan_.collective == Collective::kBroadcast) return;
  const std::uint32_t said = votes(step);
  const bool decides = step + 1 == steps_of(plan_.collective);
  const bool well = said == (kAble | kWell);
  if (decides || !well) conclude(well ? Verdict::kDirect : Verdict::kStaged);
  if (!well) return give_up();
  if (!decides) return begin_sums();
  finish();
}

// Drops the reports of what was decoded.
void EncodedWork::give_up() {
  reported_ = 1;
  stage();
}

void EncodedWork::conclude(PathAgreement::PathVerdict verdict) {
  if (trial_ != 0) agreement_->conclude(trial_, verdict);
}

std::uint32_t EncodedWork::votes(std::size_t step) const {
  if (plan_.collective == Collective::kBroadcast) return vote_out_;
  std::uint32_t all = kAble | kWell;
  for (std::size_t m = 0; m < plan_.size(); ++m) {
    EncodedHead head;
    std::memcpy(&head, step == 0 ? in_host(m) : out_host(m), sizeof head);
    all &= head.vote;
  }
  return all;
}

void EncodedWork::begin_sums() {
  const Device::Current current(device());
  Status made = current.status();
  if (made.is_ok()) made = make_sums();
  if (!made.is_ok()) vote_ &= ~kWell;
  // What was enqueued ends before the others are told, well or not.
  auto event = device().take_event();
  const bool recorded =
      event.is_ok() &&
      device().driver().event_record(event.value(), staged_->down()) == device::Cu::kSuccess;
  {
    const std::lock_guard lock(mutex_);
    summing_ = true;
    if (recorded) summed_ = event.value();
  }
  if (event.is_ok() && !recorded) device().give_event(event.value());
  // A lost device calls no callback.
  if (!recorded || !staged_->wake_behind(staged_->down()).is_ok()) staged_->wake_now();
}

Status EncodedWork::make_sums() {
  for (std::size_t m = 0; m < plan_.size(); ++m) {
    if (m != plan_.self()) TRY(bring_down(in_host(m), in(m)));
  }
  TRY(fold(scratch_->at + room_.sum));
  TRY(encode_sums());
  return device().copy(address(in_host(0) + sizeof(EncodedHead)), in(0) + sizeof(EncodedHead),
                       plan_.message_bytes - sizeof(EncodedHead), staged_->down());
}

// Decided: the call is not done again, and only the device can still fail.
void EncodedWork::finish() {
  const Device::Current current(device());
  Status written = current.status();
  if (written.is_ok()) written = write_result();
  if (written.is_ok()) written = commit_residual();
  succeed(written);
}

// Not ok: a frame from another rank is not one of the codec; only topk's can be wrong.
Status EncodedWork::look_at_result() {
  for (std::size_t i = 1; i < reported_; ++i) {
    if (reports_[i].wrong == 0) continue;
    return {Code::kProtocolError, "compression: a frame that cannot be one of " +
                                      request_.codec->text() + " has come from another rank"};
  }
  return Status::ok();
}

void EncodedWork::give_memory(bool idle) {
  std::vector<CuEvent> own;
  if (arrived_) own.push_back(*arrived_);
  if (summed_) own.push_back(*summed_);
  if (idle) {
    if (scratch_) encoded_.scratch().give(*scratch_);
    if (frames_.data != nullptr) device().give(frames_);
  } else {
    if (scratch_) encoded_.scratch().give_after(*scratch_, pending_events());
    if (frames_.data != nullptr) device().give_after(frames_, pending_events());
  }
  give_chain_memory(idle, std::move(own));
}

}  // namespace holdfast::device_comm

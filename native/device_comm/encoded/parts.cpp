// What the device does with frames (encoded/work.h), and where they are.
#include <cstring>

#include "device_comm/encoded/work.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::Collective;
using device::DevicePointer;

Status EncodedWork::bring_down(std::byte* from, DevicePointer to) {
  return device().copy(to + sizeof(EncodedHead), address(from + sizeof(EncodedHead)),
                       plan_.message_bytes - sizeof(EncodedHead), staged_->down());
}

Status EncodedWork::decode(const EncodedFrame& frame, DevicePointer message, DType dtype,
                           DevicePointer to, bool add) {
  compress::StagedDecode what;
  what.frame = pointer(message + frame.at);
  what.frame_bytes = frame.bytes;
  what.dtype = dtype;
  what.count = frame.count;
  what.out = pointer(to);
  what.add = add;
  auto stages =
      decode_stages(*request_.codec, what, {pointer(scratch_->at + room_.decoding), next_report()});
  if (!stages.is_ok()) return stages.status();
  return encoded_.launch(stages.value(), staged_->down());
}

// Adds in rank order, as the host does.
Status EncodedWork::fold(DevicePointer sum) {
  const auto& part = plan_.parts[plan_.self()];
  for (const EncodedFrame& frame : part) {
    const DevicePointer to = sum + (frame.first - part.front().first) * sizeof(float);
    for (std::size_t r = 0; r < plan_.size(); ++r) {
      const DevicePointer message = r == plan_.self() ? out(r) : in(r);
      TRY(decode(frame, message, DType::kF32, to, r > 0));
    }
  }
  if (request_.op != ReduceOp::kAvg || part.empty()) return Status::ok();
  return encoded_.divide(sum, plan_.own_elements(), static_cast<std::uint32_t>(plan_.size()),
                         staged_->down());
}

// Encodes into the first message, when all have been read; the owner of the sum keeps as its
// residual what the frames leave out.
Status EncodedWork::encode_sums() {
  const auto times = request_.op == ReduceOp::kAvg ? static_cast<float>(plan_.size()) : float{1};
  for (const EncodedFrame& frame : plan_.parts[plan_.self()]) {
    compress::StagedEncode what;
    what.input = pointer(sum_of(frame, room_.sum));
    what.count = frame.count;
    what.key = key_of(frame.chunk);
    what.frame = pointer(in(0) + frame.at);
    const compress::StageMemory memory{pointer(scratch_->at + room_.decoding), reports_};
    TRY(encoded_.launch(encode_stages(*request_.codec, what, memory), staged_->down()));
    if (request_.residual.empty()) continue;
    const DevicePointer decoded = sum_of(frame, room_.decoded);
    TRY(decode(frame, in(0), DType::kF32, decoded, false));
    TRY(encoded_.take_sum_residual(
        residual_of(0) + frame.first, static_cast<const float*>(what.input),
        reinterpret_cast<const float*>(pointer(decoded)), frame.count, times, staged_->down()));
  }
  return Status::ok();
}

Status EncodedWork::decode_part(std::size_t part, DevicePointer message) {
  const Block& output = request_.output[plan_.output_block(part)];
  for (const EncodedFrame& frame : plan_.parts[part]) {
    TRY(decode(frame, message, request_.dtype,
               address(output.data) + frame.first * plan_.element_bytes, false));
  }
  return Status::ok();
}

Status EncodedWork::decode_parts() {
  if (plan_.collective == Collective::kBroadcast) {
    if (rank_ != request_.root) TRY(bring_down(out_host(0), out(0)));
    for (std::size_t part = 0; part < plan_.size(); ++part) TRY(decode_part(part, out(0)));
    return Status::ok();
  }
  const bool sums = plan_.collective == Collective::kAllReduce;
  for (std::size_t part = 0; part < plan_.size(); ++part) {
    if (part == plan_.self()) {
      if (plan_.collective != Collective::kAllToAll) TRY(decode_part(part, sums ? in(0) : out(0)));
      continue;
    }
    // The sums' frames lie where this rank's frames were.
    const DevicePointer message = sums ? out(part) : in(part);
    TRY(bring_down(sums ? out_host(part) : in_host(part), message));
    TRY(decode_part(part, message));
  }
  return Status::ok();
}

Status EncodedWork::write_sums() {
  for (std::size_t m = 0; m < plan_.size(); ++m) {
    if (m != plan_.self()) TRY(bring_down(in_host(m), in(m)));
  }
  const DevicePointer output = address(request_.output[0].data);
  if (request_.dtype == DType::kF32) return fold(output);
  const DevicePointer sum = scratch_->at + room_.sum;
  TRY(fold(sum));
  return encoded_.narrow(request_.dtype, output, sum, plan_.own_elements(), staged_->down());
}

Status EncodedWork::write_result() {
  if (plan_.collective == Collective::kReduceScatter) return write_sums();
  TRY(decode_parts());
  if (plan_.collective != Collective::kAllToAll) return Status::ok();
  // A rank's block for itself is not encoded.
  const Block& own = request_.input[plan_.self()];
  return device().copy(address(request_.output[plan_.self()].data), address(own.data),
                       own.count * plan_.element_bytes, staged_->down());
}

// Commits the residual of the input blocks that were encoded.
Status EncodedWork::commit_residual() {
  for (std::size_t b = 0; b < request_.residual.size(); ++b) {
    if (!plan_.encodes_block(b)) continue;
    TRY(device().copy(address(request_.residual[b]), address(residual_of(b)),
                      request_.input[b].count * sizeof(float), staged_->down()));
  }
  return Status::ok();
}

compress::RoundingKey EncodedWork::key_of(std::uint64_t chunk) const {
  return {seed_, sequence().value, chunk};
}

DevicePointer EncodedWork::out(std::size_t message) const {
  return scratch_->at + room_.out + message * plan_.message_bytes;
}

DevicePointer EncodedWork::in(std::size_t message) const {
  return scratch_->at + room_.in + message * plan_.message_bytes;
}

DevicePointer EncodedWork::sum_of(const EncodedFrame& frame, std::uint64_t area) const {
  const std::uint64_t element = frame.first - plan_.parts[plan_.self()].front().first;
  return scratch_->at + area + element * sizeof(float);
}

float* EncodedWork::residual_of(std::size_t block) const {
  DevicePointer at = scratch_->at + room_.residual;
  for (std::size_t b = 0; b < block; ++b) at += request_.input[b].count * sizeof(float);
  return reinterpret_cast<float*>(pointer(at));
}

std::byte* EncodedWork::out_host(std::size_t message) const {
  return frames_.data + message * plan_.message_bytes;
}

std::byte* EncodedWork::in_host(std::size_t message) const {
  return frames_.data + (plan_.sent() + message) * plan_.message_bytes;
}

void EncodedWork::set_vote(std::byte* message, std::uint32_t vote) const {
  const EncodedHead head{vote};
  std::memcpy(message, &head, sizeof head);
}

}  // namespace holdfast::device_comm

#include "device_comm/encoded/encoded.h"

#include "base/check.h"
#include "comm/reduce/device_reduce.h"
#include "compress/sum_residual.h"
#include "device_comm/encoded/work.h"
#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::OpRequest;
using compress::Codec;
using compress::Stage;
using device::CuStream;
using device::DevicePointer;

namespace {

// Calls after which the agreement is tried again: without a step boundary a rank that was lost
// stays away, and ops of this kind need all ranks.
constexpr std::uint32_t kRenewCalls = 256;

// The codec whose frames are the elements themselves.
const Codec& half_codec(DType dtype) {
  static const Codec bf16 = Codec::make("bf16").value();
  static const Codec fp16 = Codec::make("fp16").value();
  CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kBF16 ? bf16 : fp16;
}

}  // namespace

Encoded::Encoded(Staged& staged) : scratch_(staged.device()), kernels_(staged.kernels()) {}

Result<comm::PathAgreement::PathChoice> Encoded::ask(comm::Communicator& group) {
  const auto agreement = group.codec_agreement();
  if (agreement == nullptr) return comm::PathAgreement::PathChoice{};
  return agreement->choose(group.boundary(), kForever, kRenewCalls);
}

Result<std::shared_ptr<DeviceWork>> Encoded::start(std::shared_ptr<Staged> staged,
                                                   comm::Communicator& group,
                                                   const OpRequest& request,
                                                   std::span<const CuStream> streams,
                                                   EncodedCall extra) {
  const auto work = std::make_shared<EncodedWork>(std::move(staged), *this, group, request,
                                                  std::move(extra), group.codec_agreement());
  TRY(work->begin(group, streams));
  return std::shared_ptr<DeviceWork>(work);
}

bool Encoded::prepare(const OpRequest& request) {
  const Codec& codec = *request.codec;
  const std::string key = codec.text() + "/" + std::string(dtype_name(request.dtype));
  const std::lock_guard lock(mutex_);
  if (ready_.contains(key)) return true;
  // Any count will do: it does not decide which kernels exist.
  constexpr std::uint64_t kCount = 1;
  // Nothing is launched: stages are made with the addresses of what they would write.
  std::vector<std::byte> scratch(compress::stage_bytes(codec, kCount));
  compress::StageReport report{};
  const compress::StageMemory memory{scratch.data(), &report};
  std::vector<Stage> all = encode_stages(codec, {.count = kCount}, memory);
  auto decoding = decode_stages(
      codec, {.frame_bytes = codec.encoded_bound(DType::kF32, kCount), .count = kCount}, memory);
  CHECK(decoding.is_ok());
  all.insert(all.end(), decoding.value().begin(), decoding.value().end());
  if (request.dtype != DType::kF32) {
    for (const Stage& stage : encode_stages(half_codec(request.dtype), {.count = kCount}, {})) {
      all.push_back(stage);
    }
  }
  for (const Stage& stage : all) {
    if (!kernels_.load(*stage.row).is_ok()) return false;
  }
  const device::KernelRow& divides = *comm::device_reduce(DType::kF32, ReduceOp::kAvg).kernel;
  if (!kernels_.load(divides).is_ok() || !kernels_.load(compress::sum_residual_kernel()).is_ok()) {
    return false;
  }
  ready_.insert(key);
  return true;
}

Status Encoded::launch(const std::vector<Stage>& stages, CuStream stream) {
  for (const Stage& stage : stages) {
    TRY(kernels_.launch(*stage.row, stage.threads, stage.argument.data(), stream));
  }
  return Status::ok();
}

Status Encoded::divide(DevicePointer values, std::uint64_t count, std::uint32_t divisor,
                       CuStream stream) {
  const comm::DeviceReduce reduce = comm::device_reduce(DType::kF32, ReduceOp::kAvg);
  comm::ReduceArgument argument{};
  argument.out = pointer(values);
  argument.in[0] = argument.out;
  argument.count = count * reduce.elements;
  argument.inputs = 1;
  argument.divisor = divisor;
  const std::uint64_t threads = (argument.count + reduce.per_thread - 1) / reduce.per_thread;
  return kernels_.launch(*reduce.kernel, threads, &argument, stream);
}

Status Encoded::narrow(DType dtype, DevicePointer out, DevicePointer sum, std::uint64_t count,
                       CuStream stream) {
  return launch(encode_stages(half_codec(dtype),
                              {.input = pointer(sum), .count = count, .frame = pointer(out)}, {}),
                stream);
}

Status Encoded::take_sum_residual(float* residual, const float* sum, const float* decoded,
                                  std::uint64_t count, float times, CuStream stream) {
  const compress::SumResidualArgument argument{residual, sum, decoded, count, times};
  return kernels_.launch(compress::sum_residual_kernel(), count, &argument, stream);
}

}  // namespace holdfast::device_comm

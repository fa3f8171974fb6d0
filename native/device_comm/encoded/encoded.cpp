#include "device_comm/encoded/encoded.h"

#include "base/check.h"
#include "comm/call/request_check.h"
#include "comm/reduce/device_reduce.h"
#include "comm/schedule/places.h"
#include "compress/sum_residual.h"
#include "device_comm/encoded/work.h"
#include "device_comm/staged.h"

namespace holdfast::runtime {

using comm::Collective;
using comm::OpRequest;
using compress::Codec;
using compress::Stage;
using device::CuStream;
using device::DevicePointer;

namespace {

// Calls after which it is found out anew: without a step boundary a rank that was lost stays away,
// and ops of this kind need all.
constexpr std::uint32_t kRenewCalls = 256;

// The codec whose frames are the elements themselves.
const Codec& half_codec(DType dtype) {
  static const Codec bf16 = Codec::make("bf16").value();
  static const Codec fp16 = Codec::make("fp16").value();
  CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kBF16 ? bf16 : fp16;
}

bool is_covered(const OpRequest& request) {
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast: return true;
    case Collective::kAllToAll: return request.equal_blocks;
    case Collective::kReduceScatter:
    case Collective::kAllGather: break;
    default: return false;
  }
  const bool own_input = comm::has_own_input(request.collective);
  for (const comm::Block& block : own_input ? request.output : request.input) {
    if (block.count != (own_input ? request.input : request.output)[0].count) return false;
  }
  return true;
}

}  // namespace

Encoded::Encoded(Staged& staged, const EncodedSettings& settings)
    : settings_(settings), scratch_(staged.device()), kernels_(staged.kernels()) {}

std::optional<OpRequest> Encoded::could_take(const comm::Communicator& group,
                                             const OpRequest& request) const {
  if (!is_covered(request) || !request.algorithm.empty() || group.size() < 2) return std::nullopt;
  if (comm::payload_bytes(request) < settings_.least_bytes) return std::nullopt;
  OpRequest taken = request;
  if (taken.codec == nullptr && settings_.codec != nullptr &&
      comm::is_worth_coding(request, *settings_.codec, settings_.codec_least_bytes)) {
    taken.codec = settings_.codec;
  }
  if (taken.codec == nullptr || taken.codec->spec().lossless) return std::nullopt;
  CHECK(taken.codec->spec().fixed_size);
  if (!compress::has_stages(*taken.codec).is_ok()) return std::nullopt;
  // Hosts with several ranks sum up first, and send their frames once.
  const bool levels = comm::has_levels({group.size(), group.placement().hosts});
  const bool sums_up_first =
      levels && taken.collective == Collective::kAllReduce && taken.residual.empty();
  if (sums_up_first) return std::nullopt;
  return taken;
}

Result<comm::PathAgreement::PathChoice> Encoded::choose(comm::Communicator& group) {
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
  // Any count will do: which kernels there are does not depend on it.
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
  if (!kernels_.load(divides).is_ok() || !kernels_.load(compress::owe_kernel()).is_ok()) {
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
  return kernels_.launch(compress::owe_kernel(), count, &argument, stream);
}

}  // namespace holdfast::runtime

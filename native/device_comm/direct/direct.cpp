#include "device_comm/direct/direct.h"

#include <algorithm>
#include <random>

#include "comm/reduce/device_reduce.h"
#include "device_comm/direct/work.h"
#include "device_comm/staged.h"
#include "device_comm/two_level/work.h"

namespace holdfast::device_comm {

using comm::OpRequest;
using device::DevicePointer;

namespace {

std::uint64_t owner_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;  // never 0, which means no owner
}

}  // namespace

Direct::Direct(Staged& staged)
    : staged_(staged),
      owner_(owner_number()),
      peers_(staged.device()),
      scratch_(staged.device()),
      kernels_(staged.kernels()) {}

Result<comm::PathAgreement::PathChoice> Direct::ask(comm::Communicator& group) {
  const auto agreement = group.path_agreement();
  if (agreement == nullptr) return comm::PathAgreement::PathChoice{};
  return agreement->choose(group.boundary(), kForever);
}

Result<std::shared_ptr<DeviceWork>> Direct::start(std::shared_ptr<Staged> staged,
                                                  comm::Communicator& group,
                                                  const OpRequest& request,
                                                  std::span<const device::CuStream> streams,
                                                  DirectCall extra) {
  peers_.close_due();
  extra.agreement = group.path_agreement();
  std::shared_ptr<ChainedWork> work;
  if (extra.way == comm::Way::kTwoLevel) {
    work =
        std::make_shared<TwoLevelWork>(std::move(staged), *this, group, request, std::move(extra));
  } else {
    work = std::make_shared<DirectWork>(std::move(staged), *this, group, request, std::move(extra));
  }
  TRY(work->begin(group, streams));
  return std::shared_ptr<DeviceWork>(std::move(work));
}

bool Direct::prepare(const OpRequest& request) {
  // Any kernel shows whether kernels can be launched.
  const bool reduces = comm::reduces_on_device(request.dtype, request.op);
  const comm::DeviceReduce reduce = comm::device_reduce(reduces ? request.dtype : DType::kU8,
                                                        reduces ? request.op : ReduceOp::kSum);
  const std::lock_guard lock(mutex_);
  if (ready_.contains(reduce.kernel->name)) return true;
  comm::ReduceArgument nothing{};
  nothing.inputs = 1;
  nothing.divisor = 1;
  if (!kernels_.launch(*reduce.kernel, 1, &nothing, staged_.down()).is_ok()) return false;
  ready_.insert(reduce.kernel->name);
  return true;
}

Status Direct::fold(const OpRequest& request, DevicePointer out,
                    std::span<const DevicePointer> inputs, std::uint64_t bytes,
                    std::uint32_t divisor) {
  const comm::DeviceReduce reduce = comm::device_reduce(request.dtype, request.op);
  comm::ReduceArgument argument{};
  argument.out = pointer(out);
  argument.count = bytes / dtype_bytes(request.dtype) * reduce.elements;
  const std::uint64_t threads = (argument.count + reduce.per_thread - 1) / reduce.per_thread;
  std::size_t done = 0;
  while (done < inputs.size()) {
    // The sum so far comes first.
    argument.inputs = 0;
    if (done > 0) argument.in[argument.inputs++] = argument.out;
    while (argument.inputs < comm::kMostReduceInputs && done < inputs.size()) {
      argument.in[argument.inputs++] = pointer(inputs[done++]);
    }
    argument.divisor = done == inputs.size() ? divisor : 1;
    TRY(kernels_.launch(*reduce.kernel, threads, &argument, staged_.down()));
  }
  return Status::ok();
}

}  // namespace holdfast::device_comm

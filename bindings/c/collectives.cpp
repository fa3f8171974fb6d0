// The collectives of the C interface: turns pointers and counts into blocks.
#include <numeric>

#include "device_comm/device_work.h"
#include "handles.h"

using namespace holdfast;
using comm::Block;
using Blocks = comm::BlockList;
using comm::Collective;
using comm::OpRequest;

namespace {

static_assert(HF_C128 == static_cast<int>(DType::kC128));
static_assert(HF_F16 == static_cast<int>(DType::kF16));
static_assert(HF_BXOR == static_cast<int>(ReduceOp::kBxor));

// Ops have their own time limit; blocking calls wait for it.

// One call: its request, or the error in its arguments.
struct Call {
  hf_group* group;
  hf_work** work;
  OpRequest request;
  Status wrong;

  Call(Collective collective, hf_group* on, hf_dtype dtype, hf_work** into)
      : group(on), work(into) {
    request.collective = collective;
    if (on == nullptr) wrong = c::missing("group");
    if (dtype < HF_BOOL || dtype > HF_C128) {
      wrong = {Code::kConfigError, "dtype " + std::to_string(static_cast<int>(dtype)) +
                                       "; accepted: HF_BOOL (0) to HF_C128 (16)"};
      return;
    }
    request.dtype = static_cast<DType>(dtype);
  }

  Call& reduces(hf_op op) {
    if (op < HF_SUM || op > HF_BXOR) {
      wrong = {Code::kConfigError, "op " + std::to_string(static_cast<int>(op)) +
                                       "; accepted: HF_SUM (0) to HF_BXOR (7)"};
    } else {
      request.op = static_cast<ReduceOp>(op);
    }
    return *this;
  }

  Call& weighs(double weight) {
    request.op = ReduceOp::kAvg;
    request.weight = weight;
    return *this;
  }

  // For a rooted op: on device memory it runs in slices if all ranks know each other's sizes.
  void says_equal() { request.equal_blocks = group != nullptr && group->staged != nullptr; }

  bool is_root() const { return wrong.is_ok() && group->group->rank() == request.root; }
  std::size_t size() const {
    return group == nullptr ? 0 : static_cast<std::size_t>(group->group->size());
  }

  // The runtime never writes through an input.
  Blocks one(const void* data, std::uint64_t count) const {
    return {{static_cast<std::byte*>(const_cast<void*>(data)), count}};
  }
  Blocks equal(const void* data, std::uint64_t count) const {
    return split(data, [count](std::size_t) { return count; });
  }
  // NULL counts are refused.
  Blocks split(const void* data, const std::uint64_t* counts) {
    if (counts == nullptr) {
      wrong = c::missing("counts");
      return {};
    }
    return split(data, [counts](std::size_t rank) { return counts[rank]; });
  }
  template <class CountOf>
  Blocks split(const void* data, CountOf count_of) const {
    Blocks blocks;
    auto* at = static_cast<std::byte*>(const_cast<void*>(data));
    for (std::size_t rank = 0; rank < size(); ++rank) {
      const std::uint64_t count = count_of(rank);
      blocks.push_back({at, count});
      if (at != nullptr) at += count * dtype_bytes(request.dtype);
    }
    return blocks;
  }

  // Starts an op that has a work in any case.
  Status start(int32_t* source) {
    std::shared_ptr<comm::Work> begun;
    if (group->staged != nullptr) {
      auto started = group->staged->start(*group->group, std::move(request), group->streams);
      if (!started.is_ok()) return started.status();
      begun = std::move(started).value();
    } else {
      auto started = group->group->start(std::move(request));
      if (!started.is_ok()) return started.status();
      begun = std::move(started).value();
    }
    if (work != nullptr) {
      *work = new hf_work{std::move(begun)};
      return Status::ok();
    }
    Status status = begun->wait(kForever);
    if (source != nullptr) *source = begun->source().value;
    return status;
  }

  hf_status go(int32_t* source = nullptr) {
    return c::guarded([&]() -> Status {
      if (!wrong.is_ok()) return wrong;
      request.priority = group->priority.load(std::memory_order_relaxed);
      request.on_hole = group->on_hole.get();
      if (work != nullptr || group->staged != nullptr) return start(source);
      auto ran = group->group->run(std::move(request));
      if (!ran.is_ok()) return ran.status();
      const auto& under_way = ran.value().work;
      Status status = under_way ? under_way->wait(kForever) : Status::ok();
      if (source != nullptr && under_way) *source = under_way->source().value;
      return status;
    });
  }
};

}  // namespace

hf_status hf_all_reduce(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_op op, hf_work** work) {
  Call call(Collective::kAllReduce, group, dtype, work);
  call.request.input = call.one(input, count);
  call.request.output = call.one(output, count);
  return call.reduces(op).go();
}

hf_status hf_all_reduce_weighted(hf_group* group, const void* input, void* output, uint64_t count,
                                 hf_dtype dtype, double weight, hf_work** work) {
  Call call(Collective::kAllReduce, group, dtype, work);
  call.request.input = call.one(input, count);
  call.request.output = call.one(output, count);
  return call.weighs(weight).go();
}

hf_status hf_broadcast(hf_group* group, void* buffer, uint64_t count, hf_dtype dtype, int32_t root,
                       hf_work** work) {
  Call call(Collective::kBroadcast, group, dtype, work);
  call.request.root = {root};
  call.request.input = call.request.output = call.one(buffer, count);
  return call.go();
}

hf_status hf_reduce(hf_group* group, const void* input, void* output, uint64_t count,
                    hf_dtype dtype, hf_op op, int32_t root, hf_work** work) {
  Call call(Collective::kReduce, group, dtype, work);
  call.request.root = {root};
  call.request.input = call.one(input, count);
  if (call.is_root()) call.request.output = call.one(output, count);
  return call.reduces(op).go();
}

hf_status hf_all_gather(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_work** work) {
  Call call(Collective::kAllGather, group, dtype, work);
  call.request.input = call.one(input, count);
  call.request.output = call.equal(output, count);
  return call.go();
}

hf_status hf_all_gatherv(hf_group* group, const void* input, void* output, const uint64_t* counts,
                         hf_dtype dtype, hf_work** work) {
  Call call(Collective::kAllGather, group, dtype, work);
  call.request.output = call.split(output, counts);
  if (call.wrong.is_ok()) call.request.input = call.one(input, counts[hf_group_rank(group)]);
  return call.go();
}

hf_status hf_reduce_scatter(hf_group* group, const void* input, void* output, uint64_t count,
                            hf_dtype dtype, hf_op op, hf_work** work) {
  Call call(Collective::kReduceScatter, group, dtype, work);
  call.request.input = call.equal(input, count);
  call.request.output = call.one(output, count);
  return call.reduces(op).go();
}

hf_status hf_reduce_scatter_weighted(hf_group* group, const void* input, void* output,
                                     uint64_t count, hf_dtype dtype, double weight,
                                     hf_work** work) {
  Call call(Collective::kReduceScatter, group, dtype, work);
  call.request.input = call.equal(input, count);
  call.request.output = call.one(output, count);
  return call.weighs(weight).go();
}

hf_status hf_reduce_scatterv(hf_group* group, const void* input, void* output,
                             const uint64_t* counts, hf_dtype dtype, hf_op op, hf_work** work) {
  Call call(Collective::kReduceScatter, group, dtype, work);
  call.request.input = call.split(input, counts);
  if (call.wrong.is_ok()) call.request.output = call.one(output, counts[hf_group_rank(group)]);
  return call.reduces(op).go();
}

hf_status hf_all_to_all(hf_group* group, const void* input, void* output, uint64_t count,
                        hf_dtype dtype, hf_work** work) {
  Call call(Collective::kAllToAll, group, dtype, work);
  call.request.equal_blocks = true;
  call.request.input = call.equal(input, count);
  call.request.output = call.equal(output, count);
  return call.go();
}

hf_status hf_all_to_allv(hf_group* group, const void* input, const uint64_t* input_counts,
                         void* output, const uint64_t* output_counts, hf_dtype dtype,
                         hf_work** work) {
  Call call(Collective::kAllToAll, group, dtype, work);
  call.request.input = call.split(input, input_counts);
  call.request.output = call.split(output, output_counts);
  return call.go();
}

hf_status hf_gather(hf_group* group, const void* input, void* output, uint64_t count,
                    hf_dtype dtype, int32_t root, hf_work** work) {
  Call call(Collective::kGather, group, dtype, work);
  call.says_equal();
  call.request.root = {root};
  call.request.input = call.one(input, count);
  if (call.is_root()) call.request.output = call.equal(output, count);
  return call.go();
}

hf_status hf_scatter(hf_group* group, const void* input, void* output, uint64_t count,
                     hf_dtype dtype, int32_t root, hf_work** work) {
  Call call(Collective::kScatter, group, dtype, work);
  call.says_equal();
  call.request.root = {root};
  if (call.is_root()) call.request.input = call.equal(input, count);
  call.request.output = call.one(output, count);
  return call.go();
}

hf_status hf_barrier(hf_group* group, hf_work** work) {
  return Call(Collective::kBarrier, group, HF_U8, work).go();
}

hf_status hf_send(hf_group* group, const void* buffer, uint64_t count, hf_dtype dtype, int32_t peer,
                  uint32_t tag, hf_work** work) {
  Call call(Collective::kSend, group, dtype, work);
  call.request.peer = {peer};
  call.request.tag = tag;
  call.request.input = call.one(buffer, count);
  return call.go();
}

hf_status hf_recv(hf_group* group, void* buffer, uint64_t count, hf_dtype dtype, int32_t peer,
                  uint32_t tag, int32_t* source, hf_work** work) {
  Call call(Collective::kRecv, group, dtype, work);
  call.request.peer = {peer};
  call.request.tag = tag;
  call.request.output = call.one(buffer, count);
  return call.go(source);
}

hf_status hf_work_test(hf_work* work, int* done) {
  return c::guarded([&]() -> Status {
    if (work == nullptr || done == nullptr) return c::missing("work or done");
    *done = work->work->done() ? 1 : 0;
    return Status::ok();
  });
}

hf_status hf_work_wait(hf_work* work, int64_t timeout_ns) {
  return c::guarded([&]() -> Status {
    if (work == nullptr) return c::missing("work");
    return work->work->wait(timeout_ns < 0 ? kForever : Duration(timeout_ns));
  });
}

int32_t hf_work_source(const hf_work* work) {
  if (work == nullptr || !work->work->done()) return HF_ANY_SOURCE;
  return work->work->source().value;
}

namespace {

size_t copy_ranks(const std::vector<Rank>& from, int32_t* ranks, size_t capacity) {
  for (std::size_t i = 0; i < from.size() && i < capacity; ++i) ranks[i] = from[i].value;
  return from.size();
}

bool has_outcome(const hf_work* work) {
  return work != nullptr && work->work->done() && work->work->status().is_ok();
}

}  // namespace

hf_status hf_work_outcome(const hf_work* work, hf_outcome* outcome) {
  return c::guarded([&]() -> Status {
    if (work == nullptr || outcome == nullptr) return c::missing("work or outcome");
    if (!has_outcome(work)) {
      return Status{Code::kConfigError, "the op has not ended well; hf_work_wait() for it first"};
    }
    const comm::Outcome& from = work->work->outcome();
    *outcome = {from.epoch.value, from.retried ? 1 : 0};
    return Status::ok();
  });
}

size_t hf_work_contributors(const hf_work* work, int32_t* ranks, size_t capacity) {
  return has_outcome(work) ? copy_ranks(work->work->outcome().contributors, ranks, capacity) : 0;
}

size_t hf_work_missing(const hf_work* work, int32_t* ranks, size_t capacity) {
  return has_outcome(work) ? copy_ranks(work->work->outcome().missing, ranks, capacity) : 0;
}

size_t hf_group_live_ranks(const hf_group* group, int32_t* ranks, size_t capacity) {
  return group == nullptr ? 0 : copy_ranks(group->group->live_ranks(), ranks, capacity);
}

void hf_work_free(hf_work* work) { delete work; }

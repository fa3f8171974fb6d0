// Turns every collective of c10d into requests to the communicator: this file only maps tensors to
// blocks.
#include <ATen/ops/scalar_tensor.h>

#include <optional>

#include "backend.h"
#include "raise.h"

namespace holdfast::torch_backend {
namespace {

using comm::Collective;

ReduceOp reduce_op(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return ReduceOp::kSum;
    case c10d::ReduceOp::AVG: return ReduceOp::kAvg;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::kProduct;
    case c10d::ReduceOp::MIN: return ReduceOp::kMin;
    case c10d::ReduceOp::MAX: return ReduceOp::kMax;
    case c10d::ReduceOp::BAND: return ReduceOp::kBand;
    case c10d::ReduceOp::BOR: return ReduceOp::kBor;
    case c10d::ReduceOp::BXOR: return ReduceOp::kBxor;
    case c10d::ReduceOp::PREMUL_SUM: return ReduceOp::kSum;  // sums the results of scaled()
    default:
      raise({Code::kUnsupported,
             "reduction op " + std::to_string(static_cast<int>(op.op_)) +
                 "; accepted: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM"});
  }
}

// PREMUL_SUM: multiplies this rank's contribution by its factor, in the tensor's own dtype.
std::optional<Tensor> scaled(const Tensor& tensor, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return std::nullopt;
  // Its name in 2.11 and 2.12, which later versions keep as an alias.
  const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (factor == nullptr) raise({Code::kConfigError, "PREMUL_SUM without a factor"});
  const auto type = tensor.scalar_type();
  // fp8 has no arithmetic, so f32 is used.
  const auto compute = at::isFloat8Type(type) ? at::kFloat : type;
  const Tensor by = factor->tensor_factor.defined()
                        ? factor->tensor_factor.reshape({}).to(tensor.device(), compute)
                        : at::scalar_tensor(factor->double_factor, at::dtype(compute));
  const at::NoGradGuard no_grad;
  return tensor.to(compute).mul(by).to(type);
}

template <class O>
CallOptions call_of(const O& opts) {
  return {opts.timeout, opts.asyncOp};
}

// c10d passes lists of tensors, one per device; a process has one.
const Tensor& single(const TensorList& tensors, const char* op) {
  if (tensors.size() != 1) {
    raise({Code::kConfigError, std::string(op) + ": " + std::to_string(tensors.size()) +
                                   " tensors; accepted: one per process"});
  }
  return tensors[0];
}

const TensorList& single(const std::vector<TensorList>& lists, const char* op) {
  if (lists.size() != 1) {
    raise({Code::kConfigError, std::string(op) + ": " + std::to_string(lists.size()) +
                                   " lists of tensors; accepted: one per process"});
  }
  return lists[0];
}

void require_equal(std::size_t a, std::size_t b, const char* op) {
  if (a == b) return;
  raise({Code::kConfigError, std::string(op) + ": " + std::to_string(a) + " outputs for " +
                                 std::to_string(b) + " inputs"});
}

std::vector<comm::Block> inputs_of(Tensors& tensors, const TensorList& list) {
  std::vector<comm::Block> blocks;
  for (const Tensor& t : list) blocks.push_back(tensors.input(t));
  return blocks;
}

std::vector<comm::Block> outputs_of(Tensors& tensors, const TensorList& list) {
  std::vector<comm::Block> blocks;
  for (const Tensor& t : list) blocks.push_back(tensors.output(t));
  return blocks;
}

}  // namespace

HoldfastBackend::Item HoldfastBackend::all_reduce_item(const Tensor& tensor,
                                                       const c10d::ReduceOp& op) {
  Item item{{}, Tensors("all_reduce")};
  item.request.collective = Collective::kAllReduce;
  item.request.op = reduce_op(op);
  item.request.input = item.request.output = {item.tensors.both(tensor)};
  if (const auto own = scaled(tensor, op)) item.request.input = {item.tensors.input(*own)};
  item.request.dtype = item.tensors.reduced();
  return item;
}

WorkPtr HoldfastBackend::allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) {
  const Tensor& tensor = single(tensors, "all_reduce");
  if (tensor.is_sparse()) return allreduce_sparse(tensors, opts);
  std::vector<Item> items;
  items.push_back(all_reduce_item(tensor, opts.reduceOp));
  return go({OpType::ALLREDUCE, "holdfast:all_reduce", tensors, tensors}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::allreduce_coalesced(TensorList& tensors,
                                             const c10d::AllreduceCoalescedOptions& opts) {
  std::vector<Item> items;
  for (const Tensor& t : tensors) items.push_back(all_reduce_item(t, opts.reduceOp));
  return go({OpType::ALLREDUCE_COALESCED, "holdfast:all_reduce", tensors, tensors},
            std::move(items), call_of(opts));
}

WorkPtr HoldfastBackend::broadcast(TensorList& tensors, const c10d::BroadcastOptions& opts) {
  Item item{{}, Tensors("broadcast")};
  const Tensor& tensor = single(tensors, "broadcast");
  const bool root = opts.rootRank == getRank();
  item.request.collective = Collective::kBroadcast;
  item.request.input = {root ? item.tensors.input(tensor) : item.tensors.output(tensor)};
  item.request.output = item.request.input;
  item.request.root = {static_cast<int>(opts.rootRank)};
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::BROADCAST, "holdfast:broadcast", tensors, tensors}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::reduce(TensorList& tensors, const c10d::ReduceOptions& opts) {
  Item item{{}, Tensors("reduce")};
  const Tensor& tensor = single(tensors, "reduce");
  const bool root = opts.rootRank == getRank();
  item.request.collective = Collective::kReduce;
  item.request.op = reduce_op(opts.reduceOp);
  item.request.input = {root ? item.tensors.both(tensor) : item.tensors.input(tensor)};
  if (root) item.request.output = item.request.input;
  if (const auto own = scaled(tensor, opts.reduceOp)) {
    item.request.input = {item.tensors.input(*own)};
  }
  item.request.root = {static_cast<int>(opts.rootRank)};
  item.request.dtype = item.tensors.reduced();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::REDUCE, "holdfast:reduce", tensors, tensors}, std::move(items), call_of(opts));
}

HoldfastBackend::Item HoldfastBackend::all_gather_item(const TensorList& outputs,
                                                       const Tensor& input) {
  Item item{{}, Tensors("all_gather")};
  item.request.collective = Collective::kAllGather;
  item.request.input = {item.tensors.input(input)};
  item.request.output = outputs_of(item.tensors, outputs);
  item.request.dtype = item.tensors.moved();
  return item;
}

HoldfastBackend::Item HoldfastBackend::all_gather_item(const Tensor& output, const Tensor& input) {
  Item item{{}, Tensors("all_gather")};
  item.request.collective = Collective::kAllGather;
  item.request.input = {item.tensors.input(input)};
  item.request.output = item.tensors.equal(item.tensors.output(output), getSize());
  item.request.dtype = item.tensors.moved();
  return item;
}

WorkPtr HoldfastBackend::allgather(std::vector<TensorList>& outputs, TensorList& inputs,
                                   const c10d::AllgatherOptions& opts) {
  const TensorList& list = single(outputs, "all_gather");
  std::vector<Item> items;
  items.push_back(all_gather_item(list, single(inputs, "all_gather")));
  return go({OpType::ALLGATHER, "holdfast:all_gather", inputs, list}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::_allgather_base(Tensor& output, Tensor& input,
                                         const c10d::AllgatherOptions& opts) {
  std::vector<Item> items;
  items.push_back(all_gather_item(output, input));
  return go({OpType::_ALLGATHER_BASE, "holdfast:all_gather", {input}, {output}}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::allgather_coalesced(std::vector<TensorList>& outputs, TensorList& inputs,
                                             const c10d::AllgatherOptions& opts) {
  // outputs[rank][i] receives inputs[i] of that rank.
  std::vector<Item> items;
  TensorList results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorList of_input;
    for (const TensorList& of_rank : outputs) {
      require_equal(of_rank.size(), inputs.size(), "all_gather_coalesced");
      of_input.push_back(of_rank[i]);
    }
    results.insert(results.end(), of_input.begin(), of_input.end());
    items.push_back(all_gather_item(of_input, inputs[i]));
  }
  return go({OpType::ALLGATHER_COALESCED, "holdfast:all_gather", inputs, std::move(results)},
            std::move(items), call_of(opts));
}

WorkPtr HoldfastBackend::allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                         const c10d::AllgatherOptions& opts) {
  require_equal(outputs.size(), inputs.size(), "all_gather_into_tensor_coalesced");
  std::vector<Item> items;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    items.push_back(all_gather_item(outputs[i], inputs[i]));
  }
  return go({OpType::COALESCED, "holdfast:all_gather", inputs, outputs}, std::move(items),
            call_of(opts));
}

HoldfastBackend::Item HoldfastBackend::reduce_scatter_item(const Tensor& output,
                                                           const TensorList& inputs,
                                                           const c10d::ReduceOp& op) {
  Item item{{}, Tensors("reduce_scatter")};
  item.request.collective = Collective::kReduceScatter;
  item.request.op = reduce_op(op);
  TensorList own;
  for (const Tensor& t : inputs) own.push_back(scaled(t, op).value_or(t));
  item.request.input = inputs_of(item.tensors, own);
  item.request.output = {item.tensors.output(output)};
  item.request.dtype = item.tensors.reduced();
  return item;
}

HoldfastBackend::Item HoldfastBackend::reduce_scatter_item(const Tensor& output,
                                                           const Tensor& input,
                                                           const c10d::ReduceOp& op) {
  Item item{{}, Tensors("reduce_scatter")};
  item.request.collective = Collective::kReduceScatter;
  item.request.op = reduce_op(op);
  item.request.input =
      item.tensors.equal(item.tensors.input(scaled(input, op).value_or(input)), getSize());
  item.request.output = {item.tensors.output(output)};
  item.request.dtype = item.tensors.reduced();
  return item;
}

WorkPtr HoldfastBackend::reduce_scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                                        const c10d::ReduceScatterOptions& opts) {
  const Tensor& output = single(outputs, "reduce_scatter");
  std::vector<Item> items;
  items.push_back(reduce_scatter_item(output, single(inputs, "reduce_scatter"), opts.reduceOp));
  return go({OpType::REDUCE_SCATTER, "holdfast:reduce_scatter", single(inputs, "reduce_scatter"),
             outputs},
            std::move(items), call_of(opts));
}

WorkPtr HoldfastBackend::_reduce_scatter_base(Tensor& output, Tensor& input,
                                              const c10d::ReduceScatterOptions& opts) {
  std::vector<Item> items;
  items.push_back(reduce_scatter_item(output, input, opts.reduceOp));
  return go({OpType::_REDUCE_SCATTER_BASE, "holdfast:reduce_scatter", {input}, {output}},
            std::move(items), call_of(opts));
}

WorkPtr HoldfastBackend::reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                         const c10d::ReduceScatterOptions& opts) {
  require_equal(outputs.size(), inputs.size(), "reduce_scatter_tensor_coalesced");
  std::vector<Item> items;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    items.push_back(reduce_scatter_item(outputs[i], inputs[i], opts.reduceOp));
  }
  return go({OpType::COALESCED, "holdfast:reduce_scatter", inputs, outputs}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::alltoall_base(Tensor& output, Tensor& input,
                                       std::vector<int64_t>& output_splits,
                                       std::vector<int64_t>& input_splits,
                                       const c10d::AllToAllOptions& opts) {
  Item item{{}, Tensors("all_to_all")};
  item.request.collective = Collective::kAllToAll;
  const comm::Block in = item.tensors.input(input);
  const comm::Block out = item.tensors.output(output);
  item.request.input = item.tensors.rows(in, input, getSize(), input_splits);
  item.request.output = item.tensors.rows(out, output, getSize(), output_splits);
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::ALLTOALL_BASE, "holdfast:all_to_all", {input}, {output}}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::alltoall(TensorList& outputs, TensorList& inputs,
                                  const c10d::AllToAllOptions& opts) {
  Item item{{}, Tensors("all_to_all")};
  item.request.collective = Collective::kAllToAll;
  item.request.input = inputs_of(item.tensors, inputs);
  item.request.output = outputs_of(item.tensors, outputs);
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::ALLTOALL, "holdfast:all_to_all", inputs, outputs}, std::move(items),
            call_of(opts));
}

WorkPtr HoldfastBackend::gather(std::vector<TensorList>& outputs, TensorList& inputs,
                                const c10d::GatherOptions& opts) {
  Item item{{}, Tensors("gather")};
  const bool root = opts.rootRank == getRank();
  item.request.collective = Collective::kGather;
  item.request.input = {item.tensors.input(single(inputs, "gather"))};
  TensorList results;
  if (root) results = single(outputs, "gather");
  item.request.output = outputs_of(item.tensors, results);
  item.request.root = {static_cast<int>(opts.rootRank)};
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::GATHER, "holdfast:gather", inputs, std::move(results)}, std::move(items),
            call_of(opts));
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
WorkPtr HoldfastBackend::gather_into_tensor(Tensor& output, Tensor& input,
                                            const c10d::GatherOptions& opts) {
  Item item{{}, Tensors("gather")};
  const bool root = opts.rootRank == getRank();
  item.request.collective = Collective::kGather;
  item.request.input = {item.tensors.input(input)};
  if (root) item.request.output = item.tensors.equal(item.tensors.output(output), getSize());
  item.request.root = {static_cast<int>(opts.rootRank)};
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::GATHER, "holdfast:gather", {input}, root ? TensorList{output} : TensorList{}},
            std::move(items), call_of(opts));
}
#endif

WorkPtr HoldfastBackend::scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                                 const c10d::ScatterOptions& opts) {
  Item item{{}, Tensors("scatter")};
  const bool root = opts.rootRank == getRank();
  item.request.collective = Collective::kScatter;
  item.request.output = {item.tensors.output(single(outputs, "scatter"))};
  if (root) item.request.input = inputs_of(item.tensors, single(inputs, "scatter"));
  item.request.root = {static_cast<int>(opts.rootRank)};
  item.request.dtype = item.tensors.moved();
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::SCATTER, "holdfast:scatter", root ? inputs[0] : TensorList{}, outputs},
            std::move(items), call_of(opts));
}

WorkPtr HoldfastBackend::barrier(const c10d::BarrierOptions& opts) {
  Item item{{}, Tensors("barrier")};
  item.request.collective = Collective::kBarrier;
  std::vector<Item> items;
  items.push_back(std::move(item));
  return go({OpType::BARRIER, "holdfast:barrier", {}, {}}, std::move(items), call_of(opts));
}

HoldfastBackend::Item HoldfastBackend::message_item(const TensorList& tensors, Collective kind,
                                                    int peer, int tag) {
  const bool sends = kind == Collective::kSend;
  const char* name = sends ? "send" : "recv";
  Item item{{}, Tensors(name)};
  const Tensor& tensor = single(tensors, name);
  item.request.collective = kind;
  if (sends) item.request.input = {item.tensors.input(tensor)};
  if (!sends) item.request.output = {item.tensors.output(tensor)};
  item.request.peer = {peer};
  if (tag < 0 || static_cast<std::uint32_t>(tag) >= kMonitorTag) {
    raise({Code::kConfigError, std::string(name) + ": tag " + std::to_string(tag) +
                                   "; accepted: 0 to " + std::to_string(kMonitorTag - 1)});
  }
  item.request.tag = static_cast<std::uint32_t>(tag);
  item.request.dtype = item.tensors.moved();
  return item;
}

WorkPtr HoldfastBackend::send(TensorList& tensors, int dst, int tag) {
  std::vector<Item> items;
  items.push_back(message_item(tensors, Collective::kSend, dst, tag));
  return go({OpType::SEND, "holdfast:send", tensors, tensors}, std::move(items),
            {c10d::kUnsetTimeout, true});
}

WorkPtr HoldfastBackend::recv(TensorList& tensors, int src, int tag) {
  std::vector<Item> items;
  items.push_back(message_item(tensors, Collective::kRecv, src, tag));
  return go({OpType::RECV, "holdfast:recv", tensors, tensors}, std::move(items),
            {c10d::kUnsetTimeout, true});
}

WorkPtr HoldfastBackend::recvAnysource(TensorList& tensors, int tag) {
  std::vector<Item> items;
  items.push_back(message_item(tensors, Collective::kRecv, comm::kAnySource.value, tag));
  return go({OpType::RECVANYSOURCE, "holdfast:recvAnySource", tensors, tensors}, std::move(items),
            {c10d::kUnsetTimeout, true});
}

}  // namespace holdfast::torch_backend

// All-reduce of sparse (COO) tensors: every rank gathers the entries of all ranks and adds them up.
// The numbers of entries differ by rank, so they are exchanged first; that small exchange blocks
// the caller, the large ones that follow do not.
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <c10/core/InferenceMode.h>

#include "backend.h"
#include "gil.h"
#include "raise.h"

namespace holdfast::torch_backend {
namespace {

// A tensor of the number of entries, the sparse dimensions, and the sizes.
Tensor describe(const Tensor& tensor) {
  std::vector<int64_t> facts{tensor._nnz(), tensor.sparse_dim()};
  facts.insert(facts.end(), tensor.sizes().begin(), tensor.sizes().end());
  return at::tensor(facts, at::kLong);
}

void require_same_shape(const std::vector<Tensor>& facts, int rank) {
  const Tensor own = facts[static_cast<std::size_t>(rank)].slice(0, 1);
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const bool is_away = !facts[r].any().item<bool>();
    if (is_away || facts[r].slice(0, 1).equal(own)) continue;
    raise({Code::kProtocolError,
           "all_reduce of sparse tensors: calls do not match: sparse dimensions and sizes are " +
               c10::str(at::IntArrayRef(own.data_ptr<int64_t>(),
                                        static_cast<std::size_t>(own.numel()))) +
               " on rank " + std::to_string(rank) + " and others on rank " + std::to_string(r)});
  }
}

}  // namespace

WorkPtr HoldfastBackend::allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& opts) {
  refuse_in_child();
  TORCH_CHECK(tensors.size() == 1, "all_reduce: one sparse tensor per process");
  const Tensor tensor = tensors[0];
  if (opts.reduceOp.op_ != c10d::ReduceOp::SUM) {
    raise({Code::kUnsupported, "all_reduce of sparse tensors; accepted: SUM"});
  }
  if (!tensor.device().is_cpu()) {
    raise({Code::kUnsupported,
           "all_reduce of a sparse tensor on " + tensor.device().str() + "; accepted: on cpu"});
  }
  if (coalescing_) raise({Code::kUnsupported, "all_reduce of sparse tensors while coalescing"});
  const Tensor own = tensor.coalesce();
  Tensor mine = describe(own);
  TensorList facts;
  for (int r = 0; r < getSize(); ++r) facts.push_back(at::empty_like(mine));
  // The sum goes on without ranks that are away: they count as having no entries.
  const auto gather_item = [&](const TensorList& outputs, const Tensor& input) {
    Item item = all_gather_item(outputs, input);
    item.request.on_hole = comm::OnHole::kZero;
    return item;
  };
  {
    std::vector<Item> items;
    items.push_back(gather_item(facts, mine));
    const WithoutGil release;
    go({OpType::ALLGATHER, "holdfast:all_gather", {mine}, facts}, std::move(items),
       {opts.timeout, false})
        ->wait();
  }
  require_same_shape(facts, getRank());

  TensorList indices;
  TensorList values;
  for (const Tensor& of_rank : facts) {
    const int64_t entries = of_rank.data_ptr<int64_t>()[0];
    auto shape = own.values().sizes().vec();
    shape[0] = entries;
    indices.push_back(at::empty({own.sparse_dim(), entries}, at::kLong));
    values.push_back(at::empty(shape, own.values().options()));
  }
  std::vector<Item> items;
  items.push_back(gather_item(indices, own.indices()));
  items.push_back(gather_item(values, own.values()));
  items.back().tensors.when_stored([tensor, indices, values] {
    const c10::InferenceMode no_autograd;
    Tensor result = tensor;
    result.copy_(at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values, 0),
                                               tensor.sizes(), tensor.options())
                     .coalesce());
  });
  return go({OpType::_ALLREDUCE_SPARSE, "holdfast:sparse_all_reduce", tensors, tensors},
            std::move(items), {opts.timeout, opts.asyncOp});
}

}  // namespace holdfast::torch_backend

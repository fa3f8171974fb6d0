#include "comm/call/request_check.h"

#include "comm/algorithms/catalogue.h"
#include "comm/reduce/weighing.h"
#include "comm/transport/frame.h"

namespace holdfast::comm {
namespace {

struct Counts {
  std::size_t input;
  std::size_t output;
};

// How many blocks collective.h asks of this rank.
Counts expected_blocks(const OpRequest& request, Rank rank, int size) {
  const CollectiveFacts& facts = facts_of(request.collective);
  const bool root = request.root == rank;
  return {block_count(facts.input, root, size), block_count(facts.output, root, size)};
}

std::string name(const OpRequest& request) {
  return std::string(collective_name(request.collective));
}

Status out_of_range(const OpRequest& request, const char* what, Rank value, int size) {
  return {Code::kConfigError, name(request) + ": " + what + " " + std::to_string(value.value) +
                                  " is not a rank of this group; accepted: 0 to " +
                                  std::to_string(size - 1)};
}

bool in_range(Rank rank, int size) { return rank.value >= 0 && rank.value < size; }

Status check_peer(const OpRequest& request, Rank rank, int size) {
  const bool any = request.collective == Collective::kRecv && request.peer == kAnySource;
  if (!any && !in_range(request.peer, size))
    return out_of_range(request, "peer", request.peer, size);
  if (request.peer == rank) {
    return {Code::kConfigError, name(request) + ": rank " + std::to_string(rank.value) +
                                    " cannot exchange a message with itself"};
  }
  if (request.tag >= kPointToPoint) {
    return {Code::kConfigError, name(request) + ": tag " + std::to_string(request.tag) +
                                    " is too large; accepted: 0 to 2147483647"};
  }
  return Status::ok();
}

Status check_sizes(const OpRequest& request, Rank rank) {
  const std::uint64_t limit = kMaxMessageBytes / request.element_bytes();
  for (const auto* blocks : {&request.input, &request.output}) {
    // Rank 0 of an exclusive scan has no result, and need not have room for one.
    const bool unused =
        request.collective == Collective::kExscan && rank == Rank{0} && blocks == &request.output;
    for (const Block& block : *blocks) {
      if (unused && block.count <= limit) continue;
      if (block.count > limit || (block.count > 0 && block.data == nullptr)) {
        return {Code::kConfigError, name(request) + ": a block of " + std::to_string(block.count) +
                                        " elements has no memory or is too large"};
      }
    }
  }
  if (!may_be_in_place(request.collective)) {
    for (const Block& in : request.input) {
      for (const Block& out : request.output) {
        if (in.count == 0 || out.count == 0 || in.data != out.data) continue;
        return {Code::kConfigError,
                name(request) + ": input and output share memory; pass a separate output"};
      }
    }
  }
  return Status::ok();
}

// What a rank gives to itself: its own input and output block have one size. The engine relies on
// it, since it moves as many bytes as the destination holds.
Status check_own_block(const OpRequest& request, Rank rank) {
  if (request.input.empty() || request.output.empty()) return Status::ok();
  const auto own = [&](const BlockList& blocks) {
    return blocks[blocks.size() == 1 ? 0 : static_cast<std::size_t>(rank.value)].count;
  };
  if (own(request.input) == own(request.output)) return Status::ok();
  return {Code::kConfigError, name(request) + ": rank " + std::to_string(rank.value) +
                                  "'s own block has " + std::to_string(own(request.input)) +
                                  " elements in the input and " +
                                  std::to_string(own(request.output)) + " in the output"};
}

Status check_equal_blocks(const OpRequest& request) {
  // At other ranks than the root one side has no blocks.
  const Block& first = (request.input.empty() ? request.output : request.input)[0];
  for (const auto* blocks : {&request.input, &request.output}) {
    for (const Block& block : *blocks) {
      if (block.count == first.count) continue;
      return {Code::kConfigError, name(request) + ": blocks of " + std::to_string(first.count) +
                                      " and " + std::to_string(block.count) +
                                      " elements are not equal, as equal_blocks says"};
    }
  }
  return Status::ok();
}

Status unsupported(const OpRequest& request, const std::string& what, const std::string& accepted) {
  return {Code::kUnsupported, name(request) + ": codec " + request.codec->text() + " " + what +
                                  "; accepted: " + accepted};
}

// Names of the codecs or dtypes that `takes` likes.
template <class Items, class Takes, class Name>
std::string list_of(const Items& items, Takes takes, Name name_of) {
  std::string text;
  for (const auto& item : items) {
    if (takes(item)) text += (text.empty() ? "" : ", ") + std::string(name_of(item));
  }
  return text;
}

Status check_residual(const OpRequest& request) {
  if (request.residual.empty()) return Status::ok();
  bool whole = request.residual.size() == request.input.size();
  for (std::size_t i = 0; whole && i < request.residual.size(); ++i) {
    whole = request.residual[i] != nullptr || request.input[i].count == 0;
  }
  if (whole && request.codec && request.codec->spec().takes_residual) return Status::ok();
  return {Code::kConfigError,
          name(request) + ": a residual of " + std::to_string(request.residual.size()) +
              " blocks; accepted: a lossy codec, and a float32 for every element of the input"};
}

// Sums of frames are taken in f32.
bool takes(const compress::Codec& codec, Collective collective, DType dtype) {
  const bool widens = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  return codec.takes(dtype) && (widens || !reduces(collective));
}

Status check_codec(const OpRequest& request) {
  const compress::Codec& codec = *request.codec;
  if (find_encoded(request.collective) == nullptr) {
    const auto all = [](const AlgorithmRow&) { return true; };
    return unsupported(request, "is not for this op",
                       list_of(encoded_catalogue(), all, [](const AlgorithmRow& row) {
                         return collective_name(row.collective);
                       }));
  }
  if (!takes(codec, request.collective, request.dtype)) {
    std::string accepted;
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (takes(codec, request.collective, dtype))
        accepted += (accepted.empty() ? "" : ", ") + std::string(dtype_name(dtype));
    }
    return unsupported(request, "does not take " + std::string(dtype_name(request.dtype)),
                       accepted);
  }
  if (reduces(request.collective) && request.op != ReduceOp::kSum && request.op != ReduceOp::kAvg) {
    return unsupported(request, "does not go with " + std::string(reduce_op_name(request.op)),
                       "sum, avg");
  }
  const AlgorithmRow* row = find_encoded(request.collective, request.algorithm);
  const auto fits = [&](const AlgorithmRow& one) {
    return one.takes_residual || request.residual.empty();
  };
  if (row != nullptr && fits(*row)) return Status::ok();
  const std::string also = request.residual.empty() ? " with a codec" : " with a residual";
  return {Code::kConfigError,
          name(request) + ": algorithm \"" + request.algorithm + "\"" + also + "; accepted: " +
              list_of(
                  encoded_catalogue(),
                  [&](const AlgorithmRow& other) {
                    return other.collective == request.collective && fits(other);
                  },
                  [](const AlgorithmRow& other) { return other.algorithm; })};
}

Status check_algorithm(const OpRequest& request) {
  const AlgorithmRow* row = find_algorithm(request.collective, request.algorithm);
  const bool ordered = request.keeps_order();
  if (row == nullptr || (ordered && !row->keeps_order())) {
    std::string accepted;
    for (const AlgorithmRow& other : catalogue()) {
      if (other.collective != request.collective || (ordered && !other.keeps_order())) continue;
      accepted += " " + std::string(other.algorithm);
    }
    return {Code::kConfigError, name(request) + ": no algorithm \"" + request.algorithm + "\"" +
                                    (ordered ? " that folds in the order of ranks" : "") +
                                    "; accepted:" + accepted};
  }
  if (row->blocks == Blocks::kAny) return Status::ok();
  for (const auto* blocks : {&request.input, &request.output}) {
    for (const Block& block : *blocks) {
      if (block.count == request.input[0].count) continue;
      return {Code::kConfigError,
              name(request) + ": algorithm \"" + request.algorithm +
                  "\" takes equal blocks on all ranks, this rank has blocks of " +
                  std::to_string(request.input[0].count) + " and " + std::to_string(block.count) +
                  " elements; \"pairwise\" takes any"};
    }
  }
  return Status::ok();
}

Status refuse_user(const OpRequest& request, const std::string& what) {
  return {Code::kConfigError, name(request) + ": " + what};
}

// `kUser` and an operator go together, and its elements are the caller's business.
Status check_user(const OpRequest& request) {
  if (request.user == nullptr) {
    if (request.op != ReduceOp::kUser) return Status::ok();
    return refuse_user(request, "op user without an operator");
  }
  const UserOp& user = *request.user;
  if (!reduces(request.collective) || request.op != ReduceOp::kUser || !user.apply) {
    return refuse_user(request,
                       "a user operator goes with a reduction and op user, and has a function");
  }
  if (user.element_bytes == 0 || user.element_bytes > kMostUserElement) {
    return refuse_user(request, "elements of " + std::to_string(user.element_bytes) +
                                    " bytes; accepted: 1 to " + std::to_string(kMostUserElement));
  }
  if (request.dtype == DType::kU8 && !request.how.on_device) return Status::ok();
  return {Code::kUnsupported, name(request) + ": a user operator on " +
                                  (request.how.on_device ? "memory of a device" : "elements") +
                                  " of dtype " + std::string(dtype_name(request.dtype)) +
                                  "; accepted: the host's memory, dtype u8"};
}

// A codec rounds and sums in an order of its own.
Status check_order(const OpRequest& request) {
  if (!request.codec || !request.keeps_order()) return Status::ok();
  return unsupported(request, "does not fold in the order of ranks", "no codec");
}

// A scan has no number of ranks that an average could be divided by on all of them alike.
bool is_defined(const OpRequest& request) {
  if (is_scan(request.collective) && request.op == ReduceOp::kAvg) return false;
  return request.user != nullptr || reduce_defined(request.dtype, request.op);
}

Status check_weight(const OpRequest& request) {
  if (!request.weight) return Status::ok();
  if (!is_weight(*request.weight)) {
    return {Code::kConfigError, name(request) + ": weight " + std::to_string(*request.weight) +
                                    "; accepted: a finite number, 0 or more"};
  }
  if (!reduces(request.collective) || request.op != ReduceOp::kAvg) {
    const bool sums = reduces(request.collective);
    return {Code::kConfigError,
            name(request) + ": a weight" +
                (sums ? " with " + std::string(reduce_op_name(request.op)) : std::string()) +
                "; accepted: with a reduction and op avg"};
  }
  if (takes_weights(request.dtype)) return Status::ok();
  return {Code::kUnsupported, name(request) + ": a weight with elements of dtype " +
                                  std::string(dtype_name(request.dtype)) +
                                  "; accepted: " + weighable_dtypes()};
}

}  // namespace

std::uint64_t payload_bytes(const OpRequest& request) {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (const Block& b : request.input) in += b.count;
  for (const Block& b : request.output) out += b.count;
  return std::max(in, out) * request.element_bytes();
}

bool is_sized_alike(const OpRequest& request) {
  return is_sized_alike(request.collective, request.equal_blocks);
}

bool is_worth_coding(const OpRequest& request, const compress::Codec& codec, std::uint64_t least) {
  if (find_encoded(request.collective) == nullptr || !request.algorithm.empty()) return false;
  if (!takes(codec, request.collective, request.dtype)) return false;
  // Control data of a late join must arrive as it is.
  const std::uint64_t bytes = payload_bytes(request);
  if (request.how.at_entrance || bytes < least || request.keeps_order()) return false;
  if (reduces(request.collective)) {
    if (request.op != ReduceOp::kSum && request.op != ReduceOp::kAvg) return false;
  } else if (!codec.spec().lossless || !is_sized_alike(request)) {
    return false;
  }
  return codec.spec().lossless ||
         codec.encoded_bound(request.dtype, bytes / request.element_bytes()) < bytes;
}

Status check_request(const OpRequest& request, Rank rank, int size) {
  const Counts expected = expected_blocks(request, rank, size);
  if (request.input.size() != expected.input || request.output.size() != expected.output) {
    return {Code::kConfigError, name(request) + " on " + std::to_string(size) + " ranks takes " +
                                    std::to_string(expected.input) + " input and " +
                                    std::to_string(expected.output) + " output blocks, got " +
                                    std::to_string(request.input.size()) + " and " +
                                    std::to_string(request.output.size())};
  }
  if (is_rooted(request.collective) && !in_range(request.root, size)) {
    return out_of_range(request, "root", request.root, size);
  }
  if (is_point_to_point(request.collective)) TRY(check_peer(request, rank, size));
  TRY(check_user(request));
  if (reduces(request.collective) && !is_defined(request)) {
    return {Code::kUnsupported, name(request) + ": " + std::string(reduce_op_name(request.op)) +
                                    " is not defined on " + std::string(dtype_name(request.dtype))};
  }
  TRY(check_weight(request));
  TRY(check_order(request));
  if (request.codec) TRY(check_codec(request));
  if (!request.codec && !request.algorithm.empty()) TRY(check_algorithm(request));
  TRY(check_residual(request));
  if (request.equal_blocks) TRY(check_equal_blocks(request));
  TRY(check_own_block(request, rank));
  return check_sizes(request, rank);
}

}  // namespace holdfast::comm

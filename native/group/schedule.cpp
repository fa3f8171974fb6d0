#include "group/schedule.h"

#include <algorithm>

#include "base/planted.h"
#include "comm/schedule/builder.h"

namespace holdfast::group {
namespace {

using comm::Block;
using comm::Builder;
using comm::Collective;
using comm::OpRequest;

class Repair {
 public:
  Repair(const OpRequest& request, const std::vector<Rank>& ranks, Rank self)
      : request_(request),
        ranks_(ranks),
        self_(self),
        element_(request.element_bytes()),
        // Chunks are added as they are needed; the builder counts them only at its end.
        builder_({request.collective, {dense(self)}, static_cast<int>(ranks.size()), {}, {}}, 0) {}

  comm::RepairRun run(const OpFate& fate) {
    for (const Transfer& transfer : fate.transfers) add(transfer);
    for (const Reduction& reduction : fate.reductions) add(reduction);
    comm::RepairRun result{std::move(builder_).finish(), std::move(layout_),
                           !fate.reductions.empty()};
    result.schedule.chunks = static_cast<std::uint32_t>(result.layout.input.size());
    for (const auto& [like, form] : result.schedule.scratch) {
      const auto& blocks =
          like.space == comm::Space::kInput ? result.layout.input : result.layout.output;
      result.layout.scratch.push_back(blocks[like.chunk].count);
      result.layout.scratch_elements += blocks[like.chunk].count;
    }
    return result;
  }

 private:
  int dense(Rank rank) const {
    const auto at = std::find(ranks_.begin(), ranks_.end(), rank);
    CHECK(at != ranks_.end());
    return static_cast<int>(at - ranks_.begin());
  }

  const Block* input(std::uint32_t block) const {
    const std::size_t i = has_input_blocks(request_.collective) ? block : 0;
    return i < request_.input.size() ? &request_.input[i] : nullptr;
  }
  const Block* output(std::uint32_t block) const {
    const std::size_t i = has_output_blocks(request_.collective) ? block : 0;
    return i < request_.output.size() ? &request_.output[i] : nullptr;
  }

  // The part of a block that `range` covers; at another rank the block may not exist.
  Block cut(const Block* block, ft::Range range) const {
    if (block == nullptr || range.begin >= block->count) return {nullptr, 0};
    const std::uint64_t count = std::min(range.end, block->count) - range.begin;
    return {block->data == nullptr ? nullptr : block->data + range.begin * element_, count};
  }

  int chunk(Block in, Block out) {
    layout_.input.push_back(in);
    layout_.output.push_back(out);
    return static_cast<int>(layout_.input.size() - 1);
  }

  void add(const Transfer& t) {
    if (t.from != self_ && t.to != self_) return;
    const Block source = cut(t.from_input ? input(t.source) : output(t.block), t.range);
    const Block target = cut(output(t.block), t.range);
    if (t.from == t.to) {
      if (target.count == 0) return;
      const int c = chunk(source, target);
      return builder_.copy(Builder::output(c), Builder::input(c));
    }
    if (t.from == self_) {
      if (source.count == 0) return;
      // What is served of a result is no input: it is not weighed again.
      const bool as_input = t.from_input || is_planted(Planted::kWeighServed);
      const comm::Slot slot = as_input ? Builder::input(chunk(source, {nullptr, 0}))
                                       : Builder::output(chunk({nullptr, 0}, source));
      return builder_.send(dense(t.to), slot);
    }
    if (target.count == 0) return;
    builder_.recv(dense(t.from), Builder::output(chunk({nullptr, 0}, target)));
  }

  // Receives the contributions of the first `operands` ranks to a chunk and folds them in rank
  // order.
  void fold(int c, int operands) {
    const comm::Slot own = Builder::input(c);
    const comm::Slot result = Builder::output(c);
    const int self = dense(self_);
    if (operands == 1) return self == 0 ? builder_.copy(result, own) : builder_.recv(0, result);
    comm::Slot sum{};
    for (int r = 0; r < operands; ++r) {
      comm::Slot operand = own;
      if (r != self) {
        operand = builder_.scratch(own);
        builder_.recv(r, operand);
      }
      if (r == 0) {
        sum = operand;
      } else if (r == operands - 1) {
        builder_.reduce_final(result, sum, operand);
      } else {
        const comm::Slot next = builder_.scratch(own);
        builder_.reduce(next, sum, operand);
        sum = next;
      }
    }
  }

  // How many of the ranks, from the first on, have a part in what `to` is to have.
  int operands_for(Rank to) const {
    switch (request_.collective) {
      case Collective::kScan: return dense(to) + 1;
      case Collective::kExscan: return dense(to);
      default: return static_cast<int>(ranks_.size());
    }
  }

  void add(const Reduction& reduction) {
    const Block whole = cut(input(reduction.block), reduction.range);
    if (whole.count == 0) return;
    const std::uint64_t begin = reduction.range.begin;
    if (reduction.to) {
      const int operands = operands_for(*reduction.to);
      if (operands == 0 || (*reduction.to != self_ && dense(self_) >= operands)) return;
      const int c = chunk(whole, cut(output(reduction.block), {begin, begin + whole.count}));
      if (*reduction.to == self_) return fold(c, operands);
      return builder_.send(dense(*reduction.to), Builder::input(c));
    }
    const auto size = static_cast<std::uint64_t>(ranks_.size());
    std::vector<int> chunks;
    for (std::uint64_t i = 0; i < size; ++i) {
      const ft::Range piece{begin + whole.count * i / size, begin + whole.count * (i + 1) / size};
      chunks.push_back(
          chunk(cut(input(reduction.block), piece), cut(output(reduction.block), piece)));
    }
    exchange(chunks);
  }

  void exchange(const std::vector<int>& chunks) {
    const int own = dense(self_);
    const int size = static_cast<int>(ranks_.size());
    const auto of = [&](int rank) { return chunks[static_cast<std::size_t>(rank)]; };
    for (int i = 1; i < size; ++i) {
      const int peer = (own + i) % size;
      builder_.send(peer, Builder::input(of(peer)));
    }
    fold(of(own), size);
    for (int i = 1; i < size; ++i) {
      const int peer = (own + i) % size;
      builder_.send(peer, Builder::output(of(own)));
      builder_.recv(peer, Builder::output(of(peer)));
    }
  }

  const OpRequest& request_;
  const std::vector<Rank>& ranks_;
  Rank self_;
  std::uint64_t element_;
  Builder builder_;
  comm::Layout layout_;
};

comm::BlockList blocks_in_view(const comm::BlockList& blocks, const std::vector<Rank>& ranks) {
  comm::BlockList result;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (r < blocks.size()) result.push_back(blocks[r]);
  }
  return result;
}

}  // namespace

comm::RepairRun make_repair(const OpFate& fate, const OpRequest& request,
                            const std::vector<Rank>& ranks, Rank self) {
  return Repair(request, ranks, self).run(fate);
}

OpRequest request_in_view(const OpRequest& request, const std::vector<Rank>& ranks) {
  OpRequest result = request;
  if (has_input_blocks(request.collective)) result.input = blocks_in_view(request.input, ranks);
  if (has_output_blocks(request.collective)) result.output = blocks_in_view(request.output, ranks);
  const auto root = std::find(ranks.begin(), ranks.end(), request.root);
  if (!request.residual.empty() && has_input_blocks(request.collective)) {
    result.residual.clear();
    for (const Rank rank : ranks) {
      result.residual.push_back(request.residual[static_cast<std::size_t>(rank.value)]);
    }
  }
  result.root = {static_cast<std::int32_t>(root - ranks.begin())};
  return result;
}

std::vector<HeldBlock> held_blocks(const OpRequest& request, Rank self,
                                   const std::vector<comm::Execution::HeldPiece>& held) {
  const std::uint64_t element = request.element_bytes();
  std::vector<HeldBlock> result;
  for (std::size_t b = 0; b < request.output.size(); ++b) {
    const Block& block = request.output[b];
    ft::Ranges ranges;
    for (const comm::Execution::HeldPiece& h : held) {
      if (h.data < block.data || h.data >= block.data + block.count * element) continue;
      const auto begin = static_cast<std::uint64_t>(h.data - block.data) / element;
      const std::uint64_t end = begin + h.bytes / element;
      // A range to the block's end covers whatever a rank may ask of it.
      ranges.add({begin, end == block.count ? ft::kEndless : end});
    }
    if (block.count == 0) ranges = ft::Ranges::all();
    if (ranges.empty()) continue;
    const bool own = is_reduced_for_each(request.collective);
    result.push_back({own ? static_cast<std::uint32_t>(self.value) : static_cast<std::uint32_t>(b),
                      std::move(ranges)});
  }
  // A root holds what it sends; with a lossy codec, only what it has decoded itself.
  const bool lossy = request.codec && !request.codec->spec().lossless;
  if (request.collective == Collective::kBroadcast && request.root == self && !lossy) {
    result = {{0, ft::Ranges::all()}};
  }
  return result;
}

}  // namespace holdfast::group

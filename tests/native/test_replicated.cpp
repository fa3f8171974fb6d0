// Small ops whose results differ by rank, as the ops that carry them.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "comm/call/call.h"
#include "comm/call/replicated.h"
#include "comm/plan/route.h"

namespace holdfast::comm {
namespace {

constexpr int kRanks = 3;
constexpr Rank kSelf{2};

BlockList blocks(std::vector<std::int32_t>& memory, std::size_t count) {
  BlockList list;
  for (std::size_t at = 0; at < memory.size(); at += count) {
    list.push_back({reinterpret_cast<std::byte*>(memory.data() + at), count});
  }
  return list;
}

OpRequest request_of(Collective collective, std::vector<std::int32_t>& in,
                     std::vector<std::int32_t>& out) {
  OpRequest request;
  request.collective = collective;
  request.dtype = DType::kI32;
  request.equal_blocks = collective == Collective::kAllToAll;
  request.input = blocks(in, 2);
  request.output = blocks(out, 2);
  return request;
}

std::int32_t* values(const Block& block) { return reinterpret_cast<std::int32_t*>(block.data); }

TEST_CASE("a reduce_scatter travels as an all_reduce in place, and its own block is delivered") {
  std::vector<std::int32_t> in{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> out(2);
  Replicated replicated;
  const OpRequest sent =
      replicated_by(request_of(Collective::kReduceScatter, in, out), replicated, kSelf, kRanks);
  CHECK(sent.collective == Collective::kAllReduce);
  REQUIRE(sent.input.size() == 1);
  CHECK(sent.input[0].count == 6);
  CHECK(sent.output[0].data == sent.input[0].data);
  CHECK(std::equal(in.begin(), in.end(), values(sent.input[0])));
  for (int i = 0; i < 6; ++i) values(sent.output[0])[i] *= 10;
  deliver(sent);
  CHECK(out == std::vector<std::int32_t>{50, 60});
  CHECK(in == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("an all_to_all travels as an all_gather of all that is sent") {
  std::vector<std::int32_t> in{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> out(6);
  Replicated replicated;
  const OpRequest sent =
      replicated_by(request_of(Collective::kAllToAll, in, out), replicated, kSelf, kRanks);
  CHECK(sent.collective == Collective::kAllGather);
  REQUIRE(sent.output.size() == kRanks);
  for (int r = 0; r < kRanks; ++r) {
    std::iota(values(sent.output[static_cast<std::size_t>(r)]),
              values(sent.output[static_cast<std::size_t>(r)]) + 6, 100 * r);
  }
  CHECK(std::equal(in.begin(), in.end(), values(sent.input[0])));
  deliver(sent);
  CHECK(out == std::vector<std::int32_t>{4, 5, 104, 105, 204, 205});
}

TEST_CASE("others see what was called") {
  std::vector<std::int32_t> in(6);
  std::vector<std::int32_t> out(6);
  const OpRequest called = request_of(Collective::kAllToAll, in, out);
  Replicated replicated;
  const OpRequest sent = replicated_by(called, replicated, kSelf, kRanks);
  const Call call = call_of(sent, OpSeq{7});
  CHECK_FALSE(conflict(call, call_of(called, OpSeq{7})));
  CHECK(call_text(call) == call_text(call_of(called, OpSeq{7})));
  CHECK(history_after(1, call) == history_after(1, call_of(called, OpSeq{7})));
  CHECK(called_bytes(sent) == called_bytes(called));
}

TEST_CASE("only small ones of equal blocks are sent, and none that names its way") {
  std::vector<std::int32_t> in(6);
  std::vector<std::int32_t> out(6);
  OpRequest request = request_of(Collective::kAllToAll, in, out);
  CHECK(replicated_as(request, kRanks));
  CHECK_FALSE(replicated_as(request, 1));
  request.algorithm = "pairwise";
  CHECK_FALSE(replicated_as(request, kRanks));
  request.algorithm.clear();
  request.equal_blocks = false;
  CHECK_FALSE(replicated_as(request, kRanks));
  request.collective = Collective::kReduceScatter;
  CHECK(replicated_as(request, kRanks));
  request.collective = Collective::kAllGather;
  CHECK_FALSE(replicated_as(request, kRanks));
  // 32 KiB that every rank would hold: 8192 elements of 4 bytes.
  std::vector<std::int32_t> large(8193);
  request = request_of(Collective::kReduceScatter, large, out);
  request.input = blocks(large, 8192);
  request.input = {request.input[0]};
  CHECK(replicated_as(request, kRanks));
  request.input = {{request.input[0].data, 8193}};
  CHECK_FALSE(replicated_as(request, kRanks));
}

}  // namespace
}  // namespace holdfast::comm

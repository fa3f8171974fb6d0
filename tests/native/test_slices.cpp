// How staged ops are cut, and that what they make of device memory is what whole ops make of it.
#include "device_comm/slices.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "rigs.h"

namespace holdfast::testing {
namespace {

using comm::Block;
using comm::BlockList;

BlockList blocks_at(std::byte* base, const std::vector<std::uint64_t>& counts) {
  BlockList blocks;
  for (const std::uint64_t count : counts) {
    blocks.push_back({base, count});
    base += count * sizeof(float);
  }
  return blocks;
}

std::uint64_t elements(const BlockList& blocks, std::size_t number) {
  return blocks.size() > number ? blocks[number].count : 0;
}

TEST_CASE("slices hold each element of each block once, in order, and begin at full vectors") {
  std::vector<float> memory(100'000);
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  const std::vector<std::uint64_t> counts{20'000, 0, 7, 1024, 30'001};
  const OpRequest request = request_of(Collective::kAllGather, {blocks_at(base, counts)[4]},
                                       blocks_at(base + 60'000 * sizeof(float), counts));
  const auto slices = device_comm::slices_of(request, 5, 64 * 1024);
  CHECK(slices.size() == 4);  // 204 KiB of 64
  std::vector<std::uint64_t> seen(counts.size());
  for (const OpRequest& slice : slices) {
    REQUIRE(slice.output.size() == counts.size());
    for (std::size_t b = 0; b < counts.size(); ++b) {
      if (slice.output[b].count == 0) continue;
      CHECK(slice.output[b].data == request.output[b].data + seen[b] * sizeof(float));
      CHECK(seen[b] % 1024 == 0);
      seen[b] += slice.output[b].count;
    }
    CHECK(elements(slice.input, 0) == slice.output[4].count);
  }
  CHECK(seen == counts);
}

TEST_CASE("all ranks cut alike, whatever they see of an op") {
  std::vector<float> memory(80'000);
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  const BlockList four = blocks_at(base, {5000, 5000, 5000, 5000});
  const BlockList one = blocks_at(base + 40'000 * sizeof(float), {5000});
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    const bool gathers = collective == Collective::kGather;
    OpRequest root = request_of(collective, gathers ? one : four, gathers ? four : one);
    OpRequest other =
        request_of(collective, gathers ? one : BlockList{}, gathers ? BlockList{} : one);
    // Blocks may differ: nobody knows all of them.
    CHECK(device_comm::slices_of(root, 4, 16'384).size() == 1);
    CHECK(device_comm::slices_of(other, 4, 16'384).size() == 1);
    root.equal_blocks = other.equal_blocks = true;
    const auto at_root = device_comm::slices_of(root, 4, 16'384);
    const auto elsewhere = device_comm::slices_of(other, 4, 16'384);
    CHECK(at_root.size() == 5);
    REQUIRE(at_root.size() == elsewhere.size());
    for (std::size_t i = 0; i < at_root.size(); ++i) {
      const BlockList& many = gathers ? at_root[i].output : at_root[i].input;
      const BlockList& single = gathers ? elsewhere[i].input : elsewhere[i].output;
      for (const Block& block : many) CHECK(block.count == single[0].count);
    }
  }
}

TEST_CASE("what ranks could cut differently, and what must stay whole, is whole") {
  std::vector<float> memory(80'000);
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  const BlockList in = blocks_at(base, {9000, 9000});
  const BlockList out = blocks_at(base + 40'000 * sizeof(float), {9000, 9000});
  OpRequest request = request_of(Collective::kAllToAll, in, out);
  const auto count = [&] { return device_comm::slices_of(request, 2, 4096).size(); };
  CHECK(count() == 1);
  request.equal_blocks = true;
  CHECK(count() == 9);  // 18 of 4 KiB, of which a slice cannot begin at less than 1024 elements
  request.atomic = true;
  CHECK(count() == 1);
  request.atomic = false;
  request.codec = std::make_shared<compress::Codec>(compress::Codec::parse("int8").value());
  CHECK(count() == 1);
  request = request_of(Collective::kSend, {in[0]}, {});
  CHECK(count() == 1);
  request = request_of(Collective::kReduceScatter, in, {out[0]});
  CHECK(count() == 9);
  request = request_of(Collective::kBarrier, {}, {});
  CHECK(count() == 1);
}

TEST_CASE("memory that an op reads and writes is told from memory in place") {
  std::vector<float> memory(100);
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  const BlockList three = blocks_at(base, {10, 10, 10});
  const Block last{base + 20 * sizeof(float), 10};
  const Block between{base + 15 * sizeof(float), 10};
  const Block far{base + 30 * sizeof(float), 10};
  const Block nothing{base + 15 * sizeof(float), 0};
  CHECK_FALSE(device_comm::overlap(request_of(Collective::kReduceScatter, three, {last})));
  CHECK_FALSE(device_comm::overlap(request_of(Collective::kReduceScatter, three, {far})));
  CHECK_FALSE(device_comm::overlap(request_of(Collective::kReduceScatter, three, {nothing})));
  CHECK(device_comm::overlap(request_of(Collective::kReduceScatter, three, {between})));
  CHECK(device_comm::overlap(request_of(Collective::kAllGather, {between}, three)));
  CHECK_FALSE(device_comm::overlap(request_of(Collective::kBarrier, {}, {})));
}

// So much that the first slices come back while the last ones still have to go up.
constexpr std::size_t kCount = 3'000'001;

void staged(int, Options& options, device::EmulatedSettings&) { options.cuda_ipc = "off"; }

BlockList blocks_of(const Array& array, int size) {
  BlockList blocks;
  for (int r = 0; r < size; ++r) {
    blocks.push_back(array.block(static_cast<std::size_t>(r) * kCount, kCount));
  }
  return blocks;
}

TEST_CASE("a result goes over inputs only when all of them have been read") {
  const auto body = [](int r, Member& member, Rig& rig) -> std::string {
    std::vector<float> values(3 * kCount);
    std::vector<float> sums(kCount);
    const auto small = [](std::size_t i) { return static_cast<float>(i % 1000); };
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = small(i) + static_cast<float>(r);
    const std::size_t first = static_cast<std::size_t>(r) * kCount;
    for (std::size_t i = 0; i < kCount; ++i) sums[i] = 3 * small(first + i) + 3;
    // Where its own block is; and across two of them.
    for (const std::size_t to : {first, kCount / 2}) {
      const Array array(rig, values);
      const OpRequest request =
          request_of(Collective::kReduceScatter, blocks_of(array, 3), {array.block(to, kCount)});
      if (auto e = run(rig, member, request); e != "") return e;
      std::vector<float> expected = values;
      std::copy(sums.begin(), sums.end(), expected.begin() + static_cast<std::ptrdiff_t>(to));
      if (array.values() != expected) return "wrong sums at " + std::to_string(to);
    }
    // Its input lies across two blocks of its output.
    const Array whole(rig, std::vector<float>(3 * kCount, static_cast<float>(r)));
    if (auto e = run(rig, member,
                     request_of(Collective::kAllGather, {whole.block(kCount / 2, kCount)},
                                blocks_of(whole, 3)));
        e != "") {
      return e;
    }
    const std::vector<float> gathered = whole.values();
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      const std::size_t rank = i / kCount;
      if (gathered[i] != static_cast<float>(rank)) return "wrong at " + std::to_string(i);
    }
    return "";
  };
  run_rigs(3, body, {1 << 20, "shm", staged});
}

TEST_CASE("a gather is as many ops as it has slices, and one work with one outcome") {
  run_rigs(2,
           [](int r, Member& member, Rig& rig) -> std::string {
             const Array in(rig, counting(kCount, static_cast<float>(r)));
             const Array out(rig, std::vector<float>(2 * kCount, -1));
             const auto work = begin(
                 rig, member, request_of(Collective::kAllGather, {in.block()}, blocks_of(out, 2)));
             if (!work->wait(seconds(30)).is_ok()) return work->status().message();
             if (work->outcome().contributors != std::vector<Rank>{{0}, {1}}) return "contributors";
             if (!work->outcome().missing.empty()) return "missing";
             // The next op's number tells how many there were: 23 MiB in slices of 5.
             const auto next = begin(rig, member, request_of(Collective::kBarrier, {}, {}));
             if (!next->wait(seconds(30)).is_ok()) return next->status().message();
             const auto ops = next->sequence().value - work->sequence().value;
             if (ops != 5) return std::to_string(ops) + " ops";
             std::vector<float> expected = counting(kCount, 0);
             const std::vector<float> second = counting(kCount, 1);
             expected.insert(expected.end(), second.begin(), second.end());
             return out.values() == expected ? "" : "wrong values";
           },
           {5 << 20, "tcp", staged});
}

}  // namespace
}  // namespace holdfast::testing

// Collectives on device memory over several hosts, in two levels. Hosts are played by names.
#include <doctest/doctest.h>

#include <memory>

#include "direct_rigs.h"

namespace holdfast::testing {
namespace {

// The number of ranks of each host.
using Shape = std::vector<int>;

std::vector<int> hosts_of(const Shape& shape) {
  std::vector<int> hosts;
  for (std::size_t h = 0; h < shape.size(); ++h) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(shape[h]), static_cast<int>(h));
  }
  return hosts;
}

Setup levels_setup(const Shape& shape,
                   std::function<void(int, Options&, device::EmulatedSettings&)> more = {}) {
  return direct_setup(
      [hosts = hosts_of(shape), more](int r, Options& options, device::EmulatedSettings& settings) {
        options.transports = {"shm", "tcp"};
        options.host_id = "host" + std::to_string(hosts[static_cast<std::size_t>(r)]);
        if (more) more(r, options, settings);
      });
}

int size_of(const Shape& shape) { return static_cast<int>(hosts_of(shape).size()); }

std::string reduce_and_compare(int r, int ranks, Member& member, Rig& rig, std::size_t count) {
  const Array in(rig, numbers(count, r));
  const Array out(rig, std::vector<float>(count, -1));
  if (auto e = run(rig, member, request_of(Collective::kAllReduce, {in.block()}, {out.block()}));
      e != "" || out.values() != sum_of(count, ranks)) {
    return "out of place " + e;
  }
  if (in.values() != numbers(count, r)) return "input was written";
  OpRequest average = request_of(Collective::kAllReduce, {in.block()}, {in.block()});
  average.op = ReduceOp::kAvg;
  std::vector<float> expected = sum_of(count, ranks);
  for (float& value : expected) value /= static_cast<float>(ranks);
  if (auto e = run(rig, member, average); e != "" || in.values() != expected) {
    return "average in place " + e;
  }
  const Array pooled(rig, numbers(count, r), true);
  if (auto e =
          run(rig, member, request_of(Collective::kAllReduce, {pooled.block()}, {pooled.block()}));
      e != "" || pooled.values() != sum_of(count, ranks)) {
    return "in memory without a handle " + e;
  }
  return "";
}

TEST_CASE("sums over several hosts go from device to device inside each of them") {
  for (const Shape& shape : {Shape{2, 2}, Shape{3, 1}, Shape{1, 2}, Shape{2, 3, 2}}) {
    CAPTURE(shape.size());
    run_rigs(
        size_of(shape),
        [&](int r, Member& member, Rig& rig) -> std::string {
          if (auto e = pass_trial(rig, member); e != "") return e;
          for (const std::size_t count : {1U, 130U, 20'011U}) {
            if (auto e = reduce_and_compare(r, size_of(shape), member, rig, count); e != "") {
              return e;
            }
          }
          if (const int ops = ops_by(member, "levels"); ops != 1 + 9) {
            return std::to_string(ops) + " ops went in levels";
          }
          return ops_by(member, "direct") == 0 ? "" : "direct";
        },
        levels_setup(shape));
  }
}

TEST_CASE("only what hosts exchange passes a bus, and each byte of it one bus of a host") {
  constexpr std::size_t kCount = 1 << 16;  // floats; a quarter of a MiB
  constexpr std::uint64_t kBytes = kCount * sizeof(float);
  run_rigs(
      4,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, numbers(kCount, r));
        const std::uint64_t before = rig.driver.control->bus_bytes();
        const std::string error = run(
            rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
        const std::uint64_t passed = rig.driver.control->bus_bytes() - before;
        if (error != "" || values.values() != sum_of(kCount, 4)) return "wrong sum " + error;
        // Of a column, a half of the vector: half of it up, own part up; half of it down, twice.
        return passed == kBytes ? "" : std::to_string(passed) + " bytes";
      },
      levels_setup({2, 2}));
}

std::string move_and_compare(int r, int ranks, Member& member, Rig& rig, std::size_t count) {
  const auto size = static_cast<std::size_t>(ranks);
  const auto rank = static_cast<std::size_t>(r);
  const auto thirds = [&](const Array& array) {
    comm::BlockList blocks;
    for (std::size_t s = 0; s < size; ++s) blocks.push_back(array.block(s * count, count));
    return blocks;
  };
  const Array many(rig, numbers(size * count, r));
  const Array part(rig, std::vector<float>(count, -1));
  const std::vector<float> sums = sum_of(size * count, ranks);
  const auto mine = sums.begin() + static_cast<std::ptrdiff_t>(rank * count);
  const std::vector<float> sum(mine, mine + static_cast<std::ptrdiff_t>(count));
  if (auto e =
          run(rig, member, request_of(Collective::kReduceScatter, thirds(many), {part.block()}));
      e != "" || part.values() != sum) {
    return "reduce_scatter " + e;
  }
  // In place: its block is a part of the input; and of the output.
  const comm::BlockList blocks = thirds(many);
  if (auto e = run(rig, member, request_of(Collective::kReduceScatter, blocks, {blocks[rank]}));
      e != "") {
    return "reduce_scatter in place " + e;
  }
  if (auto e = run(rig, member, request_of(Collective::kAllGather, {blocks[rank]}, blocks));
      e != "" || many.values() != sums) {
    return "all_gather in place " + e;
  }
  // To blocks that lie apart, in another order than theirs.
  const Array apart(rig, std::vector<float>(size * count, -1), true);
  comm::BlockList turned;
  for (std::size_t s = size; s-- > 0;) turned.push_back(apart.block(s * count, count));
  if (auto e = run(rig, member, request_of(Collective::kAllGather, {part.block()}, turned));
      e != "" || apart.values()[(size - 1 - rank) * count] != sum[0]) {
    return "all_gather apart " + e;
  }
  OpRequest spread = request_of(Collective::kBroadcast, {many.block()}, {many.block()});
  for (int root = 0; root < ranks; ++root) {
    const Array whole(rig, numbers(count, r), root % 2 == 1);
    spread.root = {root};
    spread.input = spread.output = {whole.block()};
    if (auto e = run(rig, member, spread); e != "" || whole.values() != numbers(count, root)) {
      return "broadcast " + e;
    }
  }
  return "";
}

TEST_CASE("blocks cross to another host once, and go from device to device there") {
  for (const Shape& shape : {Shape{2, 2}, Shape{3, 1}, Shape{2, 1, 2}}) {
    CAPTURE(shape.size());
    run_rigs(
        size_of(shape),
        [&](int r, Member& member, Rig& rig) -> std::string {
          if (auto e = pass_trial(rig, member); e != "") return e;
          for (const std::size_t count : {1U, 130U, 5003U}) {
            if (auto e = move_and_compare(r, size_of(shape), member, rig, count); e != "") return e;
          }
          const int ops = ops_by(member, "levels");
          return ops == 1 + 3 * (4 + size_of(shape)) ? "" : std::to_string(ops) + " ops";
        },
        levels_setup(shape));
  }
}

TEST_CASE("hosts of one rank each have nothing to do in levels") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, numbers(5000, r));
        if (auto e = run(rig, member,
                         request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
            e != "" || values.values() != sum_of(5000, 2)) {
          return "wrong sum " + e;
        }
        return ops_by(member, "levels") + ops_by(member, "direct") == 0 ? "" : "not staged";
      },
      levels_setup({1, 1}));
}

TEST_CASE("a device on one host that cannot share makes the ranks of all hosts stage") {
  run_rigs(
      4,
      [](int r, Member& member, Rig& rig) -> std::string {
        for (int i = 0; i < 8; ++i) {
          const Array values(rig, numbers(5000, r));
          if (auto e = run(rig, member,
                           request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
              e != "" || values.values() != sum_of(5000, 4)) {
            return "call " + std::to_string(i) + " " + e;
          }
        }
        return ops_by(member, "levels") == 1 ? "" : "not only the trial";
      },
      levels_setup({2, 2}, [](int r, Options&, device::EmulatedSettings& settings) {
        settings.exports = r != 3;
      }));
}

TEST_CASE("where one device is full, all ranks of all hosts stage that op") {
  constexpr std::size_t kCount = 300'000;
  run_rigs(
      4,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        for (int i = 0; i < 3; ++i) {
          const Array values(rig, numbers(kCount, r));
          const auto work = begin(
              rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
          if (!work->wait(seconds(30)).is_ok()) return work->status().message();
          if (values.values() != sum_of(kCount, 4)) return "wrong sum";
          if (work->outcome().contributors.size() != 4 || work->outcome().retried) return "outcome";
        }
        return "";
      },
      levels_setup({2, 2}, [](int r, Options&, device::EmulatedSettings& settings) {
        if (r == 1) settings.memory_bytes = 4 * kCount + (2ULL << 20);
      }));
}

TEST_CASE("several ops in flight on several hosts end in their order, each with its own sum") {
  run_rigs(
      5,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        std::vector<std::unique_ptr<Array>> arrays;
        std::vector<std::shared_ptr<DeviceWork>> works;
        for (int i = 0; i < 6; ++i) {
          const std::size_t count = 1000 * (static_cast<std::size_t>(i) + 1);
          arrays.push_back(std::make_unique<Array>(rig, numbers(count, r)));
          const comm::BlockList whole{arrays.back()->block()};
          works.push_back(begin(rig, member, request_of(Collective::kAllReduce, whole, whole)));
        }
        if (!works.back()->wait(seconds(30)).is_ok()) return works.back()->status().message();
        for (std::size_t i = 0; i < works.size(); ++i) {
          if (!works[i]->done()) return "a later op ended first";
          if (arrays[i]->values() != sum_of(1000 * (i + 1), 5)) return "wrong sum";
        }
        return "";
      },
      levels_setup({3, 2}));
}

}  // namespace
}  // namespace holdfast::testing

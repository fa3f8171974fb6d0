// Collectives that go from device to device past the host, over emulated devices that map each
// other's memory. Every rank's device is a process's own to the driver.
#include <doctest/doctest.h>

#include <algorithm>

#include "comm/plan/path_agreement.h"
#include "device_comm/direct/plan.h"
#include "direct_rigs.h"

namespace holdfast::testing {
namespace {

std::string reduce_every_way(int r, int ranks, Member& member, Rig& rig, bool pooled) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{130}, std::size_t{20'011}}) {
    const Array in(rig, numbers(count, r), pooled);
    const Array out(rig, std::vector<float>(count, -1), pooled);
    if (auto e = run(rig, member, request_of(Collective::kAllReduce, {in.block()}, {out.block()}));
        e != "" || out.values() != sum_of(count, ranks)) {
      return "out of place " + e;
    }
    if (in.values() != numbers(count, r)) return "input was written";
    OpRequest average = request_of(Collective::kAllReduce, {in.block()}, {in.block()});
    average.op = ReduceOp::kMax;
    if (auto e = run(rig, member, average); e != "") return e;
    const Array whole(rig, numbers(count, r), pooled);
    if (auto e =
            run(rig, member, request_of(Collective::kAllReduce, {whole.block()}, {whole.block()}));
        e != "" || whole.values() != sum_of(count, ranks)) {
      return "in place " + e;
    }
  }
  return "";
}

TEST_CASE("sums are read from the others' memory, in place and out of place") {
  for (const int ranks : {2, 3, 5}) {
    run_rigs(
        ranks,
        [ranks](int r, Member& member, Rig& rig) -> std::string {
          if (auto e = pass_trial(rig, member); e != "") return e;
          if (auto e = reduce_every_way(r, ranks, member, rig, false); e != "") return e;
          // Memory without a handle goes through some that has one.
          if (auto e = reduce_every_way(r, ranks, member, rig, true); e != "") return e;
          // The trial, and all after those that did not wait for it.
          if (const int count = ops_by(member, "direct"); count != 1 + 18) {
            return std::to_string(count) + " ops went directly";
          }
          return rig.driver.control->imported() > 0 ? "" : "nothing is mapped";
        },
        direct_setup());
  }
}

TEST_CASE("more inputs than a kernel folds at a time are folded in turns") {
  constexpr int kRanks = 18;
  run_rigs(
      kRanks,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, numbers(1001, r));
        OpRequest request = request_of(Collective::kAllReduce, {values.block()}, {values.block()});
        request.op = ReduceOp::kAvg;
        if (auto e = run(rig, member, request); e != "") return e;
        std::vector<float> expected = sum_of(1001, kRanks);
        for (float& value : expected) value /= kRanks;
        return values.values() == expected && ops_by(member, "direct") == 2 ? "" : "wrong average";
      },
      direct_setup());
}

TEST_CASE("what measures algorithms does not hold a row of ops up") {
  run_rigs(
      3,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const int before = ops_by(member, "direct");
        if (auto e = reduce_every_way(r, 3, member, rig, false); e != "") return e;
        return ops_by(member, "direct") == before + 9 ? "" : "measured";
      },
      direct_setup([](int, Options& options, device::EmulatedSettings&) { options.tune = true; }));
}

TEST_CASE("what only moves is fetched from where it lies") {
  run_rigs(
      3,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const std::size_t rank = static_cast<std::size_t>(r);
        const std::vector<std::size_t> counts{5, 0, 9};
        const Array own(rig, counting(counts[rank], 100 * static_cast<float>(r)));
        const Array all(rig, std::vector<float>(14, -1));
        const comm::BlockList parts{all.block(0, 5), all.block(5, 0), all.block(5, 9)};
        std::vector<float> expected = counting(5, 0);
        const std::vector<float> last = counting(9, 200);
        expected.insert(expected.end(), last.begin(), last.end());
        if (auto e = run(rig, member, request_of(Collective::kAllGather, {own.block()}, parts));
            e != "" || all.values() != expected) {
          return "all_gather " + e;
        }
        // Each rank's own block where it goes, in blocks that lie apart.
        const Array a(rig, std::vector<float>(4, r == 0 ? 0.F : -1.F));
        const Array b(rig, std::vector<float>(4, r == 1 ? 1.F : -1.F));
        const Array c(rig, std::vector<float>(4, r == 2 ? 2.F : -1.F));
        const comm::BlockList apart{a.block(), b.block(), c.block()};
        if (auto e = run(rig, member, request_of(Collective::kAllGather, {apart[rank]}, apart));
            e != "" || a.values()[3] != 0 || b.values()[0] != 1 || c.values()[2] != 2) {
          return "all_gather in place " + e;
        }
        OpRequest spread = request_of(Collective::kBroadcast, {all.block()}, {all.block()});
        spread.root = {2};
        const Array other(rig, std::vector<float>(14, static_cast<float>(r)));
        spread.input = spread.output = {other.block()};
        if (auto e = run(rig, member, spread);
            e != "" || other.values() != std::vector<float>(14, 2)) {
          return "broadcast " + e;
        }
        return ops_by(member, "direct") == 1 + 3 ? "" : "staged";
      },
      direct_setup());
}

TEST_CASE("blocks are scattered and exchanged from device to device") {
  run_rigs(
      3,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const auto thirds = [](const Array& x) {
          return comm::BlockList{x.block(0, 7), x.block(7, 7), x.block(14, 7)};
        };
        const Array given(rig, counting(21, 100 * static_cast<float>(r)));
        const Array taken(rig, std::vector<float>(21, -1));
        OpRequest exchange = request_of(Collective::kAllToAll, thirds(given), thirds(taken));
        exchange.equal_blocks = true;
        if (auto e = run(rig, member, exchange); e != "") return "all_to_all " + e;
        const std::vector<float> got = taken.values();
        for (std::size_t s = 0; s < 3; ++s) {
          for (std::size_t i = 0; i < 7; ++i) {
            const auto expected = static_cast<float>(100 * s + 7 * static_cast<std::size_t>(r) + i);
            if (got[7 * s + i] != expected) return "wrong block";
          }
        }
        const Array part(rig, std::vector<float>(7, -1));
        const OpRequest scatter =
            request_of(Collective::kReduceScatter, thirds(given), {part.block()});
        if (auto e = run(rig, member, scatter);
            e != "" || part.values()[1] != static_cast<float>(300 + 3 * (7 * r + 1))) {
          return "reduce_scatter " + e;
        }
        // Into a part of the input itself, whose blocks lie apart.
        const Array x(rig, std::vector<float>(7, 1));
        const Array y(rig, std::vector<float>(7, 2));
        const Array z(rig, std::vector<float>(7, 3));
        const comm::BlockList apart{x.block(), y.block(), z.block()};
        const Array& mine = r == 0 ? x : r == 1 ? y : z;
        const OpRequest in_place = request_of(Collective::kReduceScatter, apart, {mine.block()});
        if (auto e = run(rig, member, in_place);
            e != "" || mine.values() != std::vector<float>(7, static_cast<float>(3 * (r + 1)))) {
          return "reduce_scatter in place " + e;
        }
        // To one rank, in place there, and not in place.
        for (const bool same : {true, false}) {
          const Array from(rig, numbers(5000, r));
          const Array to(rig, std::vector<float>(5000, -1));
          OpRequest collect = request_of(Collective::kReduce, {from.block()}, {});
          collect.root = {1};
          if (r == 1) collect.output = {same ? from.block() : to.block()};
          if (auto e = run(rig, member, collect); e != "") return "reduce " + e;
          const std::vector<float> sum = same && r == 1 ? from.values() : to.values();
          if (r == 1 ? sum != sum_of(5000, 3) : from.values() != numbers(5000, r)) return "reduce";
        }
        return ops_by(member, "direct") == 1 + 5 ? "" : "staged";
      },
      direct_setup());
}

TEST_CASE("a device that cannot share makes all ranks stage, from the same call on") {
  run_rigs(
      3,
      [](int r, Member& member, Rig& rig) -> std::string {
        for (int i = 0; i < 8; ++i) {
          const Array values(rig, numbers(5000, r));
          if (auto e = run(rig, member,
                           request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
              e != "" || values.values() != sum_of(5000, 3)) {
            return "call " + std::to_string(i) + " " + e;
          }
        }
        return ops_by(member, "direct") == 1 ? "" : "not only the trial";
      },
      direct_setup(
          [](int r, Options&, device::EmulatedSettings& settings) { settings.exports = r != 1; }));
}

TEST_CASE("without memory for what is read the op is staged, and nothing is lost") {
  constexpr std::size_t kCount = 300'000;
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        std::uint64_t before = 0;
        for (int i = 0; i < 4; ++i) {
          const Array values(rig, numbers(kCount, r));
          const auto work = begin(
              rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
          if (!work->wait(seconds(30)).is_ok()) return work->status().message();
          if (values.values() != sum_of(kCount, 2)) return "wrong sum";
          if (work->outcome().contributors.size() != 2 || work->outcome().retried) return "outcome";
          if (i == 0) before = rig.driver.control->device_bytes_used();
        }
        const std::uint64_t after = rig.driver.control->device_bytes_used();
        return after <= before
                   ? ""
                   : "device memory grows " + std::to_string(before) + " " + std::to_string(after);
      },
      direct_setup([](int r, Options&, device::EmulatedSettings& settings) {
        // Room for the array, and none beside it.
        if (r == 1) settings.memory_bytes = 4 * kCount + (2ULL << 20);
      }));
}

TEST_CASE("mappings and memory are used again, and those of freed memory are closed") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array kept(rig, numbers(3000, r));
        const Array out(rig, std::vector<float>(3000, 0));
        const OpRequest same = request_of(Collective::kAllReduce, {kept.block()}, {out.block()});
        if (auto e = run(rig, member, same); e != "") return e;
        const std::size_t mapped = rig.driver.control->imported();
        std::uint64_t used = 0;
        for (int i = 0; i < 20; ++i) {
          if (auto e = run(rig, member, same); e != "") return e;
          if (i == 0) used = rig.driver.control->device_bytes_used();
        }
        if (rig.driver.control->imported() > mapped) return "mapped again";
        if (rig.driver.control->device_bytes_used() != used) return "memory grows";
        for (int i = 0; i < 40; ++i) {
          const Array fresh(rig, numbers(3000, r + i));
          if (auto e = run(rig, member,
                           request_of(Collective::kAllReduce, {fresh.block()}, {out.block()}));
              e != "") {
            return e;
          }
          if (out.values()[1] != numbers(3000, i)[1] + numbers(3000, i + 1)[1]) return "old memory";
          // Until all have read it.
          if (auto e = run(rig, member, request_of(Collective::kBarrier, {}, {})); e != "") {
            return e;
          }
        }
        return rig.driver.control->imported() <= mapped + 40 ? "" : "mappings grow";
      },
      direct_setup());
}

TEST_CASE("an op sees what its stream did before it, and the stream what the op did") {
  run_rigs(
      2,
      [](int, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        constexpr std::size_t kCount = 5000;
        const Array values(rig, std::vector<float>(kCount, 0));
        const Array ones(rig, std::vector<float>(kCount, 1));
        const Array copy(rig, std::vector<float>(kCount, 0));
        const auto enqueue = [&](const Array& to, const Array& from) {
          return rig.d().memcpy_async(to.at(), from.at(), kCount * sizeof(float), rig.stream);
        };
        rig.driver.control->pause();
        if (enqueue(values, ones) != Cu::kSuccess) return "copy before";
        const auto first = begin(
            rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
        if (const Status waits = first->wait_on(rig.stream); !waits.is_ok()) return waits.message();
        if (enqueue(copy, values) != Cu::kSuccess) return "copy after";
        const auto second =
            begin(rig, member, request_of(Collective::kAllReduce, {copy.block()}, {copy.block()}));
        if (const Status waits = second->wait_on(rig.stream); !waits.is_ok()) {
          return waits.message();
        }
        if (first->done() || second->done()) return "done too early";
        rig.driver.control->resume();
        if (rig.d().stream_synchronize(rig.stream) != Cu::kSuccess) return "stream";
        if (values.values() != std::vector<float>(kCount, 2)) return "wrong sum";
        if (copy.values() != std::vector<float>(kCount, 4)) return "wrong sum of sums";
        if (!second->wait(seconds(5)).is_ok()) return second->status().message();
        return ops_by(member, "direct") == 3 ? "" : "staged";
      },
      direct_setup());
}

TEST_CASE("calls that differ are told apart") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, std::vector<float>(r == 0 ? 1000 : 1001, 1));
        const auto work = begin(
            rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
        const Status end = work->wait(seconds(30));
        const bool told = end.message().find("rank 0 called all_reduce #") != std::string::npos &&
                          end.message().find("(f32, 1001 elements, sum") != std::string::npos;
        return end.code() == Code::kProtocolError && told ? "" : end.message();
      },
      direct_setup());
}

TEST_CASE("a device that is lost in the middle ends the op on all ranks, and hangs none") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        DevicePointer at = 0;
        if (rig.d().mem_alloc(&at, 4000) != Cu::kSuccess) return "memory";
        const comm::Block block{reinterpret_cast<std::byte*>(at), 1000};  // NOLINT
        if (r == 0) rig.driver.control->pause();
        const auto work = begin(rig, member, request_of(Collective::kAllReduce, {block}, {block}));
        if (r == 0) rig.driver.control->fail(Cu::kLaunchFailed);
        const Status end = work->wait(seconds(30));
        return work->done() && end.code() == Code::kSystem ? "" : "not lost: " + end.message();
      },
      direct_setup());
}

TEST_CASE("a trial is agreed on by counting calls") {
  using comm::PathAgreement;
  PathAgreement agreement;
  const auto path = [&](std::uint32_t boundary) {
    return agreement.choose({boundary}, seconds(1)).value();
  };
  const auto first = path(1);
  CHECK(first.path == PathAgreement::Path::kDirect);
  CHECK(first.trial == 1);
  for (std::uint32_t i = 1; i < comm::kTrialCalls; ++i) {
    // Known here, perhaps not elsewhere.
    agreement.conclude(first.trial, PathAgreement::PathVerdict::kDirect);
    CHECK(path(1).path == PathAgreement::Path::kStaged);
  }
  CHECK(path(1).path == PathAgreement::Path::kDirect);
  CHECK(path(1).trial == 0);
  // Somebody came in; a rank was lost in the next trial; the one after it fails.
  const auto again = path(2);
  CHECK(again.trial == 2);
  agreement.conclude(first.trial, PathAgreement::PathVerdict::kDirect);
  CHECK(path(2).path == PathAgreement::Path::kStaged);
  agreement.conclude(again.trial, PathAgreement::PathVerdict::kAgain);
  for (std::uint32_t i = 2; i < comm::kTrialCalls; ++i) CHECK(path(2).trial == 0);
  CHECK(path(2).trial == 3);
  for (std::uint32_t i = 1; i < comm::kTrialCalls; ++i) CHECK(path(2).trial == 0);
  CHECK(agreement.choose({2}, std::chrono::milliseconds(1)).status().code() == Code::kTimeout);
  agreement.conclude(3, PathAgreement::PathVerdict::kStaged);
  CHECK(path(2).path == PathAgreement::Path::kStaged);
}

TEST_CASE("slices cover the result once, whoever is left") {
  for (const std::uint64_t bytes : {0ULL, 4ULL, 511ULL, 512ULL, 5000ULL, 1'000'003ULL}) {
    for (int n = 1; n <= 9; ++n) {
      std::vector<Rank> ranks(static_cast<std::size_t>(n));
      for (int r = 0; r < n; ++r) ranks[static_cast<std::size_t>(r)] = {2 * r + 1};
      std::vector<int> seen(bytes, 0);
      for (const Rank rank : ranks) {
        const device_comm::DirectShape shape{
            Collective::kAllReduce, 1, {}, rank, 20, {bytes}, {bytes}};
        const auto mine = device_comm::direct_phase(shape, ranks, 0);
        REQUIRE(mine.fold);
        std::uint64_t got = mine.fold->bytes;
        for (std::uint64_t i = 0; i < mine.fold->bytes; ++i) ++seen[mine.fold->to + i];
        for (const auto& fetch : device_comm::direct_phase(shape, ranks, 1).fetches) {
          CHECK(fetch.from != rank);
          CHECK(fetch.at == fetch.to);
          got += fetch.bytes;
        }
        CHECK(got == bytes);
      }
      CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(bytes));
    }
  }
}

}  // namespace
}  // namespace holdfast::testing

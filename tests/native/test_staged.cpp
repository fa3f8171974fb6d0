// Collectives on device memory, over the emulated device.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <mutex>
#include <thread>

#include "rigs.h"

namespace holdfast::testing {
namespace {

TEST_CASE("every collective moves device memory") {
  run_rigs(3, [](int r, Member& member, Rig& rig) -> std::string {
    constexpr std::size_t kCount = 5;
    const auto thirds = [](const Array& a) {
      return comm::BlockList{a.block(0, kCount), a.block(kCount, kCount),
                             a.block(2 * kCount, kCount)};
    };
    std::vector<float> all;
    for (const float rank : {0.F, 1.F, 2.F}) {
      const auto part = counting(kCount, 100 * rank);
      all.insert(all.end(), part.begin(), part.end());
    }
    const std::vector<float> mine(all.begin() + r * 5, all.begin() + r * 5 + 5);
    const Array small(rig, mine);
    const Array large(rig, all);
    const Array three(rig, std::vector<float>(15, -1));
    const Array one(rig, std::vector<float>(5, -1));

    if (auto e =
            run(rig, member, request_of(Collective::kAllGather, {small.block()}, thirds(three)));
        e != "" || three.values() != all) {
      return "all_gather " + e;
    }
    if (auto e =
            run(rig, member, request_of(Collective::kReduceScatter, thirds(large), {one.block()}));
        e != "" || one.values()[1] != 3 * mine[1]) {
      return "reduce_scatter " + e;
    }
    if (auto e = run(rig, member, request_of(Collective::kAllToAll, thirds(large), thirds(three)));
        e != "" || three.values()[6] != mine[1]) {
      return "all_to_all " + e;
    }
    OpRequest rooted = request_of(Collective::kBroadcast, {small.block()}, {small.block()});
    rooted.root = {1};
    if (auto e = run(rig, member, rooted); e != "" || small.values()[2] != 102) {
      return "broadcast " + e;
    }
    rooted =
        request_of(Collective::kScatter, r == 1 ? thirds(large) : comm::BlockList{}, {one.block()});
    rooted.root = {1};
    if (auto e = run(rig, member, rooted); e != "" || one.values() != mine) return "scatter " + e;
    rooted =
        request_of(Collective::kGather, {one.block()}, r == 2 ? thirds(three) : comm::BlockList{});
    rooted.root = {2};
    if (auto e = run(rig, member, rooted); e != "" || (r == 2 && three.values() != all)) {
      return "gather " + e;
    }
    rooted = request_of(Collective::kReduce, {one.block()},
                        r == 0 ? comm::BlockList{one.block()} : comm::BlockList{});
    rooted.root = {0};
    if (auto e = run(rig, member, rooted); e != "" || one.values()[1] != (r == 0 ? 303 : mine[1])) {
      return "reduce " + e;
    }
    const Array reduced(rig, {static_cast<float>(r), 1});
    if (auto e = run(rig, member,
                     request_of(Collective::kAllReduce, {reduced.block()}, {reduced.block()}));
        e != "" || reduced.values() != std::vector<float>{3, 3}) {
      return "all_reduce " + e;
    }
    return "";
  });
}

TEST_CASE("messages and barriers pass beside device memory") {
  run_rigs(2, [](int r, Member& member, Rig& rig) -> std::string {
    const Array large(rig, counting(15, static_cast<float>(r)));
    OpRequest message = r == 0 ? request_of(Collective::kSend, {large.block()}, {})
                               : request_of(Collective::kRecv, {}, {large.block()});
    message.peer = {1 - r};
    const auto work = begin(rig, member, message);
    if (!work->wait(seconds(30)).is_ok()) return "message " + work->status().message();
    if (large.values() != counting(15, 0)) return "wrong message";
    if (r == 1 && work->source() != Rank{0}) return "wrong source";
    return run(rig, member, request_of(Collective::kBarrier, {}, {}));
  });
}

TEST_CASE("large ops go in slices, and come out whole") {
  run_rigs(2, [](int r, Member& member, Rig& rig) -> std::string {
    // 25 slices of 4096 bytes, the last one short; then one piece less than a slice; then nothing.
    for (const std::size_t count : {std::size_t{25'001}, std::size_t{1000}, std::size_t{0}}) {
      const Array in(rig, counting(count, static_cast<float>(r)));
      const Array out(rig, std::vector<float>(count, -1));
      const auto work =
          begin(rig, member, request_of(Collective::kAllReduce, {in.block()}, {out.block()}));
      if (!work->wait(seconds(30)).is_ok()) return work->status().message();
      if (work->outcome().contributors != std::vector<Rank>{{0}, {1}}) return "contributors";
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = 2 * static_cast<float>(i) + 1;
      if (out.values() != expected) return "wrong sum of " + std::to_string(count);
      if (in.values() != counting(count, static_cast<float>(r))) return "input was written";
    }
    return "";
  });
}

TEST_CASE("an op sees what its stream did before, and the stream waits for what the op does") {
  run_rigs(2, [](int, Member& member, Rig& rig) -> std::string {
    constexpr std::size_t kCount = 5000;
    const Array values(rig, std::vector<float>(kCount, 0));
    const Array ones(rig, std::vector<float>(kCount, 1));
    const Array copy(rig, std::vector<float>(kCount, 0));
    rig.driver.control->pause();
    // Late: the device does nothing yet. Neither host nor op may wait for it here.
    const auto enqueue = [&](const Array& to, const Array& from) {
      return rig.d().memcpy_async(to.at(), from.at(), kCount * sizeof(float), rig.stream);
    };
    if (enqueue(values, ones) != Cu::kSuccess) return "copy before";
    const auto work =
        begin(rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
    if (const Status waits = work->wait_on(rig.stream); !waits.is_ok()) return waits.message();
    if (enqueue(copy, values) != Cu::kSuccess) return "copy after";
    // A second op on the result of the first, before the first has begun.
    const auto second =
        begin(rig, member, request_of(Collective::kAllReduce, {copy.block()}, {copy.block()}));
    if (const Status waits = second->wait_on(rig.stream); !waits.is_ok()) return waits.message();
    if (work->done() || second->done()) return "done too early";
    rig.driver.control->resume();
    if (rig.d().stream_synchronize(rig.stream) != Cu::kSuccess) return "stream";
    if (values.values() != std::vector<float>(kCount, 2)) return "wrong sum";
    if (copy.values() != std::vector<float>(kCount, 4)) return "wrong sum of sums";
    return second->wait(seconds(5)).message();
  });
}

template <class R, class... A>
void take_lock_in(std::function<R(A...)>& call, std::mutex& lock) {
  call = [inner = call, &lock](A... arguments) {
    const std::lock_guard held(lock);
    return inner(arguments...);
  };
}

TEST_CASE("a stream that waits for what is enqueued needs no more calls of the driver") {
  // What a driver holds while a thread copies to pageable memory, which waits for its stream.
  std::array<std::mutex, 2> locks;
  Setup setup;
  setup.wrap = [&](int r, const device::DriverTable& table) {
    auto locked = std::make_shared<device::CudaDriver>(*table);
    std::mutex& lock = locks[static_cast<std::size_t>(r)];
    take_lock_in(locked->memcpy_async, lock);
    take_lock_in(locked->stream_write_value32, lock);
    take_lock_in(locked->launch_host_func, lock);
    take_lock_in(locked->event_record, lock);
    take_lock_in(locked->event_query, lock);
    take_lock_in(locked->stream_wait_event, lock);
    take_lock_in(locked->stream_query, lock);
    return locked;
  };
  std::latch first_began(1);
  const auto body = [&](int r, Member& member, Rig& rig) -> std::string {
    const Array values(rig, counting(20'000, 1));
    if (r == 1) {
      first_began.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one waits for us
    }
    const auto work =
        begin(rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
    if (r == 0) first_began.count_down();
    if (const Status enqueued = work->wait_enqueued(); !enqueued.is_ok()) return enqueued.message();
    if (const Status waits = work->wait_on(rig.stream); !waits.is_ok()) return waits.message();
    {
      const std::lock_guard held(locks[static_cast<std::size_t>(r)]);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!rig.driver.control->idle()) {
        if (std::chrono::steady_clock::now() > deadline) return "the stream waits for the host";
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    if (values.values()[3] != 8) return "wrong sum";
    return work->wait(seconds(30)).message();
  };
  run_rigs(2, body, setup);
}

TEST_CASE("pinned memory is used again, and goes with the device") {
  run_rigs(2, [](int, Member& member, Rig& rig) -> std::string {
    const Array values(rig, std::vector<float>(20'000, 1));
    const OpRequest request =
        request_of(Collective::kAllReduce, {values.block()}, {values.block()});
    std::uint64_t after_few = 0;
    for (int i = 0; i < 40; ++i) {
      if (auto e = run(rig, member, request); e != "") return e;
      if (i == 3) after_few = rig.device().pinned_bytes();
    }
    if (rig.device().pinned_bytes() != after_few) return "pinned memory grows";
    return rig.driver.control->pinned_bytes() == after_few ? "" : "pinned twice";
  });
}

TEST_CASE("what cannot be done is refused before an op begins") {
  run_rigs(2, [](int, Member& member, Rig& rig) -> std::string {
    const Array values(rig, std::vector<float>(100, 1));
    std::vector<float> host(100, 1);
    const auto refusal = [&](const OpRequest& request) {
      return rig.staged->start(*member.group, request, {&rig.stream, 1}).status();
    };
    const comm::Block on_host{reinterpret_cast<std::byte*>(host.data()), 100};
    const Status mixed = refusal(request_of(Collective::kAllReduce, {values.block()}, {on_host}));
    if (mixed.code() != Code::kConfigError ||
        mixed.message() !=
            "all_reduce: memory of the host, or of nobody among that of CUDA device 0; accepted: "
            "memory of one device for all blocks of an op") {
      return mixed.message();
    }
    rig.driver.control->set_capturing(rig.stream, true);
    const OpRequest good = request_of(Collective::kAllReduce, {values.block()}, {values.block()});
    const Status captured = refusal(good);
    rig.driver.control->set_capturing(rig.stream, false);
    if (captured.code() != Code::kUnsupported ||
        captured.message().find("captured into a CUDA graph") == std::string::npos) {
      return captured.message();
    }
    OpRequest wrong = good;
    wrong.root = {7};
    wrong.collective = Collective::kBroadcast;
    if (refusal(wrong).code() != Code::kConfigError) return "root";
    // The group is as it was.
    if (auto e = run(rig, member, good); e != "") return e;
    return values.values()[0] == 2 ? "" : "wrong sum";
  });
}

TEST_CASE("a device that there is not, and one without memory, say so") {
  Options options = options_for("tcp");
  options.cuda_driver = "emulated";
  const auto node = Node::create(options);
  REQUIRE(node.is_ok());
  const auto none = node.value()->staged(3);
  REQUIRE(!none.is_ok());
  CHECK(none.status().message() == "CUDA device 3; accepted: 0 to 0");
  const auto staged = node.value()->staged(0);
  REQUIRE(staged.is_ok());
  CHECK(node.value()->staged(0).value() == staged.value());
  const device::Device& device = staged.value()->device();
  const device::Device::Current current(device);
  const auto memory = device.allocate(1ULL << 40, {});
  CHECK(memory.status().code() == Code::kSystem);
  CHECK(memory.status().message().find(
            "1099511627776 bytes of device memory, of which 268435456") != std::string::npos);
  options.cuda_driver = "none";
  const auto off = Node::create(options);
  REQUIRE(off.is_ok());
  CHECK(off.value()->staged(0).status().code() == Code::kUnsupported);
  options.cuda_driver = "other";
  CHECK(Node::create(options).status().message().find("cuda_driver") != std::string::npos);
}

TEST_CASE("no host memory to pin fails the call, not the group") {
  const auto driver = device::make_emulated_driver({});
  std::atomic<int> left{1};
  const device::HostMemory host{[&](std::uint64_t bytes) -> std::byte* {
                                  return left-- > 0 ? new std::byte[bytes] : nullptr;
                                },
                                [](std::byte* data) { delete[] data; }};
  const auto opened = device::Device::open(driver.table, 0, host);
  REQUIRE(opened.is_ok());
  const device::Device::Current current(*opened.value());
  const auto memory = opened.value()->take(1 << 20);
  CHECK(memory.status().code() == Code::kSystem);
  CHECK(memory.status().message() == "no host memory for 1048576 bytes to be pinned");
}

TEST_CASE("a device that is lost on the way up fails the op on all ranks") {
  std::vector<Status> ends(2);
  run_rigs(2, [&](int r, Member& member, Rig& rig) -> std::string {
    // Its destructor would find the device lost.
    DevicePointer at = 0;
    if (rig.d().mem_alloc(&at, 4000) != Cu::kSuccess) return "memory";
    if (r == 0) rig.driver.control->pause();
    const comm::Block block{reinterpret_cast<std::byte*>(at), 1000};  // NOLINT
    const auto work = begin(rig, member, request_of(Collective::kAllReduce, {block}, {block}));
    if (r == 0) rig.driver.control->fail(Cu::kLaunchFailed);
    ends[static_cast<std::size_t>(r)] = work->wait(seconds(30));
    return work->done() ? "" : "hangs";
  });
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kSystem);
    CHECK(end.message().find("CUDA device 0: copying the input up: CUDA_ERROR_LAUNCH_FAILED") !=
          std::string::npos);
  }
}

TEST_CASE("a device that is lost on the way down fails its own rank's op") {
  std::latch up(1);
  run_rigs(2, [&](int r, Member& member, Rig& rig) -> std::string {
    DevicePointer at = 0;
    if (rig.d().mem_alloc(&at, 4000) != Cu::kSuccess) return "memory";
    const comm::Block block{reinterpret_cast<std::byte*>(at), 1000};  // NOLINT
    const OpRequest request = request_of(Collective::kAllReduce, {block}, {block});
    if (r == 1) {
      up.wait();
      return run(rig, member, request);
    }
    const auto work = begin(rig, member, request);
    // Until its gate has opened: then the device pauses, and the other rank comes.
    while (!rig.driver.control->idle()) {
      if (work->wait(std::chrono::milliseconds(1)).is_ok()) return "ended alone";
    }
    rig.driver.control->pause();
    up.count_down();
    if (work->wait(std::chrono::milliseconds(300)).code() != Code::kTimeout) return "ended";
    rig.driver.control->fail(Cu::kIllegalAddress);
    const Status end = work->wait(seconds(30));
    if (!work->done() || end.code() != Code::kSystem) return "not lost: " + end.message();
    return end.message().find("copying the result down") != std::string::npos ? "" : end.message();
  });
}

TEST_CASE("an op that fails sets the streams free that wait for it") {
  run_rigs(2, [&](int r, Member& member, Rig& rig) -> std::string {
    const Array values(rig, std::vector<float>(100, 7));
    if (r == 1) {
      member.group->abort("enough");
      return "";
    }
    const auto work =
        begin(rig, member, request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
    [[maybe_unused]] const Status waits = work->wait_on(rig.stream);
    if (rig.d().stream_synchronize(rig.stream) != Cu::kSuccess) return "stream";
    if (work->wait(seconds(30)).code() != Code::kPeerLost) return work->status().message();
    // Written with final values, or not at all.
    return values.values() == std::vector<float>(100, 7) ? "" : "written";
  });
}

}  // namespace
}  // namespace holdfast::testing

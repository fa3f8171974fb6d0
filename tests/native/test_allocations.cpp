// Allocations of an op in steady state. Every operator new of the process is counted, the library's
// and all threads' among them: one per op, on one of the ranks, would be as many as there are ops.
// What is done now and then (signs of life, a look once a millisecond at whom an op waits for that
// is as old) is a few, and of those the best of some windows counts.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "worlds.h"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace holdfast {
namespace {

using comm::Collective;
using comm::OpRequest;
using std::chrono::seconds;
using testing::all_reduce;
using testing::block;
using testing::expect_no_errors;
using testing::Member;
using testing::run_world;

constexpr int kWarmUp = 200;
// Short windows, and many if need be: on a busy machine ops are seldom quick for long.
constexpr int kOps = 8;
constexpr int kMostWindows = 2000;
// Fewer than this are none per op.
constexpr long kFew = kOps / 4;

struct Case {
  std::string name;
  Collective collective;
  std::size_t count;  // elements of a block
  bool waits = true;  // a blocking call
};

OpRequest request_of(const Case& c, int rank, int size, std::vector<float>& in,
                     std::vector<float>& out) {
  OpRequest request;
  request.collective = c.collective;
  const auto cut = [&](std::vector<float>& whole, bool parts) {
    comm::BlockList blocks;
    auto* data = reinterpret_cast<std::byte*>(whole.data());
    for (int r = 0; r < (parts ? size : 1); ++r) {
      blocks.push_back({data + static_cast<std::size_t>(r) * c.count * sizeof(float), c.count});
    }
    return blocks;
  };
  const bool exchanges = c.collective == Collective::kAllToAll;
  request.equal_blocks = exchanges;
  request.input = cut(in, exchanges || c.collective == Collective::kReduceScatter);
  request.output = cut(out, exchanges || c.collective == Collective::kAllGather);
  if (c.collective == Collective::kBroadcast) request.output = request.input;
  if (c.collective == Collective::kBarrier) request.input = request.output = {};
  if (c.collective == Collective::kSend || c.collective == Collective::kRecv) {
    request.peer = {1 - rank};
    (c.collective == Collective::kSend ? request.output : request.input) = {};
  }
  return request;
}

// A message there and one back: a rank that only sends is ahead by as many as it likes.
std::vector<Case> calls_of(const Case& c, int rank) {
  if (c.collective != Collective::kSend) return {c};
  std::vector<Case> calls{c, {c.name, Collective::kRecv, c.count, c.waits}};
  if (rank == 1) std::swap(calls[0], calls[1]);
  return calls;
}

std::string one_op(const Case& c, OpRequest request, Member& member) {
  if (!c.waits) {
    auto work = member.group->start(std::move(request));
    return work.is_ok() ? work.value()->wait(seconds(60)).message() : work.status().message();
  }
  auto ran = member.group->run(std::move(request));
  if (!ran.is_ok()) return ran.status().message();
  const auto& work = ran.value().work;
  return work ? work->wait(seconds(60)).message() : "";
}

// Of both ranks together, in the window that had the fewest; a window with few is the last.
long allocations_of(const Case& c, const std::string& transport) {
  std::atomic<long> fewest{std::numeric_limits<long>::max()};
  expect_no_errors(run_world(2, transport, [&](int rank, Member& member) -> std::string {
    std::vector<float> in(2 * c.count, 1.0F);
    std::vector<float> out(2 * c.count);
    const Case barrier{"barrier", Collective::kBarrier, 0};
    const std::vector<Case> calls = calls_of(c, rank);
    const auto ops = [&](int count) -> std::string {
      for (int i = 0; i < count; ++i) {
        for (const Case& call : calls) {
          std::string wrong = one_op(call, request_of(call, rank, 2, in, out), member);
          if (!wrong.empty()) return wrong;
        }
      }
      return one_op(barrier, request_of(barrier, rank, 2, in, out), member);
    };
    std::string wrong = ops(kWarmUp);
    for (int window = 0; window < kMostWindows && wrong.empty(); ++window) {
      const long before = allocations.load();
      wrong = ops(kOps);
      if (rank == 0) fewest = std::min(fewest.load(), allocations.load() - before);
      // Behind it both see what rank 0 has found.
      if (wrong.empty()) wrong = one_op(barrier, request_of(barrier, rank, 2, in, out), member);
      if (fewest < kFew) break;
    }
    return wrong;
  }));
  return fewest;
}

const std::vector<Case> kCases{
    {"barrier", Collective::kBarrier, 0},
    {"small all_reduce", Collective::kAllReduce, 1000},
    {"small all_reduce, asynchronous", Collective::kAllReduce, 1000, false},
    {"all_reduce of 64 KiB", Collective::kAllReduce, 16 * 1024},
    {"all_reduce of 128 KiB", Collective::kAllReduce, 32 * 1024},
    {"all_reduce of 128 KiB, asynchronous", Collective::kAllReduce, 32 * 1024, false},
    {"small broadcast", Collective::kBroadcast, 1000},
    {"broadcast of 128 KiB", Collective::kBroadcast, 32 * 1024},
    {"small all_gather", Collective::kAllGather, 1000},
    {"all_gather of 128 KiB", Collective::kAllGather, 16 * 1024},
    {"small reduce_scatter", Collective::kReduceScatter, 1000},
    {"reduce_scatter of 128 KiB", Collective::kReduceScatter, 16 * 1024},
    {"small all_to_all", Collective::kAllToAll, 1000},
    {"all_to_all of 128 KiB", Collective::kAllToAll, 16 * 1024},
    {"small message", Collective::kSend, 1000},
    {"message of 128 KiB", Collective::kSend, 32 * 1024},
};

TEST_CASE("an op in steady state allocates nothing") {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const Case& c : kCases) {
      CAPTURE(transport);
      CAPTURE(c.name);
      const long found = allocations_of(c, transport);
      CHECK(found < kFew);
    }
  }
}

TEST_CASE("the count sees what the library allocates") {
  const long before = allocations.load();
  const Status status(Code::kAborted, std::string(100, 'x'));
  CHECK(allocations.load() > before);
  CHECK(status.message().size() == 100);
}

}  // namespace
}  // namespace holdfast

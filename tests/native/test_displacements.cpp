// Blocks of different sizes that lie anywhere in a caller's buffer: gathers, scatters and
// exchanges of bytes, on every way. What lies between the blocks stays as it was.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sanitized.h"
#include "worlds.h"

namespace holdfast::comm {
namespace {

using holdfast::testing::expect_no_errors;
using holdfast::testing::Member;
using holdfast::testing::Options;
using holdfast::testing::run_world;

constexpr std::byte kGap{0xab};

// Bytes from one rank to another: odd, some none, some large.
std::uint64_t bytes_between(int from, int to, std::uint64_t scale) {
  static constexpr std::uint64_t kSizes[]{0, 1, 7, 64, 333, 1000, 0, 5};
  const auto pick = static_cast<std::size_t>(from * 5 + to * 3);
  return kSizes[pick % std::size(kSizes)] * scale + (pick % 3 == 0 ? 0 : scale / 2);
}

std::byte filling(int from, int to, std::uint64_t i) {
  return static_cast<std::byte>(static_cast<std::uint64_t>(from * 31 + to * 7 + 1) + i * 13);
}

// A buffer with a block for each rank, in an order of its own and with gaps between them.
class Scattered {
 public:
  enum class Order : std::uint8_t { kFalling, kWoven };

  Scattered(std::vector<std::uint64_t> sizes, Order order) : sizes_(std::move(sizes)) {
    const std::size_t n = sizes_.size();
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < n; ++i) places.push_back(n - 1 - i);
    if (order == Order::kWoven) {
      std::stable_partition(places.begin(), places.end(), [](std::size_t i) { return i % 2 == 1; });
    }
    at_.resize(n);
    std::uint64_t end = 3;
    for (const std::size_t i : places) {
      at_[i] = end;
      end += sizes_[i] + 5;
    }
    memory_.assign(end, kGap);
  }

  BlockList blocks() {
    BlockList list;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      // A block of nothing needs no memory.
      list.push_back({sizes_[i] == 0 ? nullptr : memory_.data() + at_[i], sizes_[i]});
    }
    return list;
  }
  std::byte* block(std::size_t i) { return memory_.data() + at_[i]; }

  // Whether block i holds value(i, k) at k, for all blocks, and all else is as it was.
  template <class Value>
  std::string check(Value value) {
    std::vector<std::byte> want(memory_.size(), kGap);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      for (std::uint64_t k = 0; k < sizes_[i]; ++k) want[at_[i] + k] = value(i, k);
    }
    if (want == memory_) return "";
    const auto wrong = std::mismatch(want.begin(), want.end(), memory_.begin()).first;
    return "byte " + std::to_string(wrong - want.begin()) + " is wrong";
  }

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> at_;
  std::vector<std::byte> memory_;
};

std::string run(Member& member, OpRequest request) {
  request.dtype = DType::kU8;
  auto ran = member.group->run(std::move(request));
  if (!ran.is_ok()) return ran.status().message();
  if (!ran.value().work) return "";
  const Status status = ran.value().work->wait(std::chrono::seconds(60));
  return status.is_ok() ? "" : status.message();
}

std::vector<std::byte> filled(std::uint64_t bytes, int from, int to) {
  std::vector<std::byte> data(std::max<std::uint64_t>(1, bytes));
  for (std::uint64_t i = 0; i < bytes; ++i) data[i] = filling(from, to, i);
  return data;
}

template <class Bytes>
Scattered scattered(int size, Scattered::Order order, Bytes bytes) {
  std::vector<std::uint64_t> sizes;
  for (int r = 0; r < size; ++r) sizes.push_back(bytes(r));
  return {std::move(sizes), order};
}

// gather(v) to the last rank, or to all.
std::string gathers(Member& member, std::uint64_t scale, bool to_all) {
  const int rank = member.group->rank().value;
  const int size = member.group->size();
  const bool takes = to_all || rank == size - 1;
  Scattered all = scattered(size, Scattered::Order::kFalling,
                            [&](int r) { return bytes_between(r, 0, scale); });
  std::vector<std::byte> own = filled(bytes_between(rank, 0, scale), rank, 0);
  OpRequest request;
  request.collective = to_all ? Collective::kAllGather : Collective::kGather;
  request.root = {size - 1};
  request.input = {{own.data(), bytes_between(rank, 0, scale)}};
  if (takes) request.output = all.blocks();
  std::string wrong = run(member, std::move(request));
  if (!wrong.empty() || !takes) return wrong;
  return all.check(
      [](std::size_t from, std::uint64_t k) { return filling(static_cast<int>(from), 0, k); });
}

std::string scatters(Member& member, std::uint64_t scale) {
  const int rank = member.group->rank().value;
  const int size = member.group->size();
  Scattered all =
      scattered(size, Scattered::Order::kWoven, [&](int r) { return bytes_between(0, r, scale); });
  const auto value = [](std::size_t to, std::uint64_t k) {
    return filling(0, static_cast<int>(to), k);
  };
  for (int to = 0; rank == 0 && to < size; ++to) {
    const auto data = filled(bytes_between(0, to, scale), 0, to);
    std::copy_n(data.begin(), bytes_between(0, to, scale), all.block(std::size_t(to)));
  }
  std::vector<std::byte> own(bytes_between(0, rank, scale) + 1, kGap);
  OpRequest request;
  request.collective = Collective::kScatter;
  request.output = {{own.data(), own.size() - 1}};
  if (rank == 0) request.input = all.blocks();
  std::string wrong = run(member, std::move(request));
  if (!wrong.empty()) return wrong;
  std::vector<std::byte> want = filled(own.size() - 1, 0, rank);
  want.resize(own.size() - 1);
  want.push_back(kGap);
  if (want != own) return "scattered bytes are wrong";
  return rank == 0 ? all.check(value) : "";
}

std::string exchanges(Member& member, std::uint64_t scale) {
  const int rank = member.group->rank().value;
  const int size = member.group->size();
  Scattered out = scattered(size, Scattered::Order::kWoven,
                            [&](int to) { return bytes_between(rank, to, scale); });
  Scattered in = scattered(size, Scattered::Order::kFalling,
                           [&](int from) { return bytes_between(from, rank, scale); });
  for (int to = 0; to < size; ++to) {
    const auto data = filled(bytes_between(rank, to, scale), rank, to);
    std::copy_n(data.begin(), bytes_between(rank, to, scale), out.block(std::size_t(to)));
  }
  OpRequest request;
  request.collective = Collective::kAllToAll;
  request.input = out.blocks();
  request.output = in.blocks();
  std::string wrong = run(member, std::move(request));
  if (!wrong.empty()) return wrong;
  wrong = in.check(
      [&](std::size_t from, std::uint64_t k) { return filling(static_cast<int>(from), rank, k); });
  if (!wrong.empty()) return wrong;
  return out.check(
      [&](std::size_t to, std::uint64_t k) { return filling(rank, static_cast<int>(to), k); });
}

TEST_CASE("blocks of any size may lie anywhere, and nothing else is touched") {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int size : {1, 2, 3, 5}) {
      for (const bool protect : {true, false}) {
        expect_no_errors(run_world(
            size, transport,
            [](int, Member& member) -> std::string {
              for (const std::uint64_t scale : {1ULL, 2ULL, 300ULL}) {
                for (std::string wrong :
                     {gathers(member, scale, false), gathers(member, scale, true),
                      scatters(member, scale), exchanges(member, scale)}) {
                  if (!wrong.empty()) return wrong;
                }
              }
              return "";
            },
            [&](Options& options) { options.fault_tolerance = protect; }));
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::comm

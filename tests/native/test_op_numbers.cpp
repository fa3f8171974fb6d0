// Groups whose ops are numbered beyond what a message's key, or 32 bits, have room for: they go on,
// over shared memory and sockets, after a loss too.
#include <numeric>

#include "comm/transport/frame.h"
#include "process_worlds.h"
#include "worlds.h"

namespace holdfast::testing {
namespace {

constexpr int kRanks = 3;
constexpr int kRounds = 6;
constexpr std::uint64_t kFirsts[] = {comm::kRoundBit - 8, (1ULL << 32) - 8, (1ULL << 48) - 8};

TEST_CASE("keys have the lowest bits of a number, and numbers are found from them") {
  using namespace comm;
  CHECK(number_in_key({5}) == 5);
  CHECK(number_in_key({(1ULL << 32) + 5}) == 5);
  CHECK(number_in_key({kRoundBit + 5ULL}) == 5);
  CHECK(number_in_key(round_of({kRoundBit + 5ULL})) == (kRoundBit | 5));
  for (const std::uint64_t at : {0ULL, 5ULL, (1ULL << 32) - 2, (1ULL << 32) + 2, 7ULL << 40}) {
    for (const std::int64_t away : {-1000, -3, 0, 3, 1000}) {
      const std::uint64_t number = at + static_cast<std::uint64_t>(away);
      if (away < 0 && at < 1000) continue;
      CHECK(nearest_number(static_cast<std::uint32_t>(number), {at}).value == number);
    }
  }
}

// Small and large, so that all paths have their turn; each value is how many ranks there are.
std::string reduce(comm::Communicator& group, std::size_t count) {
  std::vector<float> ones(count, 1.0F);
  OpRequest request = all_reduce(ones);
  auto work = group.start(request);
  if (!work.is_ok()) return work.status().message();
  if (const Status ended = work.value()->wait(seconds(60)); !ended.is_ok()) return ended.message();
  const auto living = static_cast<float>(group.live_ranks().size());
  for (const float one : ones) {
    if (one != living && one != static_cast<float>(kRanks))
      return "not the sum: " + std::to_string(one);
  }
  return "";
}

std::string run_rounds(comm::Communicator& group) {
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t count : {1UL, 1000UL, 40'000UL, 400'000UL}) {
      if (std::string wrong = reduce(group, count); !wrong.empty()) return wrong;
    }
  }
  return "";
}

std::string run_rank(int rank, Store& store, const std::string& transport, std::uint64_t first,
                     bool loses) {
  auto node = Node::create(options_for(transport));
  if (!node.is_ok()) return node.status().message();
  runtime::JoinRequest request{"world", {rank}, kRanks, {}, {}};
  request.first_op = first;
  auto group = node.value()->join(store, request);
  if (!group.is_ok()) return group.status().message();
  for (int turn = 0; turn < 3; ++turn) {
    if (std::string wrong = reduce(*group.value(), 1000); !wrong.empty()) return wrong;
  }
  if (loses && rank == kRanks - 1) ::raise(SIGKILL);
  if (std::string wrong = run_rounds(*group.value()); !wrong.empty()) return wrong;
  if (loses && group.value()->live_ranks().size() != kRanks - 1) return "nobody was lost";
  return group.value()->close(seconds(30)).message();
}

TEST_CASE("ops go on beyond the bits that keys have, and 32") {
  for (const char* transport : {"shm", "tcp"}) {
    for (const bool loses : {false, true}) {
      for (const std::uint64_t first : kFirsts) {
        CAPTURE(transport);
        CAPTURE(loses);
        CAPTURE(first);
        const auto endings = run_processes(kRanks, [&](int rank, Store& store) {
          return run_rank(rank, store, transport, first, loses);
        });
        for (int r = 0; r < kRanks; ++r) {
          const Ending& ending = endings[static_cast<std::size_t>(r)];
          const bool killed = loses && r == kRanks - 1;
          CHECK_MESSAGE(ending.signal == (killed ? SIGKILL : 0), ending.words);
          CHECK_MESSAGE(ending.code == (killed ? -1 : 0), ending.words);
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::testing

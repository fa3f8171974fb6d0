// What a view change costs a large world: messages and bytes of it, in all and of the busiest
// member, and the processor's time of the coordinator (rank 0) and of the median member. JSON
// lines, one to a change.
//
//   cmake -DHOLDFAST_TESTS=ON ... && view_changes [ranks...]
//
// Messages and bytes are the same in every run; frames that carry them add 64 bytes to each 64 KiB.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "crowd.h"

namespace holdfast::ft::testing {
namespace {

void print(const char* change, int ranks, Left left, const Crowd& crowd) {
  const Load total = crowd.total();
  std::printf(
      "{\"change\": \"%s\", \"ranks\": %d, \"held\": \"%s\", \"messages\": %llu, \"bytes\": %llu, "
      "\"busiest_in\": %llu, \"busiest_out\": %llu, \"newcomer_in\": %llu, "
      "\"coordinator_ms\": %.1f, \"median_ms\": %.2f, \"agrees\": %s}\n",
      change, ranks, left == Left::kNothing ? "nothing" : "parts",
      static_cast<unsigned long long>(total.messages_in),
      static_cast<unsigned long long>(total.bytes_in),
      static_cast<unsigned long long>(crowd.most(&Load::bytes_in)),
      static_cast<unsigned long long>(crowd.most(&Load::bytes_out)),
      static_cast<unsigned long long>(crowd.of_newcomer().bytes_in),
      crowd.of_coordinator().seconds * 1e3, crowd.median_seconds() * 1e3,
      crowd.agrees() ? "true" : "false");
  std::fflush(stdout);
}

void measure(int ranks, Left left) {
  Crowd crowd(ranks, left);
  crowd.lose({ranks - 1});
  print("loss", ranks, left, crowd);
  crowd.lose({ranks - 2, ranks / 2});
  print("two losses", ranks, left, crowd);
  crowd.join(ranks - 1);
  print("join", ranks, left, crowd);
}

}  // namespace
}  // namespace holdfast::ft::testing

int main(int argc, char** argv) {
  using namespace holdfast::ft::testing;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {64, 256, 512, 1024};
  for (const int ranks : sizes) {
    if (ranks < 4 || ranks > 4096) {
      std::fprintf(stderr, "%d ranks; accepted: 4 to 4096\n", ranks);
      return 2;
    }
    for (const Left left : {Left::kNothing, Left::kPartsOfIt}) measure(ranks, left);
  }
  return 0;
}

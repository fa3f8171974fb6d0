// The matcher against plain lists: the reference walks two lists, as the MPI standard says it.
#include "comm/message/matcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "plain_matcher.h"

namespace holdfast::comm {
namespace {

using testing::PlainMatcher;

struct NumberedArrival : MailArrival {
  int id = -1;
};

// Both matchers side by side; nodes live as long as the test.
struct Pair {
  Matcher matcher;
  PlainMatcher plain;
  std::vector<std::unique_ptr<MailRequest>> requests;
  std::vector<std::unique_ptr<NumberedArrival>> arrivals;

  int id_of(const MailArrival* arrival) const {
    return arrival == nullptr ? -1 : static_cast<const NumberedArrival*>(arrival)->id;
  }
  int id_of(const MailRequest* request) const {
    return request == nullptr ? -1 : static_cast<int>(request->id);
  }
  void post(const MailPattern& pattern) {
    auto& request = *requests.emplace_back(std::make_unique<MailRequest>());
    const int id = static_cast<int>(requests.size()) - 1;
    request.id = static_cast<std::uint64_t>(id);
    request.pattern = pattern;
    REQUIRE(id_of(matcher.post(request)) == plain.post({id, pattern}));
  }
  void arrive(ContextId context, Rank source, std::int32_t tag) {
    const int id = static_cast<int>(arrivals.size());
    MailRequest* receive = matcher.match(context, source, tag);
    if (receive == nullptr) {
      auto& arrival = *arrivals.emplace_back(std::make_unique<NumberedArrival>());
      arrival.id = id;
      arrival.context = context;
      arrival.envelope = {source, tag, 0};
      matcher.keep(arrival);
    } else {
      arrivals.push_back(nullptr);
    }
    REQUIRE(id_of(receive) == plain.arrive({id, context, source, tag}));
  }
  void probe(const MailPattern& pattern, bool take) {
    MailArrival* found = matcher.find(pattern);
    REQUIRE(id_of(found) == plain.probe(pattern, take));
    if (found != nullptr && take) matcher.remove(*found);
  }
  void cancel(MailRequest& request) {
    matcher.cancel(request);
    plain.cancel(static_cast<int>(request.id));
  }
  void compare() const {
    REQUIRE(matcher.posted_count() == plain.receives.size());
    REQUIRE(matcher.kept_count() == plain.messages.size());
    const MailRequest* posted = matcher.first_posted();
    for (const auto& receive : plain.receives) {
      REQUIRE(id_of(posted) == receive.id);
      posted = posted->lists[Matcher::kAllPosted].next;
    }
    const MailArrival* kept = matcher.first_kept();
    for (const auto& message : plain.messages) {
      REQUIRE(id_of(kept) == message.id);
      kept = kept->lists[Matcher::kAllKept].next;
    }
  }
};

void run_random(unsigned seed, int steps, bool wildcards) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Pair pair;
  const auto pattern = [&] {
    MailPattern p;
    p.context = {static_cast<std::uint32_t>(below(2))};
    p.source = wildcards && below(3) == 0 ? kAnyMailSource : Rank{below(3)};
    p.tag = wildcards && below(3) == 0 ? kAnyTag : below(4);
    return p;
  };
  for (int i = 0; i < steps; ++i) {
    switch (below(8)) {
      case 0:
      case 1:
      case 2: pair.post(pattern()); break;
      case 3:
      case 4:
      case 5: pair.arrive({static_cast<std::uint32_t>(below(2))}, {below(3)}, below(4)); break;
      case 6: pair.probe(pattern(), below(2) == 0); break;
      default: {
        MailRequest* posted = pair.matcher.first_posted();
        for (int skip = below(5); skip > 0 && posted != nullptr; --skip) {
          posted = posted->lists[Matcher::kAllPosted].next;
        }
        if (posted != nullptr) pair.cancel(*posted);
      }
    }
    if (i % 64 == 0) pair.compare();
  }
  pair.compare();
}

}  // namespace

TEST_CASE("the matcher does what plain lists do, with wildcards, cancels and matched probes") {
  for (unsigned seed = 0; seed < 200; ++seed) run_random(seed, 600, seed % 4 != 0);
}

TEST_CASE("messages that came before the first wildcard are found by it in their order") {
  Pair pair;
  for (int i = 0; i < 20; ++i) pair.arrive({7}, {i % 3}, i % 5);
  pair.probe({{7}, kAnyMailSource, kAnyTag}, true);
  pair.probe({{7}, kAnyMailSource, 4}, true);
  pair.probe({{7}, {2}, kAnyTag}, true);
  pair.probe({{8}, kAnyMailSource, kAnyTag}, false);
  pair.compare();
}

// A walk through lists takes 5 billion steps here, which no limit of the tests allows.
TEST_CASE("a hundred thousand receives and messages are matched in any order of tags") {
  constexpr int kCount = 100'000;
  for (const bool wildcard : {false, true}) {
    Matcher matcher;
    if (wildcard) CHECK(matcher.find({{0}, kAnyMailSource, kAnyTag}) == nullptr);
    std::vector<MailRequest> receives(kCount);
    for (int i = 0; i < kCount; ++i) {
      auto& receive = receives[static_cast<std::size_t>(i)];
      receive.pattern = {{0}, wildcard && i % 2 == 0 ? kAnyMailSource : Rank{1}, i};
      CHECK(matcher.post(receive) == nullptr);
    }
    for (int i = kCount - 1; i >= 0; --i) {
      CHECK(matcher.match({0}, {1}, i) == &receives[static_cast<std::size_t>(i)]);
    }
    std::vector<MailArrival> arrivals(kCount);
    for (int i = 0; i < kCount; ++i) {
      auto& arrival = arrivals[static_cast<std::size_t>(i)];
      arrival.envelope = {{1}, i, 0};
      matcher.keep(arrival);
    }
    for (int i = kCount - 1; i >= 0; --i) {
      auto& receive = receives[static_cast<std::size_t>(i)];
      CHECK(matcher.post(receive) == &arrivals[static_cast<std::size_t>(i)]);
    }
    CHECK(matcher.kept_count() == 0);
    CHECK(matcher.posted_count() == 0);
  }
}

}  // namespace holdfast::comm

// Early notices: kept by sender, in order, within a bound.
#include <doctest/doctest.h>

#include "group/parts/early_notices.h"

using namespace holdfast;

TEST_CASE("what a process said early is taken once, in order, and others' words stay") {
  group::EarlyNotices notices;
  const std::vector<std::byte> first{std::byte{1}};
  const std::vector<std::byte> second{std::byte{2}, std::byte{3}};
  notices.keep(MemberId{7}, first);
  notices.keep(MemberId{8}, second);
  notices.keep(MemberId{7}, second);
  CHECK(notices.take(MemberId{7}) == std::vector<std::vector<std::byte>>{first, second});
  CHECK(notices.take(MemberId{7}).empty());
  CHECK(notices.take(MemberId{8}) == std::vector<std::vector<std::byte>>{second});
}

TEST_CASE("early notices keep a MiB, the newest") {
  group::EarlyNotices notices;
  const std::vector<std::byte> large(200'000);
  for (std::uint64_t from = 1; from <= 20; ++from) notices.keep(MemberId{from}, large);
  std::size_t kept = 0;
  for (std::uint64_t from = 1; from <= 20; ++from) {
    const auto taken = notices.take(MemberId{from});
    kept += taken.size();
    CHECK(taken.empty() == (from <= 15));
  }
  CHECK(kept == 5);
}

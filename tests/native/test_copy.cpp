// Copies at every distance of addresses that has a way of its own, and around it.
#include <doctest/doctest.h>

#include <vector>

#include "base/copy.h"
#include "sanitized.h"

namespace holdfast {
namespace {

constexpr std::size_t kPage = 4096;

TEST_CASE("what was asked for is copied, and nothing beside it, wherever both lie") {
  const std::size_t step = testing::kSanitized ? 5 : 1;
  std::vector<std::byte> source(5 * kPage);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = std::byte(1 + i % 251);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kShortCopy, kShortCopy + 1,
                                  std::size_t{3000}, kPage, 3 * kPage + 77}) {
    for (const std::size_t begin : {0U, 1U, 16U, 63U}) {
      for (std::size_t ahead = 0; ahead < 70; ahead += step) {
        CAPTURE(bytes);
        CAPTURE(begin);
        CAPTURE(ahead);
        std::vector<std::byte> to(6 * kPage);
        // Of the page that `source` lies in the same place, and so far ahead of it.
        const auto place = reinterpret_cast<std::uintptr_t>(source.data()) + begin + ahead;
        const std::size_t at = (place - reinterpret_cast<std::uintptr_t>(to.data())) % kPage;
        copy_bytes(to.data() + at, source.data() + begin, bytes);
        std::vector<std::byte> expected(to.size());
        for (std::size_t i = 0; i < bytes; ++i) expected[at + i] = source[begin + i];
        CHECK(to == expected);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast

// Rings of mail frames: everything comes through in order, and damaged memory is refused.
#include "comm/message/mail_ring.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "mail_desks.h"

namespace holdfast::testing {
namespace {

using namespace comm;

struct Ring {
  explicit Ring(std::size_t ring_bytes)
      : bytes(ring_bytes), lines(mail_ring_memory(ring_bytes) / kMailLine + 1) {}
  std::byte* memory() { return lines.front().bytes.data(); }

  std::size_t bytes;
  std::vector<MailHostMemory::Line> lines;  // the last one is nobody's
  MailRingWriter writer{memory(), bytes};
  MailRingReader reader{memory(), bytes};
};

bool write(MailRingWriter& writer, int tag, const std::vector<std::byte>& payload) {
  std::byte* to =
      writer.begin({MailKind::kEager, {3}, tag, static_cast<std::uint32_t>(payload.size())});
  if (to == nullptr) return false;
  std::copy(payload.begin(), payload.end(), to);
  writer.commit();
  return true;
}

}  // namespace

TEST_CASE("frames of all lengths go through a ring in order, many times around it") {
  for (const std::size_t bytes : {kLeastMailRing, 4 * kLeastMailRing}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      Ring ring(bytes);
      std::deque<std::vector<std::byte>> under_way;
      int written = 0;
      int read = 0;
      bool waits = false;
      for (int step = 0; step < 5000; ++step) {
        if (random() % 2 == 0) {
          const std::uint32_t most = random() % 8 == 0 ? ring.writer.most_payload() : 200;
          auto payload = pattern_bytes(static_cast<std::uint64_t>(written), random() % (most + 1));
          const bool fits = write(ring.writer, written, payload);
          if (fits) ++written;
          if (fits) under_way.push_back(std::move(payload));
          waits = waits || !fits;
          continue;
        }
        REQUIRE(ring.reader.has_next() == !under_way.empty());
        const auto mail = ring.reader.peek();
        REQUIRE(mail.is_ok());
        REQUIRE(mail.value().has_value() == !under_way.empty());
        if (!mail.value()) continue;
        REQUIRE(mail.value()->header.tag == read++);
        REQUIRE(mail.value()->header.context == ContextId{3});
        REQUIRE(std::ranges::equal(mail.value()->payload, under_way.front()));
        under_way.pop_front();
        // Whoever waits for room hears of it at the first frame that goes.
        REQUIRE(ring.reader.consume() == waits);
        waits = false;
      }
      CHECK(written > 500);
    }
  }
}

TEST_CASE("a ring that is full takes no frame, and takes one when the reader went on") {
  Ring ring(kLeastMailRing);
  const auto payload = pattern_bytes(1, ring.writer.most_payload());
  int count = 0;
  while (write(ring.writer, count, payload)) ++count;
  CHECK(count == 3);  // of a quarter each; one line stays free
  REQUIRE(ring.reader.peek().is_ok());
  CHECK(ring.reader.consume());
  CHECK(write(ring.writer, count, payload));
}

TEST_CASE("a ring whose memory was damaged is refused") {
  constexpr std::size_t kHeaderAt = sizeof(MailRingCursors) + 8;
  struct Damage {
    std::size_t at;
    std::byte value;
    std::string verdict;
  };
  const std::vector<Damage> all{
      {sizeof(MailRingCursors), std::byte{5}, "no mail frame where one should be"},
      {kHeaderAt, std::byte{77}, "a mail frame of kind 77"},
      {kHeaderAt + 11, std::byte{0x80}, "with tag -"},
      {kHeaderAt + 15, std::byte{1}, "16777224 bytes"},
      {kHeaderAt + 13, std::byte{0x80}, "32776 bytes beyond its ring"},
  };
  for (const Damage& damage : all) {
    Ring ring(kLeastMailRing);
    REQUIRE(write(ring.writer, 1, pattern_bytes(1, 8)));
    ring.memory()[damage.at] = damage.value;
    const auto mail = ring.reader.peek();
    REQUIRE(!mail.is_ok());
    CHECK(mail.status().code() == Code::kProtocolError);
    CHECK(mail.status().message().find(damage.verdict) != std::string::npos);
  }
}

TEST_CASE("a writer believes no reader that is ahead of it, or goes back") {
  Ring ring(kLeastMailRing);
  auto* cursors = reinterpret_cast<MailRingCursors*>(ring.memory());
  const auto payload = pattern_bytes(1, 1000);
  int written = 0;
  for (const std::uint64_t lie : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1} << 40}) {
    cursors->read = lie;
    for (int i = 0; i < 100; ++i) written += write(ring.writer, i, payload) ? 1 : 0;
  }
  CHECK(written > 100);
  for (const std::byte beyond : ring.lines.back().bytes) REQUIRE(beyond == std::byte{});
}

}  // namespace holdfast::testing

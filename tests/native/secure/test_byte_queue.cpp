// Bytes come out of a queue as they went in, whatever the pieces.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "secure/byte_queue.h"

namespace holdfast::secure {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("an empty queue has nothing, and forgets no more than it has") {
  ByteQueue queue;
  CHECK(queue.empty());
  queue.drop(10);
  queue.add({});
  CHECK(queue.front().empty());
}

TEST_CASE("bytes come out as they went in, whatever the pieces") {
  ByteQueue queue;
  std::string all;
  std::string out;
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>((state >> 33) % below);
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string piece(random(i % 100 == 0 ? 3'000'000 : 5000), static_cast<char>(i));
    queue.add(std::as_bytes(std::span(piece)));
    all += piece;
    const std::size_t size = std::min(random(12000), queue.front().size());
    out += text_of(queue.front().first(size));
    queue.drop(size);
  }
  out += text_of(queue.front());
  CHECK(out == all);
  queue.drop(all.size());
  CHECK(queue.empty());
}

TEST_CASE("room is behind what is there, and counts once it is added") {
  ByteQueue queue;
  queue.add(std::as_bytes(std::span("ab", 2)));
  const auto room = queue.room(100);
  CHECK(room.size() >= 100);
  room[0] = std::byte{'c'};
  CHECK(text_of(queue.front()) == "ab");
  queue.added(1);
  CHECK(text_of(queue.front()) == "abc");
}

}  // namespace
}  // namespace holdfast::secure

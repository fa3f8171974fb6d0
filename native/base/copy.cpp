#include "base/copy.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace holdfast {
#ifdef __x86_64__
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::size_t kVector = sizeof(__m128i);

// Whether `to` lies up to 32 bytes behind `from`, taken within a page. For such copies `rep movsb`,
// which C libraries use for long ones, runs at a twentieth of its speed on AMD's Zen 3 and 4 (glibc
// bug 30995): each load looks like one from what was just stored. malloc returns long blocks 16
// bytes behind the begin of a page, so copies from shared memory to such arrays are all of this
// kind.
bool follows_closely(const std::byte* to, const std::byte* from) {
  const std::uintptr_t ahead =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  return ahead > 0 && ahead < 2 * kVector;
}

__m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

void store(std::byte* to, __m128i value) { _mm_store_si128(reinterpret_cast<__m128i*>(to), value); }

// Copies from the end, so that no load is from a place within a page that was just stored to; by
// cache lines of `to`.
void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t tail = (reinterpret_cast<std::uintptr_t>(to) + bytes) % kLine;
  bytes -= tail;
  std::memcpy(to + bytes, from + bytes, tail);
  for (; bytes >= kLine; bytes -= kLine) {
    std::byte* const line = to + bytes - kLine;
    const std::byte* const source = from + bytes - kLine;
    const __m128i a = load(source + 3 * kVector);
    const __m128i b = load(source + 2 * kVector);
    const __m128i c = load(source + kVector);
    const __m128i d = load(source);
    store(line + 3 * kVector, a);
    store(line + 2 * kVector, b);
    store(line + kVector, c);
    store(line, d);
  }
  std::memcpy(to, from, bytes);
}

}  // namespace

void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (follows_closely(to, from)) return copy_backwards(to, from, bytes);
  std::memcpy(to, from, bytes);
}

#else

void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif
}  // namespace holdfast

// Records of an open TLS session from somebody who knows the key and keeps to no rule: whatever
// kinds, paddings, messages and lengths it seals, and wherever the bytes are cut or changed, a
// reader gives what was sealed or a fault. Input: a byte for the suite and one for the cut, then
// records of a byte each for how they are made, how many bytes of the input follow, and how many
// more there are.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "secure/records/tls_records.h"

namespace {

using namespace holdfast;
using namespace holdfast::secure;
using Bytes = std::vector<std::byte>;

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

TrafficKey key(std::uint8_t which, TrafficKey::KeyUse use) {
  const TrafficSuite& suite = *traffic_suite(static_cast<std::uint16_t>(0x1301 + which % 3));
  TrafficSecret secret;
  std::ranges::fill(secret.resized(suite.hash_bytes), std::byte{7});
  return std::move(TrafficKey::make(suite, std::move(secret), use)).value();
}

struct Input {
  std::span<const std::uint8_t> rest;
  std::uint8_t next() { return rest.empty() ? std::uint8_t{0} : take(1)[0]; }
  std::span<const std::uint8_t> take(std::size_t size) {
    const auto part = rest.first(std::min(size, rest.size()));
    rest = rest.subspan(part.size());
    return part;
  }
};

// What one record protects, with its kind and padding.
Bytes inner_of(Input& input, std::uint8_t how) {
  const auto said = std::as_bytes(input.take(input.next()));
  Bytes inner(said.begin(), said.end());
  const std::size_t more = input.next();
  if ((how & 1) != 0) inner.resize(inner.size() + more * 70, std::byte{'x'});
  inner.push_back(static_cast<std::byte>((how & 2) != 0 ? 20 + (how >> 4) % 5 : 22));
  if ((how & 4) != 0) inner.resize(inner.size() + more);
  return inner;
}

void append_sealed(Bytes& wire, TrafficKey& key, const Bytes& inner) {
  const std::size_t sealed = inner.size() + kRecordTagBytes;
  const std::array header{std::byte{23}, std::byte{3}, std::byte{3},
                          static_cast<std::byte>(sealed >> 8), static_cast<std::byte>(sealed)};
  wire.insert(wire.end(), header.begin(), header.end());
  wire.resize(wire.size() + sealed);
  expect(key.seal(header, std::span(inner).first(inner.size() - 1), inner.back(),
                  std::span(wire).last(sealed)));
}

// Whether the reader goes on. `inner`: what was sealed, if it was left as it was.
bool hear(RecordReader& reader, LateHandshake& late, const Bytes* inner) {
  Bytes place(reader.most());
  auto kind = RecordKind::kData;
  std::size_t size = 0;
  if (reader.open(place, kind, size) != RecordReader::RecordFound::kRecord) return false;
  expect(inner != nullptr && size < inner->size());
  expect(std::equal(place.begin(), place.begin() + static_cast<long>(size), inner->begin()));
  expect((*inner)[size] == static_cast<std::byte>(kind));
  if (kind != RecordKind::kHandshake) return true;
  // The sender keeps its key, so this reader does.
  return late.hear(std::span(place).first(size)) != LateHandshake::LateWord::kFault;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!available()) return 0;
  Input input{std::span(data, size)};
  const std::uint8_t suite = input.next();
  const std::size_t cut = 1 + std::size_t{input.next()} * 64;
  TrafficKey sealing = key(suite, TrafficKey::KeyUse::kSeal);
  RecordReader reader(key(suite, TrafficKey::KeyUse::kOpen));
  LateHandshake late((suite & 64) != 0);
  while (!input.rest.empty()) {
    const std::uint8_t how = input.next();
    const Bytes inner = inner_of(input, how);
    Bytes wire;
    append_sealed(wire, sealing, inner);
    const bool is_changed = (how & 8) != 0;
    if (is_changed) wire[input.next() % wire.size()] ^= std::byte{1};
    std::span<const std::byte> all = wire;
    while (!all.empty()) {
      auto piece = all.first(std::min(cut, all.size()));
      all = all.subspan(piece.size());
      while (!piece.empty()) {
        const auto found = reader.find(piece);
        if (found == RecordReader::RecordFound::kFault) return 0;
        if (found == RecordReader::RecordFound::kNothing) break;
        if (!hear(reader, late, is_changed ? nullptr : &inner)) return 0;
      }
    }
  }
  return 0;
}

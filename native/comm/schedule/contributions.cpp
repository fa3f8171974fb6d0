#include "comm/schedule/contributions.h"

#include <algorithm>
#include <bit>

namespace holdfast::comm {
namespace {

constexpr std::size_t kBitsPerWord = 64;

}  // namespace

Contributions::Contributions(std::size_t ranks)
    : words_((ranks + kBitsPerWord - 1) / kBitsPerWord), values_{{0, 0}} {}

void Contributions::add_part(std::uint32_t chunk) {
  chunk_of_.push_back(chunk);
  bits_.resize(bits_.size() + words_);
}

Contributions::Id Contributions::add_value(std::uint32_t parts) {
  values_.push_back({static_cast<std::uint32_t>(chunk_of_.size() - parts), parts});
  return static_cast<Id>(values_.size() - 1);
}

Contributions::Id Contributions::one(Atom atom) {
  add_part(atom.chunk);
  bits(chunk_of_.size() - 1)[atom.rank / kBitsPerWord] |= 1ULL << (atom.rank % kBitsPerWord);
  return add_value(1);
}

Contributions::Id Contributions::first_ranks(std::uint32_t count, std::uint32_t chunk) {
  if (count == 0) return kNothing;
  add_part(chunk);
  std::uint64_t* all = bits(chunk_of_.size() - 1);
  for (std::uint32_t r = 0; r < count; ++r) {
    all[r / kBitsPerWord] |= 1ULL << (r % kBitsPerWord);
  }
  return add_value(1);
}

Contributions::Id Contributions::together(Id a, Id b) {
  const Value left = values_[a];
  const Value right = values_[b];
  std::uint32_t made = 0;
  for (std::uint32_t i = 0, j = 0; i < left.parts || j < right.parts; ++made) {
    const std::size_t l = left.first + i;
    const std::size_t r = right.first + j;
    const bool takes_left = i < left.parts && (j == right.parts || chunk_of_[l] <= chunk_of_[r]);
    const bool takes_right = j < right.parts && (i == left.parts || chunk_of_[r] <= chunk_of_[l]);
    add_part(chunk_of_[takes_left ? l : r]);
    std::uint64_t* sum = bits(chunk_of_.size() - 1);
    for (std::size_t w = 0; w < words_; ++w) {
      sum[w] = (takes_left ? bits(l)[w] : 0) | (takes_right ? bits(r)[w] : 0);
    }
    i += takes_left ? 1 : 0;
    j += takes_right ? 1 : 0;
  }
  return add_value(made);
}

bool Contributions::equal(Id a, Id b) const {
  if (a == b) return true;
  const Value& left = values_[a];
  const Value& right = values_[b];
  if (left.parts != right.parts) return false;
  for (std::uint32_t i = 0; i < left.parts; ++i) {
    const std::size_t l = left.first + i;
    const std::size_t r = right.first + i;
    if (chunk_of_[l] != chunk_of_[r]) return false;
    if (!std::equal(bits(l), bits(l) + words_, bits(r))) return false;
  }
  return true;
}

std::optional<Atom> Contributions::common(Id a, Id b) const {
  std::optional<Atom> least;
  const Value& left = values_[a];
  const Value& right = values_[b];
  for (std::uint32_t i = 0, j = 0; i < left.parts && j < right.parts;) {
    const std::size_t l = left.first + i;
    const std::size_t r = right.first + j;
    const std::uint32_t chunk = chunk_of_[l];
    for (std::size_t w = 0; w < words_ && chunk == chunk_of_[r]; ++w) {
      const std::uint64_t both = bits(l)[w] & bits(r)[w];
      if (both == 0) continue;
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(both));
      const Atom found{static_cast<std::uint32_t>(w * kBitsPerWord) + bit, chunk};
      if (!least || found < *least) least = found;
      break;
    }
    const bool equal_chunks = chunk == chunk_of_[r];
    i += equal_chunks || chunk < chunk_of_[r] ? 1 : 0;
    j += equal_chunks || chunk > chunk_of_[r] ? 1 : 0;
  }
  return least;
}

}  // namespace holdfast::comm

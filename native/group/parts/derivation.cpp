#include "group/parts/derivation.h"

#include <string>

namespace holdfast::group {
namespace {

// The kinds of names, which must never meet.
constexpr std::uint64_t kOfCall = 1;
constexpr std::uint64_t kOfMembers = 2;

// Every bit of the result depends on every bit before. Source: Steele, Lea, Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014, mix64variant13.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = (hash ^ value) + 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

std::uint64_t mix(std::uint64_t hash, const std::vector<Rank>& ranks) {
  hash = mix(hash, ranks.size());
  for (const Rank rank : ranks) hash = mix(hash, static_cast<std::uint64_t>(rank.value));
  return hash;
}

// 0 is no group, and 1 marks a free place in tables of names.
CommId name(std::uint64_t hash) { return {hash < 2 ? hash + 2 : hash}; }

}  // namespace

void Derivation::begin(Epoch boundary) {
  if (boundary == boundary_) return;
  boundary_ = boundary;
  calls_ = 0;
  member_calls_.clear();
}

std::uint64_t Derivation::count_call(Epoch boundary) {
  const std::lock_guard lock(mutex_);
  begin(boundary);
  return calls_++;
}

CommId Derivation::of_call(Epoch boundary, std::uint64_t call,
                           const std::vector<Rank>& ranks) const {
  return name(mix(mix(mix(mix(parent_.value, kOfCall), boundary.value), call), ranks));
}

Result<CommId> Derivation::of_members(Epoch boundary, std::uint64_t tag,
                                      const std::vector<Rank>& ranks) {
  const std::uint64_t key =
      mix(mix(mix(mix(parent_.value, kOfMembers), boundary.value), tag), ranks);
  const std::lock_guard lock(mutex_);
  begin(boundary);
  if (member_calls_.size() >= kMostMemberKeys && !member_calls_.contains(key)) {
    return Status{Code::kConfigError,
                  "groups were made by their members alone with " +
                      std::to_string(kMostMemberKeys) +
                      " different tags or members; use tags again, or let all members of the "
                      "parent make the group"};
  }
  return name(mix(key, member_calls_[key]++));
}

}  // namespace holdfast::group

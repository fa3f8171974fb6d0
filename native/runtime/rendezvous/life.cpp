#include "runtime/rendezvous/life.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/fnv.h"

namespace holdfast::runtime {
namespace {

// Limit of the lives of one group in one store.
constexpr std::uint64_t kMaxLives = std::uint64_t{1} << 32;
// Rest between two looks; a wait that is long already may take a twentieth longer.
constexpr Duration kFirstRest = std::chrono::microseconds(200);
constexpr Duration kLongestRest = std::chrono::milliseconds(100);
constexpr int kShareOfWait = 20;
// Time of a look in a store that cannot tell at once which keys it has.
constexpr Duration kShortestWait = std::chrono::milliseconds(20);
constexpr Duration kLongestWait = std::chrono::milliseconds(250);

std::string hex(std::uint64_t value) {
  std::array<char, 16> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, 16);
  return {text.data(), end};
}

}  // namespace

std::string place_of(const JoinRequest& request) {
  std::string place = "holdfast/" + request.group;
  if (request.ranks.empty()) return place;
  Fnv1a members;
  for (const Rank rank : request.ranks) members.mix(static_cast<std::uint64_t>(rank.value));
  return place + "/" + std::to_string(request.ranks.size()) + "." + hex(members.value());
}

std::string Life::prefix() const { return place_ + "/" + std::to_string(number_) + "/"; }

std::string Life::key(const std::string& round, Rank rank) const {
  return prefix() + round + "/" + std::to_string(rank.value);
}

Result<bool> Life::decide(Store& store, bool begins) const {
  auto said = store.set_once(prefix() + "begins", begins ? "yes" : "no");
  if (!said.is_ok()) return said.status();
  return said.value() == "yes";
}

Result<bool> Life::is_over(Store& store) const { return store.has(prefix() + "over"); }

Status Life::end(Store& store) const { return store.set(prefix() + "over", "1"); }

// All lives before one that is over are over, too, so the search doubles its step, then halves it.
Result<Life> Life::find(Store& store, const JoinRequest& request) {
  const std::string place = place_of(request);
  std::uint64_t over = 0;
  std::uint64_t step = 1;
  bool doubling = true;
  while (step > 0) {
    auto next = Life(place, over + step).is_over(store);
    if (!next.is_ok()) return next.status();
    if (next.value()) over += step;
    doubling = doubling && next.value();
    step = doubling ? step * 2 : step / 2;
    if (over > kMaxLives) {
      return Status{Code::kSystem, "group " + request.group + ": more than " +
                                       std::to_string(kMaxLives) +
                                       " lives are marked in the store; use a fresh one"};
    }
  }
  return Life(place, over + 1);
}

Result<bool> Lookout::sees(Store& store, const std::string& key) const {
  if (store.tells_at_once()) return store.has(key);
  const Duration left = deadline_ - runtime_.clock()->now();
  const auto got = store.get(key, std::clamp(left, kShortestWait, kLongestWait));
  if (got.status().code() == Code::kTimeout) return false;
  if (!got.is_ok()) return got.status();
  return true;
}

bool Lookout::rest() {
  const Instant now = runtime_.clock()->now();
  if (now >= deadline_) return false;
  const Duration wanted =
      std::clamp<Duration>((now - began_) / kShareOfWait, kFirstRest, kLongestRest);
  runtime_.drive_until([] { return false; }, std::min(now + wanted, deadline_));
  return true;
}

}  // namespace holdfast::runtime

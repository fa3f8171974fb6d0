#include "health/far/relay_numbers.h"

#include "health/families.h"

namespace holdfast::health {

std::string_view relay_refusal_name(RelayRefusal why) {
  constexpr std::array<std::string_view, kRelayRefusals> kNames = {
      "malformed", "token", "taken", "full", "absent", "revoked"};
  return kNames.at(static_cast<std::size_t>(why));
}

void write_relay(metrics::TextEncoder& out, const RelayNumbers* numbers) {
  const auto one = [&](const metrics::Family& family, std::uint64_t RelayNumbers::*of) {
    out.family(family);
    if (numbers != nullptr) out.sample({}, numbers->*of);
  };
  one(family::kRelayMembers, &RelayNumbers::members);
  one(family::kRelayWaiting, &RelayNumbers::waiting);
  one(family::kRelayPairs, &RelayNumbers::pairs);
  one(family::kRelayJoined, &RelayNumbers::joined);
  one(family::kRelayPassed, &RelayNumbers::passed);
  out.family(family::kRelayRefused);
  if (numbers == nullptr) return;
  for (std::size_t i = 0; i < kRelayRefusals; ++i) {
    out.sample({{"why", relay_refusal_name(static_cast<RelayRefusal>(i))}}, numbers->refused[i]);
  }
}

}  // namespace holdfast::health

// Relay numbers: what a relay counts, and how a scraper reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/metrics/text.h"

namespace holdfast::health {

// Why a relay has refused a caller, or shown one out.
enum class RelayRefusal : std::uint8_t {
  kMalformed,  // it does not speak the relay's protocol
  kToken,      // none that counts
  kTaken,      // the member is registered by another token
  kFull,
  kAbsent,  // whom it wants is not registered, or did not pick up
  kRevoked  // its token stopped counting
};
inline constexpr std::size_t kRelayRefusals = 6;
std::string_view relay_refusal_name(RelayRefusal why);  // "malformed", ...

struct RelayNumbers {
  std::uint64_t members = 0;  // registered
  std::uint64_t waiting = 0;  // calls
  std::uint64_t pairs = 0;
  std::uint64_t joined = 0;  // pairs, in all
  std::uint64_t passed = 0;  // bytes, of all pairs
  std::array<std::uint64_t, kRelayRefusals> refused{};
};

// The six families of a relay; null: without samples, for there is no relay.
void write_relay(metrics::TextEncoder& out, const RelayNumbers* numbers);

}  // namespace holdfast::health

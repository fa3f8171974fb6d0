// What strangers, and members that mean harm, say to a relay, and what answers in place of one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/relay/relay_call.h"
#include "runtime/relay/relay_core.h"

namespace {

using namespace holdfast;
using namespace holdfast::runtime;

void hear_as_caller(std::span<const std::byte> said) {
  std::array<std::byte, secure::kSecretBytes> bytes{};
  secure::TokenClaims claims;
  claims.run = "run7";
  RelayCall call({}, secure::Token{claims, secure::Secret(bytes)});
  while (!said.empty() && call.wants() > 0) {
    const auto part = said.first(std::min(call.wants(), said.size()));
    if (!call.hear(part).is_ok()) return;
    said = said.subspan(part.size());
  }
  if (call.reason().size() > kMaxVerdictText) __builtin_trap();
}

// The wish, who asks, who is wanted or which ticket, and the token, of two.
void ask(RelayCore& core, RelayCore::Line line, std::span<const std::byte> said,
         std::uint8_t last_chance, Instant now) {
  if (said.size() < 4) return;
  Preface preface;
  preface.wish = static_cast<RelayWish>(std::to_integer<int>(said[0]) % kRelayWishes + 1);
  preface.self = {std::to_integer<std::uint64_t>(said[1]) % 4};
  preface.wanted = {std::to_integer<std::uint64_t>(said[2]) % 4};
  const auto back = std::to_integer<std::uint8_t>(said[2]) % 8;
  preface.ticket.fill(std::byte{static_cast<std::uint8_t>(last_chance - back)});
  preface.port = 2000;
  preface.addresses = {"192.0.2.1"};
  std::array<std::byte, secure::kSecretBytes> bytes{};
  secure::TokenClaims claims;
  claims.run = "run7";
  claims.serial.bytes[0] = said[3] & std::byte{1};
  RelayCall call(std::move(preface), secure::Token{claims, secure::Secret(bytes)});
  core.hear(line, call.take_out(), now);
  RelayChallenge challenge;
  challenge.fill(std::byte{static_cast<std::uint8_t>(last_chance + 1)});
  std::vector<std::byte> greeting(kRelayMagic.begin(), kRelayMagic.end());
  greeting.insert(greeting.end(), challenge.begin(), challenge.end());
  if (call.hear(greeting).is_ok()) core.hear(line, call.take_out(), now);
}

}  // namespace

// Each step is a byte of whom it is about, one of how many bytes are said, and these. With the
// first byte's highest bit set, they are what a member asks for by a good proof.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto all = std::as_bytes(std::span(data, size));
  hear_as_caller(all);
  const auto parsed = parse_preface(all);
  if (parsed.is_ok() && parsed.value().preface.addresses.size() > kMaxKnockAddresses) {
    __builtin_trap();
  }
  RelayLimits limits;
  limits.unheard = {6, 3};
  limits.registered = {3, 3, 2};
  limits.waiting = {2, 2, 2};
  limits.joined = {4, 4, 4};
  std::array<std::byte, secure::kSecretBytes> key{};
  std::uint8_t chance = 0;
  RelayCore core({[&](std::span<const std::byte>) { return Result(secure::Secret(key)); },
                  [](const secure::TokenClaims&) { return Status::ok(); }},
                 limits, [&](std::span<std::byte> bytes) {
                   ++chance;
                   for (std::byte& b : bytes) b = std::byte{chance};
                 });
  Instant now{};
  for (std::size_t i = 0; i + 2 <= all.size();) {
    const auto line = std::to_integer<RelayCore::Line>(all[i]) % 8 + 1;
    const std::size_t count =
        std::min(std::to_integer<std::size_t>(all[i + 1]), all.size() - i - 2);
    const auto said = all.subspan(i + 2, count);
    i += 2 + count;
    if (!core.knows(line)) core.enter(line, line % 2 == 0 ? "a" : "b", now);
    if ((all[i - 2 - count] & std::byte{0x80}) != std::byte{}) {
      ask(core, line, said, chance, now);
    } else {
      core.hear(line, said, now);
    }
    if (count == 0) core.leave(line);
    now = now + std::chrono::milliseconds(300);
    core.tick(now);
    for (const auto& act : core.take()) {
      const auto* to = std::get_if<RelayCore::SayTo>(&act);
      if (to != nullptr && to->bytes.size() > 2 + kMaxVerdictText) __builtin_trap();
    }
    const auto counts = core.counts();
    if (counts.registered > 3 || counts.waiting > 2 || counts.pairs > 2) __builtin_trap();
  }
  for (RelayCore::Line line = 1; line <= 8; ++line) core.leave(line);
  const auto none = core.counts();
  if (!core.is_empty() || none.registered + none.waiting + none.pairs != 0) __builtin_trap();
  return 0;
}

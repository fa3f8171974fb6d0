// Sends and receives of tests that look at single messages between mailboxes in one thread.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "mail_desks.h"

namespace holdfast::testing {

inline constexpr comm::ContextId kTalk{7};

// A message on its way; the bytes say who it is.
struct OneSend {
  std::vector<std::byte> bytes;
  comm::MailRequest request;
};
struct SendSpec {
  int from = 0;
  int to = 1;
  int tag = 0;
  std::size_t bytes = 8;
  comm::SendMode mode = comm::SendMode::kStandard;
};

inline std::shared_ptr<OneSend> send(MailDesks& desks, const SendSpec& spec) {
  auto sent = desks.make<OneSend>();
  sent->bytes = pattern_bytes(static_cast<std::uint64_t>(spec.tag), spec.bytes);
  desks.core(spec.from).send(
      sent->request,
      {kTalk, {spec.to}, spec.tag, spec.mode, {sent->bytes.data(), sent->bytes.size()}});
  desks.post(spec.from);
  return sent;
}

struct OneReceive {
  std::vector<std::byte> room;
  comm::MailRequest request;
};
struct ReceiveSpec {
  int at = 1;
  Rank source = comm::kAnyMailSource;
  int tag = comm::kAnyTag;
  std::size_t room = 1 << 20;
};

inline std::shared_ptr<OneReceive> receive(MailDesks& desks, const ReceiveSpec& spec) {
  auto taken = desks.make<OneReceive>();
  taken->room.resize(spec.room);
  desks.core(spec.at).receive(taken->request, {kTalk, spec.source, spec.tag},
                              {taken->room.data(), taken->room.size()});
  desks.post(spec.at);
  return taken;
}

// Whether the receive has so many bytes of the message, and nothing behind them.
inline bool holds(const OneReceive& taken, const OneSend& sent, std::size_t bytes) {
  if (!taken.request.is_done() || taken.request.result.bytes != bytes) return false;
  for (std::size_t i = 0; i < taken.room.size(); ++i) {
    if (taken.room[i] != (i < bytes ? sent.bytes[i] : std::byte{})) return false;
  }
  return true;
}

// Ranks that have greeted, with one context.
struct Talk {
  explicit Talk(const DeskOptions& options) : desks(options) {
    desks.open(kTalk);
    desks.greet();
    REQUIRE(desks.settle());
  }
  MailDesks desks;
};

}  // namespace holdfast::testing

// A relay's core, without sockets: whom it connects, whom it refuses, and what it keeps of
// strangers.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "relay_gates.h"
#include "runtime/relay/relay_call.h"

namespace holdfast::runtime {
namespace {

using std::chrono::seconds;
using testing::Gate;
using testing::kA;
using testing::kB;
using testing::ring_of;
using testing::token_of;

// A core and its callers, without sockets.
class CoreRig {
 public:
  explicit CoreRig(RelayLimits limits = {})
      : core_(gate_.gate(), limits, [this](std::span<std::byte> bytes) {
          for (std::byte& b : bytes) b = static_cast<std::byte>(++chance_);
        }) {}
  Gate& gate() { return gate_; }
  RelayCore& core() { return core_; }
  void pass(Duration time) {
    now_ = now_ + time;
    core_.tick(now_);
    take();
  }
  RelayCore::Line enter(const std::string& address = "192.0.2.1") {
    core_.enter(++last_, address, now_);
    take();
    return last_;
  }
  void hear(RelayCore::Line line, std::span<const std::byte> bytes) {
    core_.hear(line, bytes, now_);
    take();
  }
  // A caller that says its preface to the end; its line.
  RelayCore::Line call(Preface preface, secure::Token token,
                       const std::string& address = "192.0.2.1") {
    const RelayCore::Line line = enter(address);
    RelayCall call(std::move(preface), std::move(token));
    for (int i = 0; i < 4; ++i) {
      hear(line, call.take_out());
      auto& said = said_[line];
      const std::size_t count = std::min(call.wants(), said.size());
      REQUIRE(call.hear(std::span(said).first(count)).is_ok());
      said.erase(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(count));
    }
    verdicts_[line] = call.has_verdict() ? static_cast<int>(call.verdict()) : -1;
    reasons_[line] = call.reason();
    return line;
  }
  RelayCore::Line enrol(std::uint64_t member, std::byte serial) {
    Preface preface;
    preface.self = {member};
    return call(preface, gate_.token(serial));
  }
  RelayCore::Line dial(std::uint64_t from, std::uint64_t to, std::byte serial,
                       const std::string& run = "run7") {
    Preface preface;
    preface.wish = RelayWish::kCall;
    preface.self = {from};
    preface.wanted = {to};
    return call(preface, gate_.token(serial, run));
  }
  // The ticket that the member was told last.
  RelayTicket ticket_of(RelayCore::Line line) {
    const auto& said = said_[line];
    REQUIRE(said.size() >= kTicketNoteBytes);
    RelayTicket ticket;
    std::copy(said.end() - static_cast<std::ptrdiff_t>(ticket.size()), said.end(), ticket.begin());
    return ticket;
  }
  RelayCore::Line pick_up(std::uint64_t member, const RelayTicket& ticket, std::byte serial,
                          const std::string& run = "run7") {
    Preface preface;
    preface.wish = RelayWish::kPickUp;
    preface.self = {member};
    preface.ticket = ticket;
    return call(preface, gate_.token(serial, run));
  }
  int verdict(RelayCore::Line line) { return verdicts_.at(line); }
  std::uint64_t refused(health::RelayRefusal why) const {
    return core_.counts().refused[static_cast<std::size_t>(why)];
  }
  std::string reason(RelayCore::Line line) { return reasons_.at(line); }
  bool is_hung_up(RelayCore::Line line) const { return std::ranges::count(gone_, line) > 0; }
  std::vector<RelayCore::JoinTwo> joined() const { return joined_; }
  std::vector<std::byte>& said(RelayCore::Line line) { return said_[line]; }

 private:
  void take() {
    for (const auto& act : core_.take()) {
      if (const auto* to = std::get_if<RelayCore::SayTo>(&act)) {
        said_[to->line].insert(said_[to->line].end(), to->bytes.begin(), to->bytes.end());
      }
      if (const auto* two = std::get_if<RelayCore::JoinTwo>(&act)) joined_.push_back(*two);
      if (const auto* gone = std::get_if<RelayCore::HangUp>(&act)) gone_.push_back(gone->line);
    }
  }

  Gate gate_;
  int chance_ = 0;
  Instant now_{};
  RelayCore::Line last_ = 0;
  std::map<RelayCore::Line, std::vector<std::byte>> said_;
  std::map<RelayCore::Line, int> verdicts_;
  std::map<RelayCore::Line, std::string> reasons_;
  std::vector<RelayCore::JoinTwo> joined_;
  std::vector<RelayCore::Line> gone_;
  RelayCore core_;
};

constexpr int kDone = static_cast<int>(RelayVerdict::kDone);
constexpr int kRefused = static_cast<int>(RelayVerdict::kRefused);
constexpr int kAbsent = static_cast<int>(RelayVerdict::kAbsent);
constexpr int kFull = static_cast<int>(RelayVerdict::kFull);

TEST_CASE("a caller and a registered member that picks up are joined") {
  if (!secure::available()) return;
  CoreRig rig;
  const auto member = rig.enrol(1, kA);
  CHECK(rig.verdict(member) == kDone);
  const auto caller = rig.dial(2, 1, kB);
  CHECK(rig.verdict(caller) == -1);
  const auto picked = rig.pick_up(1, rig.ticket_of(member), kA);
  REQUIRE(rig.joined().size() == 1);
  CHECK(rig.joined()[0].caller == caller);
  CHECK(rig.joined()[0].callee == picked);
  CHECK(rig.core().counts().pairs == 1);
  CHECK(rig.core().counts().registered == 1);
  rig.core().leave(caller);
  CHECK(rig.core().counts().pairs == 0);
  CHECK(rig.core().counts().joined == 1);
  CHECK_FALSE(rig.core().knows(picked));
}

TEST_CASE("a ticket serves once, and its member alone") {
  if (!secure::available()) return;
  CoreRig rig;
  const auto member = rig.enrol(1, kA);
  rig.dial(2, 1, kB);
  const RelayTicket ticket = rig.ticket_of(member);
  CHECK(rig.verdict(rig.pick_up(3, ticket, kA)) == kAbsent);
  CHECK(rig.verdict(rig.pick_up(1, ticket, kA, "run8")) == kAbsent);
  CHECK(rig.verdict(rig.pick_up(1, ticket, kA)) == kDone);
  CHECK(rig.verdict(rig.pick_up(1, ticket, kA)) == kAbsent);
  CHECK(rig.joined().size() == 1);
}

TEST_CASE("members of other runs are not there") {
  if (!secure::available()) return;
  CoreRig rig;
  rig.enrol(1, kA);
  CHECK(rig.verdict(rig.dial(2, 1, kB, "run8")) == kAbsent);
  CHECK(rig.verdict(rig.dial(2, 9, kB)) == kAbsent);
  CHECK(rig.refused(health::RelayRefusal::kAbsent) == 2);
}

TEST_CASE("who has another secret's token is refused, and so is one that was revoked") {
  if (!secure::available()) return;
  CoreRig rig;
  const auto other = ring_of(std::byte{9});
  Preface preface;
  preface.self = {1};
  const auto wrong = rig.call(preface, token_of(other, "run7", kA));
  CHECK(rig.verdict(wrong) == kRefused);
  CHECK(rig.is_hung_up(wrong));
  auto stolen = rig.gate().token(kA);
  stolen.key = token_of(other, "run7", kA).key.copy();
  CHECK(rig.verdict(rig.call(preface, std::move(stolen))) == kRefused);
  const auto late = rig.call(preface, token_of(rig.gate().ring, "run7", kA, -5));
  CHECK(rig.verdict(late) == kRefused);
  const auto member = rig.enrol(1, kA);
  CHECK(rig.verdict(member) == kDone);
  rig.gate().revoked.insert(rig.gate().token(kA).claims.serial);
  rig.pass(seconds(1));
  CHECK(rig.is_hung_up(member));
  CHECK(rig.verdict(rig.enrol(1, kA)) == kRefused);
  CHECK(rig.refused(health::RelayRefusal::kToken) == 4);
  CHECK(rig.refused(health::RelayRefusal::kRevoked) == 1);
}

TEST_CASE("a joined pair ends when the token of one of the two is revoked") {
  if (!secure::available()) return;
  CoreRig rig;
  const auto member = rig.enrol(1, kA);
  rig.dial(2, 1, kB);
  rig.pick_up(1, rig.ticket_of(member), kA);
  rig.gate().revoked.insert(rig.gate().token(kB).claims.serial);
  rig.pass(seconds(1));
  CHECK(rig.core().counts().pairs == 0);
  CHECK(rig.core().counts().registered == 1);
}

TEST_CASE("a member's place is its token's") {
  if (!secure::available()) return;
  CoreRig rig;
  const auto first = rig.enrol(1, kA);
  CHECK(rig.verdict(rig.enrol(1, kB)) == kRefused);
  CHECK_FALSE(rig.is_hung_up(first));
  CHECK(rig.verdict(rig.enrol(1, kA)) == kDone);
  CHECK(rig.is_hung_up(first));
  CHECK(rig.core().counts().registered == 1);
}

TEST_CASE("a member that registers anew hears of the calls that its older line was told of") {
  if (!secure::available()) return;
  CoreRig rig;
  rig.enrol(1, kA);
  const auto caller = rig.dial(2, 1, kB);
  const auto again = rig.enrol(1, kA);
  rig.pick_up(1, rig.ticket_of(again), kA);
  REQUIRE(rig.joined().size() == 1);
  CHECK(rig.joined()[0].caller == caller);
}

TEST_CASE("quotas: of one address, of one token, of all") {
  if (!secure::available()) return;
  RelayLimits limits;
  limits.registered = {4, 3, 2};
  CoreRig rig(limits);
  CHECK(rig.verdict(rig.enrol(1, kA)) == kDone);
  CHECK(rig.verdict(rig.enrol(2, kA)) == kDone);
  CHECK(rig.verdict(rig.enrol(3, kA)) == kFull);
  CHECK(rig.verdict(rig.enrol(3, kB)) == kDone);
  CHECK(rig.verdict(rig.enrol(4, kB)) == kFull);
  Preface preface;
  preface.self = {4};
  CHECK(rig.verdict(rig.call(preface, rig.gate().token(kB), "192.0.2.2")) == kDone);
  preface.self = {5};
  const auto one_more = rig.call(preface, rig.gate().token(std::byte{3}), "192.0.2.3");
  CHECK(rig.verdict(one_more) == kFull);
  CHECK(rig.core().counts().registered == 4);
  CHECK(rig.refused(health::RelayRefusal::kFull) == 3);
}

TEST_CASE("who waits, says nothing, or is silent has a limited time") {
  if (!secure::available()) return;
  RelayLimits limits;
  limits.waiting = {1, 1, 1};
  CoreRig rig(limits);
  const auto member = rig.enrol(1, kA);
  const auto silent = rig.enter();
  const auto caller = rig.dial(2, 1, kB);
  CHECK(rig.verdict(rig.dial(3, 1, std::byte{3})) == kFull);
  rig.pass(seconds(6));
  CHECK(rig.is_hung_up(caller));
  CHECK(rig.core().counts().waiting == 0);
  rig.hear(member, std::vector<std::byte>{kRelayLives});
  rig.pass(seconds(5));
  CHECK(rig.is_hung_up(silent));
  CHECK_FALSE(rig.is_hung_up(member));
  rig.pass(seconds(6));
  CHECK(rig.is_hung_up(member));
  CHECK(rig.core().is_empty());
}

TEST_CASE("of callers that say nothing, the oldest of an address gives way") {
  RelayLimits limits;
  limits.unheard = {4, 2};
  CoreRig rig(limits);
  const auto first = rig.enter();
  rig.enter();
  rig.enter();
  CHECK(rig.is_hung_up(first));
  CHECK_FALSE(rig.core().knows(first));
}

TEST_CASE("what is no preface ends a line, and nothing of it is kept") {
  CoreRig rig;
  const std::string http = "GET / HTTP/1.1\r\n\r\n";
  const auto web = rig.enter();
  rig.hear(web, std::as_bytes(std::span(http)));
  CHECK(rig.is_hung_up(web));
  const auto flood = rig.enter();
  rig.hear(flood, kRelayMagic);
  rig.hear(flood, std::vector<std::byte>(4096, std::byte{0}));
  CHECK(rig.is_hung_up(flood));
  const auto large = rig.enter();
  rig.hear(large, kRelayMagic);
  rig.hear(large, std::vector<std::byte>(2, std::byte{0xff}));
  CHECK(rig.is_hung_up(large));
  CHECK(rig.core().is_empty());
}

TEST_CASE("a relay calls back at the addresses that it is given, and at no port below 1024") {
  if (!secure::available()) return;
  Gate gate;
  RelayCore core(gate.gate(), {}, [](std::span<std::byte>) {});
  const auto places = [&](std::uint16_t port) {
    Preface preface;
    preface.wish = RelayWish::kKnock;
    preface.self = {1};
    preface.port = port;
    preface.addresses = {"192.0.2.7", "127.0.0.1", "no address"};
    RelayCall call(preface, gate.token(kA));
    static RelayCore::Line line = 0;
    core.enter(++line, "192.0.2.1", {});
    std::size_t count = 0;
    for (int i = 0; i < 3; ++i) {
      core.hear(line, call.take_out(), {});
      for (const auto& act : core.take()) {
        const auto* to = std::get_if<RelayCore::SayTo>(&act);
        if (to != nullptr) REQUIRE(call.hear(to->bytes).is_ok());
        const auto* at = std::get_if<RelayCore::KnockAt>(&act);
        if (at != nullptr) count = at->places.size();
      }
    }
    return count;
  };
  CHECK(places(22) == 0);
  CHECK(places(40000) == 1);
}

TEST_CASE("who is no relay is told by what it says") {
  if (!secure::available()) return;
  const auto told = [](const std::string& said) {
    RelayCall call({}, token_of(ring_of(std::byte{7}), "run7", kA));
    const auto bytes = std::as_bytes(std::span(said));
    return call.hear(bytes.first(std::min(bytes.size(), call.wants()))).message();
  };
  CHECK(told("HTTP/1.1 400 Bad Request\r\n").find("an HTTP server") != std::string::npos);
  CHECK(told("SSH-2.0-x\r\n").find("SSH") != std::string::npos);
  CHECK(told("\x15\x03\x03").find("TLS") != std::string::npos);
  CHECK(told("hello").find("accepted: the address of `holdfast relay`") != std::string::npos);
}

}  // namespace
}  // namespace holdfast::runtime

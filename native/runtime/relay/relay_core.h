// Relay core: who may be connected to whom, and who waits. Bytes in, bytes out: no sockets, no
// clock, and of what two connected callers say to each other it hears nothing.
//
// Thread: one at a time.
// Why: docs/decisions/0169-who-cannot-be-called-calls.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "health/far/relay_numbers.h"
#include "runtime/audit_log.h"
#include "runtime/relay/preface.h"
#include "runtime/rendezvous/waiting_room.h"

namespace holdfast::runtime {

// By what a relay lets callers in.
struct RelayGate {
  // The key of a token's claims, whether or not they count now: who has the token is told why not,
  // and nobody else.
  std::function<Result<secure::Secret>(std::span<const std::byte> claims)> key_of;
  // Whether they count now.
  std::function<Status(const secure::TokenClaims&)> check;
};
// Whether the claims are a member's, and count now.
Status check_member(const secure::TokenClaims& claims, const std::set<secure::Serial>& revoked);

// How many a kind of line there may be, in all and of one address; and of one token.
struct RelayShare {
  std::size_t all;
  std::size_t per_address;  // many members may come from behind one address
  std::size_t per_token;    // those who have the secret are one party, without this limit
};

struct RelayLimits {
  WaitingRoom::Seats unheard{256, 64};  // while nothing is known of them but their address
  RelayShare registered{4096, 1024, 1024};
  RelayShare waiting{512, 128, 128};
  RelayShare joined{4096, 2048, 1024};  // two of a pair each
  // For a preface; for the member that is called to pick up; between two signs of life.
  Duration patience = std::chrono::seconds(10);
  Duration waits = std::chrono::seconds(5);
  Duration silence = std::chrono::seconds(10);
  // Of a pair, both of whose members beat at intervals: one of them is gone.
  Duration idle = std::chrono::minutes(2);
};

class RelayCore {
 public:
  // Tells connections apart; the caller's, never used twice.
  using Line = std::uint64_t;
  struct SayTo {
    Line line;
    std::vector<std::byte> bytes;
  };
  struct JoinTwo {  // after what was sent to them before: what one says goes to the other
    Line caller;
    Line callee;
  };
  struct KnockAt {
    std::vector<Endpoint> places;
    RelayTicket nonce;
  };
  struct HangUp {  // after what was sent to it before
    Line line;
  };
  struct Note {  // for an audit log
    Line line;
    std::string why;
    CallerFacts facts;
  };
  using Act = std::variant<SayTo, JoinTwo, KnockAt, HangUp, Note>;
  struct LineCounts {
    std::size_t registered = 0;
    std::size_t waiting = 0;
    std::size_t pairs = 0;
    std::uint64_t joined = 0;  // pairs, in all
    std::array<std::uint64_t, health::kRelayRefusals> refused{};
  };

  // `random`: fills bytes that nobody can guess.
  RelayCore(RelayGate gate, RelayLimits limits, std::function<void(std::span<std::byte>)> random)
      : gate_(std::move(gate)),
        limits_(limits),
        random_(std::move(random)),
        room_(limits.unheard) {}

  void enter(Line line, const std::string& address, Instant now);
  void hear(Line line, std::span<const std::byte> bytes, Instant now);
  // The connection has ended, or one of a joined pair.
  void leave(Line line);
  // What time has done; to be called a few times a second.
  void tick(Instant now);
  std::vector<Act> take() { return std::exchange(acts_, {}); }
  LineCounts counts() const;
  bool knows(Line line) const { return lines_.contains(line); }
  bool is_empty() const { return lines_.empty(); }

 private:
  enum class LineStage : std::uint8_t {
    kMagic,
    kPreface,
    kRegistered,
    kWaiting,
    kJoined,
    kLeaving
  };
  static constexpr std::size_t kStages = 6;
  static std::size_t index(LineStage stage) { return static_cast<std::size_t>(stage); }
  struct LineState {
    LineStage stage = LineStage::kMagic;
    std::string address;
    WaitingRoom::Ticket seat = 0;
    Instant deadline;
    RelayChallenge challenge{};
    std::vector<std::byte> in;
    // Of who has shown what it has.
    secure::TokenClaims claims;
    std::string party;  // the token's serial; "": who has the secret
    MemberId self;
    RelayTicket ticket{};  // of who waits
    MemberId wanted;
    Line other = 0;
  };
  using Name = std::pair<std::string, MemberId>;  // of a run's member

  void settle(Line line, LineState& state, LineStage stage);
  bool has_room(const LineState& state, LineStage stage, const RelayShare& share) const;
  void hear_preface(Line line, LineState& state, Instant now);
  void carry_out(Line line, LineState& state, const Preface& preface, Instant now);
  void register_member(Line line, LineState& state, Instant now);
  void call(Line line, LineState& state, Instant now);
  void pick_up(Line line, LineState& state);
  void knock(Line line, LineState& state, const Preface& preface);
  struct RefusalWords {
    RelayVerdict verdict;
    health::RelayRefusal kind;
    std::string why;
  };
  void refuse(Line line, LineState& state, const RefusalWords& words);
  void hang_up(Line line);
  void review(Instant now);

  const RelayGate gate_;
  const RelayLimits limits_;
  const std::function<void(std::span<std::byte>)> random_;
  WaitingRoom room_;
  std::map<WaitingRoom::Ticket, Line> seats_;
  std::map<Line, LineState> lines_;
  std::map<Name, Line> members_;
  std::map<RelayTicket, Line> calls_;
  std::map<std::string, std::array<std::size_t, kStages>> by_address_;
  std::map<std::string, std::array<std::size_t, kStages>> by_party_;
  std::array<std::size_t, kStages> all_{};
  std::uint64_t joined_ = 0;
  std::array<std::uint64_t, health::kRelayRefusals> refused_{};
  Instant next_review_{};
  std::vector<Act> acts_;
};

}  // namespace holdfast::runtime

#include "ft/standing.h"

#include <array>
#include <initializer_list>

namespace holdfast::ft {
namespace {

using enum MessageKind;

class Claims {
 public:
  constexpr Claims() = default;
  constexpr Claims(std::initializer_list<MessageKind> kinds) {
    for (const MessageKind kind : kinds) *this = with(plain(kind));
  }
  constexpr Claims with(Claim claim) const {
    Claims more = *this;
    more.bits_ |= 1U << static_cast<unsigned>(claim);
    return more;
  }
  constexpr bool has(Claim claim) const {
    return (bits_ >> static_cast<unsigned>(claim) & 1U) != 0;
  }

 private:
  std::uint32_t bits_ = 0;
};

// What anybody may say to a process that is in a world: that it wants in; that it takes no part any
// more; which outcasts it would like to hear of.
constexpr Claims kOfOneself{kJoin, kOut, kAbsent};
// A process in a lobby has to answer besides.
constexpr Claims kOfWaiting{kJoin, kOut, kAbsent, kReady, kBehind};
// Any member may come to coordinate, and then both sides speak as coordinator and members do.
// Who signed a view has said who is in it, whoever shows it to a member.
constexpr Claims kOfShowing = kOfOneself.with(Claim::kShownOut);
constexpr Claims kOfPeers =
    Claims{kSuspect, kReport,   kPrepare, kPropose, kAccept, kDecide, kJoin,  kLobby,
           kReady,   kBoundary, kFenced,  kOut,     kBehind, kAsk,    kAbsent}
        .with(Claim::kYouAreOut)
        .with(Claim::kTheyAreGone)
        .with(Claim::kShownOut);
constexpr Claims kOfCoordinator =
    Claims{kPrepare, kPropose, kDecide, kLobby, kRefused, kFenced, kAsk}
        .with(Claim::kTheyAreGone)
        .with(Claim::kShownOut);
constexpr Claims kToCoordinator{kSuspect,  kReport, kAccept, kJoin,   kReady,
                                kBoundary, kGreet,  kOut,    kBehind, kAbsent};

// By listener and speaker, in the order of their enumerations.
constexpr std::array<std::array<Claims, kSpeakerCount>, kListenerCount> kTable = {{
    // The coordinator, a member, an outcast, a waiting process, a stranger.
    // To a member.
    {Claims{}, kOfPeers, kOfShowing, kOfWaiting.with(Claim::kShownOut),
     kOfWaiting.with(Claim::kShownOut)},
    {kOfCoordinator, kOfShowing, kOfShowing, kOfShowing, kOfShowing},      // to a led member
    {Claims{kRedirect, kLobby, kDecide, kRefused, kOut}, {}, {}, {}, {}},  // to a joiner
    {Claims{}, {}, {}, kOfWaiting, Claims{kJoin}},                   // to a founding coordinator
    {Claims{}, kToCoordinator, {}, {}, Claims{kJoin}},               // to one just started
    {Claims{}, kToCoordinator, kOfOneself, kOfWaiting, kOfOneself},  // to a coordinator
}};

}  // namespace

Claim claim_of(const Message& message) {
  if (message.kind == kAbsent && !message.lost.empty()) return Claim::kTheyAreGone;
  return plain(message.kind);
}

bool may_say(Listener listener, Speaker speaker, Claim claim) {
  const auto& row = kTable[static_cast<std::size_t>(listener)];
  return row[static_cast<std::size_t>(speaker)].has(claim);
}

}  // namespace holdfast::ft

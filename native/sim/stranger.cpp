#include "sim/stranger.h"

#include <algorithm>

#include "ft/view_change.h"

namespace holdfast::sim {
namespace {

using ft::MessageKind;

class Forger {
 public:
  Forger(const KnownWorld& world, MemberId self, Random& random)
      : world_(world), self_(self), random_(random) {}

  ft::Message make(MessageKind kind) {
    ft::Message m;
    m.kind = kind;
    m.world = world_.id;
    m.generation = ballot();
    m.epoch = epoch();
    m.version = random_.chance(50) ? random_.below(4) : std::uint64_t{1} << 40;
    m.boundary = random_.chance(30);
    m.elastic = random_.chance(50);
    m.lost = some_members();
    m.unproven = random_.chance(50) ? m.lost : std::vector<MemberId>{};
    m.text = world_.name;
    m.joiners = {{self_, Rank{-1}, "host0"}};
    if (kind == MessageKind::kSuspect && random_.chance(50)) m.origin = any_member();
    if (kind == MessageKind::kAbsent) m.lost = outcasts();
    if (random_.chance(70)) m.view = view(m.epoch, kind);
    if (random_.chance(20)) m.digest = random_.next();
    if (kind == MessageKind::kReport && random_.chance(50)) {
      m.accepted = encode(make(MessageKind::kPropose));
    }
    if (kind == MessageKind::kReady) m.version = 0;
    if (kind == MessageKind::kJoin) m.version = random_.below(2);
    if (!world_.shown.empty()) add_statement(m);
    return m;
  }

 private:
  // A signed view as it is; or its statement beside another one.
  void add_statement(ft::Message& m) {
    const ft::Message& shown = world_.shown[random_.below(world_.shown.size())];
    switch (random_.below(4)) {
      case 0: m.statement = shown.statement; return;
      case 1:
        // As one who calls a coordinator, as one who tells a member that it is out, or otherwise.
        if (random_.chance(60)) {
          m.kind = random_.chance(50) ? MessageKind::kGreet : MessageKind::kFenced;
        }
        m.world = shown.world;
        m.text = shown.text;
        m.epoch = shown.view.epoch;
        m.view = shown.view;
        m.reports = shown.reports;
        m.boundary = shown.boundary;
        m.statement = shown.statement;
        return;
      // An older world of the name.
      case 2: m.world = {1 + random_.below(world_.id.value - 1)}; return;
      default: return;
    }
  }

  // Also ballots above all that were ever used.
  ft::Generation ballot() {
    if (random_.chance(30)) return {};
    return {random_.below(random_.chance(50) ? 1U << 20 : std::uint64_t{1} << 60)};
  }

  Epoch epoch() {
    const std::uint32_t now = world_.view.epoch.value;
    switch (random_.below(4)) {
      case 0: return {now - 1};
      case 1: return {now};
      case 2: return {now + 1};
      default: return {now + 1000};
    }
  }

  MemberId any_member() {
    const std::vector<MemberId> all = world_.view.present();
    return all.empty() ? self_ : all[random_.below(all.size())];
  }

  std::vector<MemberId> some_members() {
    std::vector<MemberId> some = world_.view.present();
    const std::uint64_t left_out = random_.chance(30) ? 0 : random_.next();
    std::size_t at = 0;
    std::erase_if(some, [&](MemberId) { return (left_out >> (at++ % 64) & 1) != 0; });
    std::sort(some.begin(), some.end());
    return some;
  }

  std::vector<MemberId> outcasts() {
    std::vector<MemberId> all;
    for (const ft::Outcast& outcast : world_.view.outcasts) all.push_back(outcast.member);
    return all;
  }

  // A view that has the stranger, and not all of the members.
  ft::WorldView view(Epoch about, MessageKind kind) {
    ft::WorldView forged = world_.view;
    const bool next = kind == MessageKind::kPropose || kind == MessageKind::kLobby;
    forged.epoch = {about.value + (next ? 1 : 0)};
    for (MemberId& member : forged.members) {
      if (random_.chance(40)) member = ft::kNobody;
    }
    const std::size_t seat = random_.below(forged.members.size());
    forged.members[seat] = self_;
    forged.cards[seat] = "host0";
    return forged;
  }

  const KnownWorld& world_;
  MemberId self_;
  Random& random_;
};

}  // namespace

std::vector<ft::Message> forge(const KnownWorld& world, MemberId self, Random& random) {
  Forger forger(world, self, random);
  std::vector<ft::Message> all;
  // In some worlds it waits in the lobby while it says the rest.
  if (random.chance(30)) all.push_back(forger.make(MessageKind::kJoin));
  const auto count = 1 + random.below(30);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto kind = 1 + random.below(ft::kMessageKindCount);
    all.push_back(forger.make(static_cast<MessageKind>(kind)));
  }
  return all;
}

}  // namespace holdfast::sim

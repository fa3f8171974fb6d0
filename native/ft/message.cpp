#include "ft/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"

namespace holdfast::ft {
namespace {

constexpr std::size_t kMaxText = 4096;

// Bits of the fields that most messages lack. Those of reports come first, so that they fit into a
// byte.
enum Field : std::uint32_t {
  kLostRanks = 1,
  kDigest = 1 << 1,
  kOps = 1 << 2,
  kBodyNumber = 1 << 3,
  kRepeats = 1 << 4,
  kVersion = 1 << 5,
  kAccepted = 1 << 6,
  kGroups = 1 << 7,
  kIsBoundary = 1 << 8,
  kIsElastic = 1 << 9,
  kOrigin = 1 << 10,
  kLost = 1 << 11,
  kView = 1 << 12,
  kChange = 1 << 13,
  kReports = 1 << 14,
  kJoiners = 1 << 15,
  kText = 1 << 16,
  kStatement = 1 << 17,
};
constexpr std::uint32_t kAllFields = (1 << 18) - 1;

std::uint32_t fields_of(const Message& m) {
  std::uint32_t fields = 0;
  const auto note = [&](Field field, bool present) { fields |= present ? field : 0U; };
  note(kLostRanks, !m.lost_ranks.empty());
  note(kDigest, m.digest != 0);
  note(kOps, !m.body.ops.empty());
  note(kBodyNumber, m.body_number != 0);
  note(kRepeats, m.repeats);
  note(kVersion, m.version != 0);
  note(kAccepted, !m.accepted.empty());
  note(kGroups, !m.body.groups.empty());
  note(kIsBoundary, m.boundary);
  note(kIsElastic, m.elastic);
  note(kOrigin, m.origin != kNobody);
  note(kLost, !m.lost.empty() || !m.unproven.empty());
  note(kView, m.view != WorldView{});
  note(kChange, m.change.has_value());
  note(kReports, m.reports != Reports{});
  note(kJoiners, !m.joiners.empty());
  note(kText, !m.text.empty());
  note(kStatement, !m.statement.empty());
  return fields;
}

void write(Writer& w, const std::vector<MemberId>& members) {
  w.list(members, [&](MemberId m) { w.number(m.value); });
}

void write(Writer& w, const std::vector<LostRank>& lost) {
  w.list(lost, [&](const LostRank& l) {
    w.count(std::uint64_t{static_cast<std::uint32_t>(l.rank.value)} << 1 | (l.proven ? 1 : 0));
  });
}

void write(Writer& w, const WorldView& view) {
  w.number(view.epoch.value);
  write(w, view.members);
  for (const std::string& card : view.cards) w.text(card);
  w.count(view.admitted);
  w.list(view.outcasts, [&](const Outcast& outcast) {
    w.number(outcast.member.value);
    w.number(outcast.rank.value);
    w.text(outcast.card);
  });
}

void write(Writer& w, const std::vector<Joiner>& joiners) {
  w.list(joiners, [&](const Joiner& j) {
    w.number(j.member.value);
    w.number(j.wanted.value);
    w.text(j.card);
  });
}

void write(Writer& w, const ViewChange& change) {
  w.number(change.base);
  w.number(change.result);
  w.list(change.vacated, [&](Rank rank) { w.number(rank.value); });
  write(w, change.seated);
  w.count(change.admitted);
  w.list(change.cast_out, [&](Rank rank) { w.number(rank.value); });
  write(w, change.absent);
}

std::vector<MemberId> read_members(Reader& r) {
  std::vector<MemberId> members;
  r.list(kMaxRanks, sizeof(std::uint64_t), [&] { members.push_back({r.number<std::uint64_t>()}); });
  return members;
}

std::vector<LostRank> read_lost_ranks(Reader& r) {
  std::vector<LostRank> lost;
  r.list(kMaxRanks, 1, [&] {
    const std::uint64_t code = r.count(kMaxRanks << 1 | 1);
    lost.push_back({Rank{static_cast<std::int32_t>(code >> 1)}, (code & 1) != 0});
  });
  return lost;
}

WorldView read_view(Reader& r) {
  WorldView view;
  view.epoch = {r.number<std::uint32_t>()};
  view.members = read_members(r);
  for (std::size_t i = 0; i < view.members.size() && !r.failed(); ++i) {
    view.cards.push_back(r.text(kMaxCardBytes));
  }
  view.admitted = r.count();
  r.list(kMaxRanks, sizeof(std::uint64_t) + sizeof(std::int32_t), [&] {
    Outcast outcast;
    outcast.member = {r.number<std::uint64_t>()};
    outcast.rank = {r.number<std::int32_t>()};
    outcast.card = r.text(kMaxCardBytes);
    view.outcasts.push_back(std::move(outcast));
  });
  return view;
}

std::vector<Joiner> read_joiners(Reader& r) {
  std::vector<Joiner> joiners;
  r.list(kMaxRanks, sizeof(std::uint64_t), [&] {
    Joiner j;
    j.member = {r.number<std::uint64_t>()};
    j.wanted = {r.number<std::int32_t>()};
    j.card = r.text(kMaxCardBytes);
    joiners.push_back(std::move(j));
  });
  return joiners;
}

ViewChange read_change(Reader& r) {
  ViewChange change;
  change.base = r.number<std::uint64_t>();
  change.result = r.number<std::uint64_t>();
  r.list(kMaxRanks, sizeof(std::int32_t),
         [&] { change.vacated.push_back({r.number<std::int32_t>()}); });
  change.seated = read_joiners(r);
  change.admitted = r.count();
  r.list(kMaxRanks, sizeof(std::int32_t),
         [&] { change.cast_out.push_back({r.number<std::int32_t>()}); });
  change.absent = read_members(r);
  return change;
}

}  // namespace

bool WorldView::has(MemberId member) const {
  return member != kNobody && std::find(members.begin(), members.end(), member) != members.end();
}

bool WorldView::has_outcast(MemberId member) const {
  return std::any_of(outcasts.begin(), outcasts.end(),
                     [&](const Outcast& outcast) { return outcast.member == member; });
}

std::vector<MemberId> WorldView::present() const {
  std::vector<MemberId> result = members;
  std::erase(result, kNobody);
  return result;
}

void WorldView::forget_vacated() {
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r] == kNobody && !std::as_const(cards)[r].empty()) cards[r].clear();
  }
}

std::string to_string(const Message& m) {
  static constexpr std::array<const char*, kMessageKindCount> kNames = {
      "suspect", "report",   "prepare", "propose", "accept",   "decide",
      "join",    "redirect", "lobby",   "ready",   "boundary", "refused",
      "fenced",  "greet",    "out",     "behind",  "ask",      "absent"};
  std::string text = kNames.at(static_cast<std::size_t>(m.kind) - 1);
  text += " (ballot " + std::to_string(m.generation.value >> 16) + "." +
          std::to_string(m.generation.value & 0xffff) + ", epoch " + std::to_string(m.epoch.value) +
          ", version " + std::to_string(m.version);
  const std::size_t lost = m.lost.size() + m.lost_ranks.size();
  if (lost > 0) text += ", lost " + std::to_string(lost);
  if (!m.unproven.empty()) text += ", unproven " + std::to_string(m.unproven.size());
  return text + ")";
}

Bytes encode(const Message& m) {
  Writer w;
  const std::uint32_t fields = fields_of(m);
  w.number(static_cast<std::uint8_t>(m.kind));
  w.count(fields);
  w.number(m.world.value);
  w.count(m.generation.value);
  w.count(m.epoch.value);
  if ((fields & kVersion) != 0) w.count(m.version);
  if ((fields & kOrigin) != 0) w.number(m.origin.value);
  if ((fields & kLost) != 0) {
    write(w, m.lost);
    write(w, m.unproven);
  }
  if ((fields & kLostRanks) != 0) write(w, m.lost_ranks);
  if ((fields & kDigest) != 0) w.number(m.digest);
  if ((fields & kBodyNumber) != 0) w.count(m.body_number);
  if ((fields & kGroups) != 0) w.bytes(m.body.groups);
  if ((fields & kOps) != 0) w.bytes(m.body.ops);
  if ((fields & kAccepted) != 0) w.bytes(m.accepted);
  if ((fields & kView) != 0) write(w, m.view);
  if ((fields & kChange) != 0) write(w, *m.change);
  if ((fields & kReports) != 0) write(w, m.reports);
  if ((fields & kJoiners) != 0) write(w, m.joiners);
  if ((fields & kText) != 0) w.text(m.text);
  if ((fields & kStatement) != 0) w.bytes(m.statement);
  return w.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader r(bytes);
  Message m;
  const auto kind = r.number<std::uint8_t>();
  const std::uint64_t fields = r.count(kAllFields);
  m.kind = static_cast<MessageKind>(kind);
  m.world = {r.number<std::uint64_t>()};
  m.generation = {r.count()};
  m.epoch = {static_cast<std::uint32_t>(r.count(UINT32_MAX))};
  m.boundary = (fields & kIsBoundary) != 0;
  m.elastic = (fields & kIsElastic) != 0;
  m.repeats = (fields & kRepeats) != 0;
  if ((fields & kVersion) != 0) m.version = r.count();
  if ((fields & kOrigin) != 0) m.origin = {r.number<std::uint64_t>()};
  if ((fields & kLost) != 0) {
    m.lost = read_members(r);
    m.unproven = read_members(r);
  }
  if ((fields & kLostRanks) != 0) m.lost_ranks = read_lost_ranks(r);
  if ((fields & kDigest) != 0) m.digest = r.number<std::uint64_t>();
  if ((fields & kBodyNumber) != 0) m.body_number = r.count();
  if ((fields & kGroups) != 0) m.body.groups = r.bytes(kMaxMessageBytes);
  if ((fields & kOps) != 0) m.body.ops = r.bytes(kMaxMessageBytes);
  if ((fields & kAccepted) != 0) m.accepted = r.bytes(kMaxMessageBytes);
  if ((fields & kView) != 0) m.view = read_view(r);
  if ((fields & kChange) != 0) m.change = read_change(r);
  if ((fields & kReports) != 0) m.reports = read_reports(r);
  if ((fields & kJoiners) != 0) m.joiners = read_joiners(r);
  if ((fields & kText) != 0) m.text = r.text(kMaxText);
  if ((fields & kStatement) != 0) m.statement = r.bytes(kMaxStatementBytes);
  const bool sound = r.ended() && kind >= 1 && kind <= kMessageKindCount;
  if (!sound) return Status{Code::kProtocolError, "malformed membership message"};
  return m;
}

}  // namespace holdfast::ft

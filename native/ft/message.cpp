#include "ft/message.h"

#include <algorithm>
#include <array>

#include "ft/codec.h"

namespace holdfast::ft {
namespace {

constexpr std::size_t kMaxText = 4096;

void write(Writer& w, const std::vector<MemberId>& members) {
  w.list(members, [&](MemberId m) { w.number(m.value); });
}

void write(Writer& w, const WorldView& view) {
  w.number(view.epoch.value);
  write(w, view.members);
  w.list(view.cards, [&](const std::string& card) { w.text(card); });
  w.number(view.admitted);
  w.list(view.outcasts, [&](const Outcast& outcast) {
    w.number(outcast.member.value);
    w.number(outcast.rank.value);
    w.text(outcast.card);
  });
}

std::vector<MemberId> read_members(Reader& r) {
  std::vector<MemberId> members;
  r.list(kMaxRanks, sizeof(std::uint64_t), [&] { members.push_back({r.number<std::uint64_t>()}); });
  return members;
}

WorldView read_view(Reader& r) {
  WorldView view;
  view.epoch = {r.number<std::uint32_t>()};
  view.members = read_members(r);
  r.list(kMaxRanks, sizeof(std::uint32_t), [&] { view.cards.push_back(r.text(kMaxCardBytes)); });
  view.admitted = r.number<std::uint64_t>();
  r.list(kMaxRanks, sizeof(std::uint64_t) + sizeof(std::int32_t), [&] {
    Outcast outcast;
    outcast.member = {r.number<std::uint64_t>()};
    outcast.rank = {r.number<std::int32_t>()};
    outcast.card = r.text(kMaxCardBytes);
    view.outcasts.push_back(std::move(outcast));
  });
  return view;
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

std::string to_string(const Message& m) {
  static constexpr std::array<const char*, kMessageKindCount> kNames = {
      "suspect", "report", "prepare",  "propose", "accept", "decide", "join", "redirect",
      "lobby",   "ready",  "boundary", "refused", "fenced", "greet",  "out",  "absent"};
  std::string text = kNames.at(static_cast<std::size_t>(m.kind) - 1);
  text += " (ballot " + std::to_string(m.generation.value >> 16) + "." +
          std::to_string(m.generation.value & 0xffff) + ", epoch " + std::to_string(m.epoch.value) +
          ", version " + std::to_string(m.version);
  if (!m.lost.empty()) text += ", lost " + std::to_string(m.lost.size());
  if (!m.unproven.empty()) text += ", unproven " + std::to_string(m.unproven.size());
  return text + ")";
}

Bytes encode(const Message& m) {
  Writer w;
  w.number(static_cast<std::uint8_t>(m.kind));
  w.number(m.world.value);
  w.number(m.generation.value);
  w.number(m.epoch.value);
  w.number(m.version);
  w.number(static_cast<std::uint8_t>(m.boundary ? 1 : 0));
  w.number(static_cast<std::uint8_t>(m.elastic ? 1 : 0));
  w.number(m.origin.value);
  write(w, m.lost);
  write(w, m.unproven);
  w.bytes(m.body);
  w.bytes(m.accepted);
  write(w, m.view);
  w.list(m.reports, [&](const auto& report) {
    w.number(report.first.value);
    w.bytes(report.second);
  });
  w.list(m.joiners, [&](const Joiner& j) {
    w.number(j.member.value);
    w.number(j.wanted.value);
    w.text(j.card);
  });
  w.text(m.text);
  return w.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader r(bytes);
  Message m;
  const auto kind = r.number<std::uint8_t>();
  m.kind = static_cast<MessageKind>(kind);
  m.world = {r.number<std::uint64_t>()};
  m.generation = {r.number<std::uint64_t>()};
  m.epoch = {r.number<std::uint32_t>()};
  m.version = r.number<std::uint64_t>();
  m.boundary = r.number<std::uint8_t>() != 0;
  m.elastic = r.number<std::uint8_t>() != 0;
  m.origin = {r.number<std::uint64_t>()};
  m.lost = read_members(r);
  m.unproven = read_members(r);
  m.body = r.bytes(kMaxMessageBytes);
  m.accepted = r.bytes(kMaxMessageBytes);
  m.view = read_view(r);
  r.list(kMaxRanks, sizeof(std::uint64_t), [&] {
    const MemberId member{r.number<std::uint64_t>()};
    m.reports.emplace_back(member, r.bytes(kMaxMessageBytes));
  });
  r.list(kMaxRanks, sizeof(std::uint64_t), [&] {
    Joiner j;
    j.member = {r.number<std::uint64_t>()};
    j.wanted = {r.number<std::int32_t>()};
    j.card = r.text(kMaxCardBytes);
    m.joiners.push_back(std::move(j));
  });
  m.text = r.text(kMaxText);
  const bool sound = r.ended() && kind >= 1 && kind <= kMessageKindCount &&
                     m.view.cards.size() == m.view.members.size();
  if (!sound) return Status{Code::kProtocolError, "malformed membership message"};
  return m;
}

}  // namespace holdfast::ft

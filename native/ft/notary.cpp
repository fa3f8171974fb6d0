#include "ft/notary.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/planted.h"

namespace holdfast::ft {
namespace {

// What a process learns with the view: the same by whichever message.
Bytes text_of_view(const Message& whole) {
  Message text;
  text.kind = MessageKind::kDecide;
  text.boundary = whole.boundary;
  text.view = whole.view;
  text.reports = whole.reports;
  return encode(text);
}

Bytes text_of_members(const std::string& name, const Message& message,
                      std::span<const std::byte> digest) {
  Writer text;
  text.text(name);
  text.number(message.world.value);
  text.number(message.view.epoch.value);
  text.list(message.view.members, [&](MemberId member) { text.number(member.value); });
  text.raw(digest);
  return text.take();
}

bool is_sound(Notary& notary, const std::string& name, const Message& message) {
  const std::span<const std::byte> statement(message.statement);
  if (statement.size() <= kDigestBytes || message.view.epoch.value == 0) return false;
  const auto digest = statement.first(kDigestBytes);
  return notary.check(text_of_members(name, message, digest), statement.subspan(kDigestBytes));
}

}  // namespace

Bytes statement_for(Notary* notary, const std::string& name, const Message& whole) {
  if (notary == nullptr) return {};
  Bytes statement = notary->digest(text_of_view(whole));
  const Bytes signature = notary->sign(text_of_members(name, whole, statement));
  if (statement.size() != kDigestBytes || signature.empty()) return {};
  statement.insert(statement.end(), signature.begin(), signature.end());
  return statement;
}

bool is_attested(Notary* notary, const std::string& name, const Message& whole) {
  if (notary == nullptr || is_planted(Planted::kUncheckedStatement)) return true;
  if (whole.change || !is_sound(*notary, name, whole)) return false;
  const Bytes digest = notary->digest(text_of_view(whole));
  return digest.size() == kDigestBytes &&
         std::equal(digest.begin(), digest.end(), whole.statement.begin());
}

WorldView members_of(const WorldView& view) {
  WorldView shown;
  shown.epoch = view.epoch;
  shown.members = view.members;
  shown.cards.resize(view.members.size());
  return shown;
}

bool shows_members(Notary* notary, const std::string& name, const Message& message) {
  return notary != nullptr && is_sound(*notary, name, message);
}

}  // namespace holdfast::ft

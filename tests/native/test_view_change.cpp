// View changes of large worlds: what they cost, and that nobody goes by what it does not have.
#include <doctest/doctest.h>

#include <cstdint>

#include "base/planted.h"
#include "crowd.h"
#include "ft/view_change.h"
#include "sanitized.h"

namespace holdfast::ft {
namespace {

using testing::Crowd;
using testing::Groups;
using testing::Left;
using testing::Load;

constexpr std::uint64_t kKiB = 1024;
// Ranks.
constexpr int kLarge = holdfast::testing::kSanitized ? 64 : 256;

WorldView view_of(std::initializer_list<std::uint64_t> members) {
  WorldView view;
  view.epoch = {3};
  for (const std::uint64_t member : members) {
    view.members.push_back({member});
    view.cards.push_back(member == 0 ? "" : "card " + std::to_string(member));
  }
  return view;
}

// Rank 1 has gone, and somebody new comes in at the rank after the last.
Message proposal(const WorldView& base) {
  Message m;
  m.kind = MessageKind::kPropose;
  m.view = base;
  m.view.epoch = {4};
  m.view.admitted = 7;
  m.view.members[1] = kNobody;
  m.view.cards[1].clear();  // somebody is seated
  m.view.members.push_back({9});
  m.view.cards.emplace_back("card 9");
  for (const MemberId member : base.present()) {
    if (member != base.members[1]) m.reports.add(member, {std::byte{1}}, {std::byte{2}});
  }
  return m;
}

TEST_CASE("a vacated rank keeps its card until somebody is seated") {
  const WorldView base = view_of({5, 6, 7, 8});
  Message loss = proposal(base);
  loss.view.members = {{5}, kNobody, {7}, {8}};
  loss.view.cards = base.cards;
  Message heard = by_difference(loss, base);
  REQUIRE(heard.change.has_value());
  CHECK(spell_out(heard, base));
  CHECK(heard.view == loss.view);
  CHECK(heard.view.cards[1] == "card 6");

  Message second = loss;
  second.view.epoch = {5};
  second.view.members[3] = kNobody;
  second.reports = {};
  for (const std::uint64_t stays : {5ULL, 7ULL}) second.reports.add({stays}, {}, {});
  heard = by_difference(second, loss.view);
  REQUIRE(heard.change.has_value());
  CHECK(spell_out(heard, loss.view));
  CHECK(heard.view.cards == base.cards);

  Message seats = second;
  seats.view.epoch = {6};
  seats.view.members[3] = {9};
  seats.view.cards = {"card 5", "", "card 7", "card 9"};
  heard = by_difference(seats, second.view);
  REQUIRE(heard.change.has_value());
  CHECK(spell_out(heard, second.view));
  CHECK(heard.view == seats.view);
}

TEST_CASE("what changes in a view gives the next one, to who has it, and to nobody else") {
  const WorldView base = view_of({5, 6, 0, 8});
  const Message whole = proposal(base);
  const Message abridged = by_difference(whole, base);
  REQUIRE(abridged.change.has_value());
  CHECK(abridged.view == WorldView{});
  auto heard = decode(encode(abridged));
  REQUIRE(heard.is_ok());
  CHECK(heard.value() == abridged);
  Message back = heard.value();
  CHECK(spell_out(back, base));
  CHECK(back == whole);
  // Another card, another member, another epoch.
  WorldView other = base;
  other.cards[3] += "!";
  WorldView stranger = view_of({5, 7, 0, 8});
  WorldView later = base;
  later.epoch = {4};
  for (const WorldView& wrong : {other, stranger, later, WorldView{}}) {
    Message unheard = heard.value();
    CHECK_FALSE(spell_out(unheard, wrong));
    CHECK(unheard == abridged);
  }
}

TEST_CASE("a change of ranks that no world has is refused") {
  const WorldView base = view_of({5, 6, 7});
  const Message abridged = by_difference(proposal(base), base);
  for (const std::int32_t rank : {-1, 3, 1 << 30}) {
    Message wrong = abridged;
    wrong.change->vacated = {{rank}};
    CHECK_FALSE(spell_out(wrong, base));
  }
  for (const std::int32_t rank : {-1, static_cast<std::int32_t>(kMaxRanks)}) {
    Message wrong = abridged;
    wrong.change->seated[0].wanted = {rank};
    CHECK_FALSE(spell_out(wrong, base));
  }
}

TEST_CASE("a proposal that is not made of the members' view goes out whole") {
  const WorldView base = view_of({5, 6, 7});
  Message whole = proposal(base);
  whole.reports.add({99}, {}, {});
  CHECK_FALSE(by_difference(whole, base).change.has_value());
  CHECK_FALSE(by_difference(proposal(base), WorldView{}).change.has_value());
}

TEST_CASE("reports that many give alike are said once") {
  Reports reports;
  const Bytes groups(5000, std::byte{1});
  for (std::uint64_t m = 1; m <= 1000; ++m) {
    reports.add({m}, groups, {std::byte{static_cast<unsigned char>(m > 500)}});
  }
  CHECK(reports.groups().size() == 1);
  CHECK(reports.ops().size() == 2);
  Message message;
  message.kind = MessageKind::kDecide;
  message.reports = reports;
  const Bytes named = encode(message);
  CHECK(named.size() < 5000 + 1000 * 8 + 100);
  CHECK(decode(named).value() == message);
  message.reports.forget_members();
  CHECK(encode(message).size() < 5100);
}

TEST_CASE("few bytes that stand for more ranks than there can be are refused") {
  std::vector<group::GroupReport> groups(4096);
  std::vector<Rank> ranks;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(kMaxRanks); ++r) ranks.push_back({r});
  const auto of_all =
      std::make_shared<const group::GroupIdentity>(group::GroupIdentity{{1}, "", ranks});
  for (group::GroupReport& group : groups) group.group = of_all;
  const Body body = encode(groups);
  CHECK(body.groups.size() < 100 * kKiB);
  CHECK(group::decode_reports(body).is_ok());
  Reports reports;
  for (std::uint64_t m = 1; m <= 4; ++m) {
    Bytes own = body.groups;
    own[2] = std::byte{static_cast<unsigned char>(m)};  // of the first group's number
    reports.add({m}, own, body.ops);
  }
  CHECK(group::decode_reports(reports).size() == 2);
}

TEST_CASE("each member of a large world hears little when one or two are lost, or one comes") {
  for (const Left left : {Left::kNothing, Left::kPartsOfIt}) {
    Crowd crowd(kLarge, left);
    crowd.lose({kLarge - 1});
    CHECK(crowd.agrees());
    CHECK(crowd.view().present().size() == kLarge - 1);
    CHECK(crowd.most(&Load::bytes_in) <= kLarge * kKiB / 8);
    crowd.lose({kLarge - 2, kLarge / 2});
    CHECK(crowd.agrees());
    CHECK(crowd.view().present().size() == kLarge - 3);
    CHECK(crowd.most(&Load::bytes_in) <= kLarge * kKiB / 8);
    crowd.join(kLarge - 1);
    CHECK(crowd.agrees());
    CHECK(crowd.view().present().size() == kLarge - 2);
    CHECK(crowd.most(&Load::bytes_in) <= kLarge * kKiB / 8);
    // All cards, once.
    CHECK(crowd.of_newcomer().bytes_in <= kLarge * kKiB * 5 / 16);
  }
}

// What all have accepted is decided first, and then a second view. Each told the coordinator again
// what it had proposed itself.
TEST_CASE("a loss while another one is decided costs little more than both, one by one") {
  for (const Left left : {Left::kNothing, Left::kPartsOfIt}) {
    Crowd crowd(kLarge, left);
    crowd.lose_while_proposed(kLarge - 1, kLarge / 2);
    CHECK(crowd.agrees());
    CHECK(crowd.view().epoch == Epoch{3});
    CHECK(crowd.view().present().size() == kLarge - 2);
    CHECK(crowd.most(&Load::bytes_in) <= kLarge * kKiB * 5 / 16);
  }
}

TEST_CASE("the bytes of a view change grow with the ranks, not with their square") {
  std::uint64_t loss[2];
  std::uint64_t join[2];
  for (const int large : {0, 1}) {
    Crowd crowd(large == 0 ? kLarge / 4 : kLarge, Left::kNothing);
    crowd.lose({kLarge / 4 - 1});
    loss[large] = crowd.total().bytes_in;
    crowd.join(kLarge / 4 - 1);
    join[large] = crowd.total().bytes_in;
  }
  CHECK(loss[1] <= 5 * loss[0]);
  CHECK(join[1] <= 5 * join[0]);
}

TEST_CASE("groups that a coordinator does not have are asked for, those of many once") {
  Crowd crowd(16, Left::kNothing, Groups::kOwn);
  crowd.lose({15});
  CHECK(crowd.agrees());
  CHECK(crowd.own_groups_known() == 15);
  const auto first = crowd.total().messages_in;
  crowd.lose({14});
  CHECK(crowd.agrees());
  CHECK(crowd.own_groups_known() == 14);
  // It knows them by now.
  CHECK(crowd.total().messages_in <= first - 2 * 14);
}

TEST_CASE("who has not kept what it accepted asks for a decision that names it") {
  Crowd crowd(8, Left::kPartsOfIt);
  planted = Planted::kForgetVote;
  crowd.lose({7});
  planted = Planted::kNone;
  CHECK(crowd.agrees());
  CHECK(crowd.view().present().size() == 7);
}

TEST_CASE("the first rank may be lost, and another one with it") {
  Crowd crowd(32, Left::kPartsOfIt);
  crowd.lose({0, 9});
  CHECK(crowd.agrees());
  CHECK(crowd.view().present().size() == 30);
  crowd.lose({1});
  CHECK(crowd.agrees());
  crowd.join(0);
  CHECK(crowd.agrees());
  CHECK(crowd.view().present().size() == 30);
}

}  // namespace
}  // namespace holdfast::ft

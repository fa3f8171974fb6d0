// How the end of a view spreads: notices on the wire, and who passes them on.
#include <doctest/doctest.h>

#include "comm/transport/inproc.h"
#include "comm/view/message_ops.h"
#include "comm/view/message_resume.h"
#include "comm/view/view_communicator.h"
#include "comm/view/view_notice.h"

namespace holdfast::comm {
namespace {

// Remembers how the view ended.
class Owner final : public ViewOwner {
 public:
  void on_op_ended(const std::shared_ptr<OpWork>&, Held) override {}
  void on_stable(OpSeq) override {}
  void on_missed(Rank, const Status&) override {}
  void on_view_failed(const Status& status) override { health = status; }
  Status health;
};

// Rank 0 of three, and the other ends of its links.
struct Member {
  std::unique_ptr<Link> to_one;
  std::unique_ptr<Link> to_two;
  std::unique_ptr<Link> one;
  std::unique_ptr<Link> two;
  Owner owner;
  std::unique_ptr<ViewCommunicator> group;

  Member() {
    std::tie(to_one, one) = make_inproc_pair();
    std::tie(to_two, two) = make_inproc_pair();
    CommunicatorConfig config;
    config.id = {42};
    config.view.members = {{10}, {11}, {12}};
    config.rank = {0};
    config.name = "test";
    config.links = {{}, {to_one.get(), to_one.get()}, {to_two.get(), to_two.get()}};
    config.ranks = {{0}, {1}, {2}};
    config.group_size = 3;
    config.fabric = topology::Fabric::evenly(3, 1, topology::kShmLink).value();
    group = std::make_unique<ViewCommunicator>(std::move(config), owner,
                                               std::make_shared<MonotonicClock>());
  }
};

std::optional<ViewNotice> heard(Link& link) {
  link.pump();
  auto frame = link.session().take_control();
  if (!frame || frame->header.kind != FrameKind::kRevoke) return std::nullopt;
  auto notice = decode_notice(frame->payload, 3);
  REQUIRE(notice.is_ok());
  return notice.value();
}

TEST_CASE("a notice survives the wire, and nothing else is taken for one") {
  const ViewNotice notice{Code::kPeerLost, {{1}, {2}}, "connection reset"};
  const auto bytes = encode_notice(notice);
  const auto back = decode_notice(bytes, 3);
  REQUIRE(back.is_ok());
  CHECK(back.value().code == notice.code);
  CHECK(back.value().ranks == notice.ranks);
  CHECK(back.value().text == notice.text);
  CHECK_FALSE(decode_notice(bytes, 2).is_ok());
  CHECK_FALSE(decode_notice(std::span(bytes).first(8), 3).is_ok());
  CHECK_FALSE(decode_notice({}, 3).is_ok());
}

TEST_CASE("a member passes the first notice on, so that nobody blames the messenger") {
  Member member;
  const auto payload = encode_notice({Code::kPeerLost, {{1}}, "rank 1 was killed"});
  member.group->on_revoke({1}, payload);
  const auto passed_on = heard(*member.two);
  REQUIRE(passed_on.has_value());
  CHECK(passed_on->ranks == std::vector<Rank>{{1}});
  CHECK(member.owner.health.ranks() == std::vector<Rank>{{1}});
  // Once: the second notice of the same view is old news.
  member.group->on_revoke({2}, payload);
  CHECK_FALSE(heard(*member.two).has_value());
}

Call reduction(std::uint32_t number, std::uint64_t elements) {
  return {{number}, Collective::kAllReduce, DType::kF32, ReduceOp::kSum, {}, elements, elements};
}

TEST_CASE("members that find out by different ops are told what all called at the first") {
  Member member;
  member.group->note_call(reduction(0, 8));
  member.group->note_call(reduction(1, 8));
  // The difference shows in op 1 at rank 1, in op 0 at rank 2.
  member.group->on_revoke({1},
                          encode_notice({Code::kProtocolError,
                                         {{1}},
                                         "at op 1",
                                         CallReport{{1}, {reduction(0, 8), reduction(1, 8)}}}));
  CHECK(member.owner.health.is_ok());
  CHECK(heard(*member.two)->report->sequence == OpSeq{1});
  member.group->on_revoke(
      {2},
      encode_notice({Code::kProtocolError, {{2}}, "at op 0", CallReport{{0}, {reduction(0, 9)}}}));
  // Others that still wait for this rank's word on op 0 get it.
  CHECK(heard(*member.one)->report->sequence == OpSeq{1});
  CHECK(heard(*member.one)->report->sequence == OpSeq{0});
  member.group->progress(MonotonicClock().now());
  const std::string told = member.owner.health.message();
  CHECK_MESSAGE(told.find("ranks 0, 1 called all_reduce #0 (f32, 8") != std::string::npos, told);
  CHECK_MESSAGE(told.find("rank 2 called all_reduce #0 (f32, 9") != std::string::npos, told);
  CHECK_MESSAGE(told.find("did not answer") == std::string::npos, told);
}

TEST_CASE("who aborts is lost to the others") {
  Member member;
  member.group->on_revoke({2}, encode_notice({Code::kAborted, {{2}}, "aborted: enough"}));
  CHECK(member.owner.health.code() == Code::kPeerLost);
  CHECK(member.owner.health.ranks() == std::vector<Rank>{{2}});
  CHECK(heard(*member.one)->code == Code::kPeerLost);
}

TEST_CASE("what a rank had sent before its connection broke is told in parts, each bounded") {
  std::vector<SentNotice> notices;
  for (std::uint32_t tag = 0; tag < 5000; ++tag) notices.push_back({tag, tag * 3, tag % 2 == 0});
  std::vector<SentNotice> heard;
  const auto parts = encode_sent(notices);
  CHECK(parts.size() == 2);
  for (const auto& part : parts) {
    const auto some = decode_sent(part);
    REQUIRE(some.is_ok());
    heard.insert(heard.end(), some.value().begin(), some.value().end());
  }
  CHECK(heard == notices);
  auto damaged = parts[1];
  damaged[8] = std::byte{2};
  CHECK(decode_sent(damaged).status().code() == Code::kProtocolError);
  damaged.pop_back();
  CHECK(decode_sent(damaged).status().code() == Code::kProtocolError);
  CHECK(decode_sent(std::vector<std::byte>(4097 * 9)).status().code() == Code::kProtocolError);
}

TEST_CASE("a rank that names ever more sends after a cut is told so before memory is gone") {
  MessageOps messages(CommId{1}, Rank{0}, 2);
  std::size_t taken = 0;
  Status status = Status::ok();
  for (std::uint32_t tag = 0; status.is_ok() && taken < 1000; ++taken) {
    std::vector<SentNotice> notices;
    for (int i = 0; i < 4096; ++i) notices.push_back({tag++, 1, false});
    status = messages.hear_sent(Rank{1}, encode_sent(notices).at(0));
  }
  CHECK(status.code() == Code::kProtocolError);
  CHECK(taken < 300);
}

}  // namespace
}  // namespace holdfast::comm

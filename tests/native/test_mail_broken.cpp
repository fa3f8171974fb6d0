// Peers that send nonsense, or too much: they are refused, and cost no one else anything.
#include <functional>

#include "mail_calls.h"

namespace holdfast::testing {
namespace {

using namespace comm;

using Bytes = std::vector<std::byte>;

template <class... Parts>
Bytes bytes_of(const Parts&... parts) {
  Bytes bytes;
  const auto add = [&](const auto& part) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof part);
    std::memcpy(bytes.data() + at, &part, sizeof part);
  };
  (add(parts), ...);
  return bytes;
}

// A frame as a link carries it: its number, what was heard, a header and a payload.
Bytes link_frame(std::uint64_t number, const MailHeader& header, const Bytes& payload) {
  Bytes frame = bytes_of(number, std::uint64_t{0});
  std::array<std::byte, kMailHeaderBytes> front{};
  encode_mail_header(header, front.data());
  frame.insert(frame.end(), front.begin(), front.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}
std::uint32_t length(const Bytes& payload) { return static_cast<std::uint32_t>(payload.size()); }

// Rank 0 is whoever writes frames by hand; rank 2 is well.
struct Stranger {
  explicit Stranger(const MailLimits& limits = {}) : desks({3, limits}) {
    desks.open(kTalk);
    desks.greet();
    REQUIRE(desks.deliver(0, 1));
    REQUIRE(desks.settle());
  }
  void say(MailKind kind, const Bytes& payload, int tag = 0) {
    desks.ways(1).hear({0}, link_frame(++last, {kind, kTalk, tag, length(payload)}, payload));
    desks.post(1);
  }
  std::string verdict() {
    const Status& gone = desks.core(1).gone({0});
    if (!gone.is_ok()) CHECK(gone.code() == Code::kProtocolError);
    return gone.message();
  }
  // Rank 1 goes on with rank 2, whatever rank 0 has done.
  void check_others() {
    const auto sent = send(desks, {.from = 2, .tag = 77});
    const auto taken = receive(desks, {.source = {2}, .tag = 77});
    REQUIRE(desks.settle());
    CHECK(holds(*taken, *sent, 8));
  }
  MailDesks desks;
  std::uint64_t last = 1;  // its hello
};

struct Nonsense {
  MailKind kind;
  Bytes payload;
  std::string verdict;
};

}  // namespace

TEST_CASE("a peer whose frames make no sense is refused, and the others are as before") {
  const std::uint64_t huge = kMaxMessageBytes + 1;
  const std::uint64_t never = 0x1'0000'0007;
  const std::vector<Nonsense> all{
      {MailKind::kHello, {}, "broken peer: its mailbox's hello"},
      {MailKind::kHello, encode(MailHello{}), "broken peer: it greets twice"},
      {MailKind::kSwitch, {}, "broken peer: a switch out of place"},
      {MailKind::kEagerSync, {}, "broken peer: a message without its number"},
      {MailKind::kEagerSync, bytes_of(MailId{0}), "broken peer: a message without its number"},
      {MailKind::kAnnounce, {}, "broken peer: an announcement of a message that cannot be"},
      {MailKind::kAnnounce, bytes_of(MailAnnounce{0, 5, 0}),
       "broken peer: an announcement of a message that cannot be"},
      {MailKind::kAnnounce, bytes_of(MailAnnounce{1, huge, 0}),
       "broken peer: an announcement of a message that cannot be"},
      {MailKind::kTake, {}, "broken peer: it takes a message that was not announced"},
      {MailKind::kTake, bytes_of(MailTake{never, 1, 0, 5}),
       "broken peer: it takes a message that was not announced"},
      {MailKind::kData, {}, "broken peer: a part of a message that was not asked for"},
      {MailKind::kData, bytes_of(MailPart{never, 0}, std::uint64_t{1}),
       "broken peer: a part of a message that was not asked for"},
      {MailKind::kDone, bytes_of(MailId{never}),
       "broken peer: it has done with a message that was not sent"},
      {MailKind::kCredit, {}, "broken peer: credit that was never spent"},
      {MailKind::kCredit, bytes_of(MailAmount{1, 0}), "broken peer: credit that was never spent"},
      {MailKind::kCredit, bytes_of(MailAmount{0, ~std::uint64_t{0}}),
       "broken peer: credit that was never spent"},
  };
  for (const Nonsense& one : all) {
    Stranger stranger;
    const auto posted = receive(stranger.desks, {.source = {0}});
    stranger.say(one.kind, one.payload);
    const std::string verdict = stranger.verdict();
    CHECK(verdict.find(one.verdict) != std::string::npos);
    CHECK(posted->request.is_done());
    stranger.check_others();
  }
}

TEST_CASE("damaged frames are refused before anything is kept of them") {
  const std::vector<Bytes> frames{
      {},
      bytes_of(std::uint64_t{2}),
      bytes_of(std::uint64_t{2}, std::uint64_t{1000}),              // it heard what was not sent
      bytes_of(std::uint64_t{2}, std::uint64_t{0}),                 // no header
      link_frame(9, {MailKind::kEager, kTalk, 0, 0}, {}),           // not the next one
      link_frame(2, {MailKind::kEager, kTalk, 0, 8}, {}),           // another length
      link_frame(2, {MailKind::kEager, kTalk, -1, 0}, {}),          // no tag
      link_frame(2, {static_cast<MailKind>(0), kTalk, 0, 0}, {}),   // no kind
      link_frame(2, {static_cast<MailKind>(99), kTalk, 0, 0}, {}),  // no kind
      link_frame(2, {MailKind::kEager, kTalk, 0, kMaxMailPayload + 1}, {}),
  };
  for (const Bytes& frame : frames) {
    Stranger stranger;
    stranger.desks.ways(1).hear({0}, frame);
    stranger.desks.post(1);
    CHECK(!stranger.verdict().empty());
    CHECK(stranger.desks.core(1).backlog().messages == 0);
    stranger.check_others();
    // Nothing that it says later is heard.
    stranger.desks.ways(1).hear({0}, link_frame(2, {MailKind::kEager, kTalk, 0, 0}, {}));
    CHECK(stranger.desks.core(1).backlog().messages == 0);
  }
}

TEST_CASE("a peer that sends more than its credit is refused, and no more than that is kept") {
  constexpr MailLimits kFew{5000, 10, 1000};
  const Bytes some(500);
  Stranger by_bytes(kFew);
  std::uint64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    by_bytes.say(MailKind::kEager, some);
    most = std::max(most, by_bytes.desks.core(1).backlog().bytes);
  }
  CHECK(by_bytes.verdict() == "rank 0: broken peer: more messages than its credit of 5000 bytes");
  CHECK(most == 5000 / (500 + kMailOverhead) * 500);
  by_bytes.check_others();

  Stranger by_count(kFew);
  for (std::uint64_t i = 1; i < 100; ++i) {
    by_count.say(MailKind::kAnnounce, bytes_of(MailAnnounce{i, 1 << 20, 0}));
    most = std::max(most, by_count.desks.core(1).backlog().messages);
  }
  CHECK(by_count.verdict() == "rank 0: broken peer: more messages than its credit of 10");
  CHECK(by_count.desks.core(1).backlog().messages == 0);
  by_count.check_others();
}

TEST_CASE("answers that do not fit the message they name are refused") {
  constexpr std::size_t kBytes = 100'000;
  // The first thing that rank 1 announces has this number.
  const std::uint64_t id = std::uint64_t{1} << 32;
  const std::vector<MailTake> takes{
      {id, 0, 0, 10}, {id, 5, 10, 10}, {id, 5, 0, kBytes + 1}, {id + 1, 5, 0, 10}};
  for (const MailTake& take : takes) {
    Stranger stranger;
    const auto sent = send(stranger.desks, {.from = 1, .to = 0, .bytes = kBytes});
    stranger.say(MailKind::kTake, bytes_of(take));
    CHECK(stranger.verdict().find("it takes a message") != std::string::npos);
    CHECK(sent->request.result.outcome == MailOutcome::kFailed);
    stranger.check_others();
  }
  // Taken twice, and done though it was taken.
  for (const MailKind kind : {MailKind::kTake, MailKind::kDone}) {
    Stranger stranger;
    stranger.desks.cut(0, 1);  // what it takes fills the link, so that it is not done at once
    const auto sent = send(stranger.desks, {.from = 1, .to = 0, .bytes = 8 << 20});
    stranger.say(MailKind::kTake, bytes_of(MailTake{id, 5, 0, 8 << 20}));
    CHECK(!sent->request.is_done());
    CHECK(stranger.verdict().empty());
    stranger.say(kind, kind == MailKind::kTake ? bytes_of(MailTake{id, 5, 0, 8 << 20})
                                               : bytes_of(MailId{id}));
    CHECK(!stranger.verdict().empty());
    CHECK(sent->request.result.outcome == MailOutcome::kFailed);
  }
}

TEST_CASE("parts of a payload that do not continue it are refused, and nothing else is written") {
  const std::uint64_t id = std::uint64_t{1} << 32;
  struct Part {
    std::uint64_t offset;
    std::size_t bytes;
    bool sound;
  };
  for (const Part& part : {Part{0, 60, true}, Part{50, 10, false}, Part{150, 10, false},
                           Part{100, 51, false}, Part{100, 0, false}, Part{100, 50, true}}) {
    Stranger stranger;
    std::vector<std::byte> room(200, std::byte{9});
    MailRequest request;
    stranger.desks.core(1).receive(request, {kTalk, {0}}, {room.data(), 150});
    stranger.say(MailKind::kAnnounce, bytes_of(MailAnnounce{77, 1000, 0}));
    Bytes first = bytes_of(MailPart{id, 0});
    first.resize(first.size() + 100);
    if (part.offset > 0) stranger.say(MailKind::kData, first);
    Bytes second = bytes_of(MailPart{id, part.offset});
    second.resize(second.size() + part.bytes);
    stranger.say(MailKind::kData, second);
    CHECK(stranger.verdict().empty() == part.sound);
    for (std::size_t i = 150; i < room.size(); ++i) CHECK(room[i] == std::byte{9});
    if (!part.sound) CHECK(request.result.outcome == MailOutcome::kFailed);
    stranger.desks.core(1).end({Code::kAborted, "the test ends"});
  }
}

TEST_CASE("a rank that is refused is awaited no more, over links or through rings") {
  Talk talk({3, {}, true});
  CHECK(talk.desks.ways(1).all_ringed());
  // Behind its hello and its switch.
  talk.desks.ways(1).hear({0}, link_frame(3, {MailKind::kTake, {}, 0, 0}, {}));
  CHECK(talk.desks.core(1).gone({0}).code() == Code::kProtocolError);
  CHECK(talk.desks.ways(1).all_ringed());
}

TEST_CASE(
    "an address is only read where memory is shared, and a failed read asks for the payload") {
  Stranger stranger;
  const auto taken = receive(stranger.desks, {.source = {0}});
  stranger.say(MailKind::kAnnounce, bytes_of(MailAnnounce{77, 8, 0xdead'0000}));
  CHECK(!taken->request.is_done());
  CHECK(stranger.verdict().empty());
  stranger.desks.core(1).end({Code::kAborted, "the test ends"});
}

}  // namespace holdfast::testing

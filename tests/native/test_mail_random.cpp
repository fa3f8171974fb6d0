// Random messages between mailboxes against plain lists: no overtaking, wildcards, truncation,
// probes, matched probes, cancels and synchronous sends, over links that delay and break, and over
// shared memory that does more or less.
#include <algorithm>
#include <random>

#include "mail_desks.h"
#include "plain_matcher.h"

namespace holdfast::testing {
namespace {

using namespace comm;

constexpr int kRanks = 3;
constexpr std::uint32_t kContexts = 2;
constexpr int kTags = 4;
constexpr int kMost = 300'000;  // bytes of a message: several frames

struct SentMail {
  int from = 0;
  int to = 0;
  MailSend what;
  std::vector<std::byte> bytes;
  std::unique_ptr<BytesSource> source;  // null: the bytes lie there
  MailRequest request;
  bool matched = false;
  bool cancelled = false;
};

struct ReceivedMail {
  int rank = 0;
  int message = -1;  // that the lists say
  std::vector<std::byte> room;
  std::unique_ptr<BytesSink> sink;  // null: the room
  MailRequest request;
  bool cancelled = false;
};

struct FoundMail {
  int rank = 0;
  int message = 0;
  KeptMail* mail = nullptr;
};

// Small, so that a run meets them: credit for a few messages, most of which are announced.
constexpr MailLimits kTight{4096, 12, 700};

struct RandomOptions {
  unsigned seed = 0;
  // Which message is first of several sources' depends on when frames are taken from memory, which
  // the lists do not see: no receive from any source, no cancel, and a message is in the lists as
  // soon as it was sent. What a receive takes that names its source depends on no time.
  bool one_host = false;
};

class RandomMail {
 public:
  explicit RandomMail(const RandomOptions& options)
      : one_host_(options.one_host),
        random_(options.seed),
        desks_({kRanks, options.seed % 3 == 0 ? MailLimits{} : kTight, options.one_host}) {
    desks_.host.may_make = below(8) != 0;
    desks_.host.may_open = below(8) != 0;
    desks_.host.may_reach = below(4) != 0;
    if (below(3) == 0) desks_.host.reads = below(20);
    desks_.on_frame = [&](int from, int to, const auto& frame) { see(from, to, frame); };
    for (std::uint32_t c = 0; c < kContexts; ++c) desks_.open({c});
    desks_.greet();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      check_sends();
    }
    drain();
    compare();
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int in) { return below(in) == 0; }
  PlainMatcher& plain(int rank) { return plain_[static_cast<std::size_t>(rank)]; }
  std::deque<int>& under_way(int from, int to) {
    return under_way_[static_cast<std::size_t>(from * kRanks + to)];
  }
  SentMail& sent(int id) { return *sent_[static_cast<std::size_t>(id)]; }

  void step() {
    const int rank = below(kRanks);
    const int other = (rank + 1 + below(kRanks - 1)) % kRanks;
    switch (below(16)) {
      case 0:
      case 1:
      case 2: return send(rank, chance(6) ? rank : other);
      case 3:
      case 4:
      case 5: return receive(rank, pattern());
      case 6: return probe(rank, pattern(), false);
      case 7: return probe(rank, pattern(), true);
      case 8: return receive_found();
      case 9: return one_host_ ? attend(rank, other) : cancel();
      case 10: return toggle_link(rank, other);
      case 11:
      case 12: return static_cast<void>(desks_.progress(rank));
      default: return static_cast<void>(desks_.deliver(rank, other));
    }
  }

  MailPattern pattern() {
    MailPattern p;
    p.context = {static_cast<std::uint32_t>(below(kContexts))};
    p.source = !one_host_ && chance(3) ? kAnyMailSource : Rank{below(kRanks)};
    p.tag = chance(3) ? kAnyTag : below(kTags);
    return p;
  }
  std::size_t size() {
    if (chance(20)) return static_cast<std::size_t>(below(kMost));
    return static_cast<std::size_t>(chance(3) ? below(2000) : below(80));
  }

  void send(int from, int to) {
    const int id = static_cast<int>(sent_.size());
    SentMail& mail = *sent_.emplace_back(std::make_unique<SentMail>());
    mail.from = from;
    mail.to = to;
    mail.bytes = pattern_bytes(static_cast<std::uint64_t>(id), size());
    mail.what = {{static_cast<std::uint32_t>(below(kContexts))},
                 {to},
                 below(kTags),
                 chance(3) ? SendMode::kSynchronous : SendMode::kStandard,
                 {mail.bytes.data(), mail.bytes.size()}};
    if (chance(3)) {
      mail.source = std::make_unique<BytesSource>(mail.bytes);
      mail.what.payload = {nullptr, 0, mail.source.get()};
    }
    active_.push_back(id);
    desks_.core(from).send(mail.request, mail.what);
    from == to || one_host_ ? arrive(id) : under_way(from, to).push_back(id);
    desks_.post(from);
  }

  // A frame reaches a rank: if it has a message, that is the first one that is on its way.
  void see(int from, int to, const MailDesks::Frame& frame) {
    constexpr std::size_t kFront = 16;
    std::uint64_t number = 0;
    std::memcpy(&number, frame.data(), sizeof number);
    std::uint64_t& heard = heard_[static_cast<std::size_t>(from * kRanks + to)];
    if (one_host_ || number != heard + 1) return;
    ++heard;
    const auto header =
        parse_mail_header(std::span(frame).subspan(kFront).first<kMailHeaderBytes>());
    REQUIRE(header.is_ok());
    const MailKind kind = header.value().kind;
    if (kind != MailKind::kEager && kind != MailKind::kEagerSync && kind != MailKind::kAnnounce) {
      return;
    }
    REQUIRE(!under_way(from, to).empty());
    const int id = under_way(from, to).front();
    under_way(from, to).pop_front();
    REQUIRE(header.value().context == sent(id).what.context);
    REQUIRE(header.value().tag == sent(id).what.tag);
    arrive(id);
  }
  void arrive(int id) {
    SentMail& mail = sent(id);
    const int by = plain(mail.to).arrive({id, mail.what.context, {mail.from}, mail.what.tag});
    if (by >= 0) match(by, id);
  }
  void match(int receive, int message) {
    received_[static_cast<std::size_t>(receive)]->message = message;
    sent(message).matched = true;
  }

  int make_receive(int rank) {
    ReceivedMail& mail = *received_.emplace_back(std::make_unique<ReceivedMail>());
    mail.rank = rank;
    const std::size_t room =
        chance(4) ? size() : static_cast<std::size_t>(chance(8) ? kMost : 2000);
    if (chance(3)) {
      mail.sink = std::make_unique<BytesSink>(room);
    } else {
      mail.room.resize(room);
    }
    return static_cast<int>(received_.size()) - 1;
  }
  static MailRoom room_of(ReceivedMail& mail) {
    if (mail.sink) return {nullptr, 0, mail.sink.get()};
    return {mail.room.data(), mail.room.size()};
  }
  void receive(int rank, const MailPattern& what) {
    const int id = make_receive(rank);
    ReceivedMail& mail = *received_.back();
    if (const int message = plain(rank).post({id, what}); message >= 0) match(id, message);
    desks_.core(rank).receive(mail.request, what, room_of(mail));
    desks_.post(rank);
  }

  void probe(int rank, const MailPattern& what, bool take) {
    const auto found = desks_.core(rank).probe(what, take);
    REQUIRE(found.is_ok());
    // What was sent over shared memory may not have been seen.
    if (one_host_ && found.value() == nullptr) return;
    const int message = plain(rank).probe(what, take);
    REQUIRE((found.value() != nullptr) == (message >= 0));
    if (message < 0) return;
    const MailEnvelope& envelope = found.value()->envelope;
    REQUIRE(envelope.source == Rank{sent(message).from});
    REQUIRE(envelope.tag == sent(message).what.tag);
    REQUIRE(envelope.bytes == sent(message).bytes.size());
    if (take) found_.push_back({rank, message, found.value()});
  }
  void receive_found() {
    if (found_.empty()) return;
    const auto at = found_.begin() + below(static_cast<int>(found_.size()));
    const FoundMail found = *at;
    found_.erase(at);
    const int id = make_receive(found.rank);
    match(id, found.message);
    ReceivedMail& mail = *received_.back();
    desks_.core(found.rank).receive_matched(mail.request, *found.mail, room_of(mail));
    desks_.post(found.rank);
  }

  void cancel() {
    if (chance(2) && !received_.empty()) {
      const int id = below(static_cast<int>(received_.size()));
      cancel_receive(id);
    } else if (!sent_.empty()) {
      cancel_send(below(static_cast<int>(sent_.size())));
    }
  }
  void cancel_receive(int id) {
    ReceivedMail& mail = *received_[static_cast<std::size_t>(id)];
    if (mail.cancelled) return;
    const bool waits = mail.message < 0;
    REQUIRE(desks_.core(mail.rank).cancel(mail.request) == waits);
    if (!waits) return;
    plain(mail.rank).cancel(id);
    mail.cancelled = true;
  }
  // A send may be cancelled that has not left, or that waits at its own rank.
  void cancel_send(int id) {
    SentMail& mail = sent(id);
    if (mail.cancelled || !desks_.core(mail.from).cancel(mail.request)) return;
    REQUIRE(!mail.matched);
    mail.cancelled = true;
    if (mail.from == mail.to) return plain(mail.to).withdraw(id);
    std::deque<int>& line = under_way(mail.from, mail.to);
    const auto at = std::find(line.begin(), line.end(), id);
    REQUIRE(at != line.end());
    line.erase(at);
  }

  // A thread of the rank begins to wait for its sends, or has ended.
  void attend(int rank, int other) {
    bool& attends = attends_[static_cast<std::size_t>(rank * kRanks + other)];
    attends = !attends;
    desks_.ways(rank).attend({other}, attends);
  }

  // A link breaks, or one of its ends has a new connection.
  void toggle_link(int rank, int other) {
    if (!desks_.is_up(rank, other)) return desks_.relink(rank, other);
    if (desks_.is_up(other, rank) && chance(3)) desks_.cut(rank, other);
  }

  void check_sends() {
    std::erase_if(active_, [&](int id) {
      const SentMail& mail = sent(id);
      if (!mail.request.is_done()) return false;
      if (mail.cancelled) return true;
      REQUIRE(mail.request.result.outcome == MailOutcome::kOk);
      if (mail.what.mode == SendMode::kSynchronous) REQUIRE(mail.matched);
      return true;
    });
  }

  // All that was sent is received at last.
  void drain() {
    for (int a = 0; a < kRanks; ++a) {
      for (int b = 0; b < kRanks; ++b) {
        if (a != b && !desks_.is_up(a, b)) desks_.relink(a, b);
      }
    }
    while (!found_.empty()) receive_found();
    bool more = true;
    for (int round = 0; more; ++round) {
      REQUIRE(round < 1000);
      REQUIRE(desks_.settle());
      more = false;
      for (int rank = 0; rank < kRanks; ++rank) {
        for (std::uint32_t c = 0; c < kContexts; ++c) {
          for (int source = 0; source < kRanks; ++source) {
            const MailPattern what{{c}, {source}, kAnyTag};
            const auto found = desks_.core(rank).probe(what, false);
            REQUIRE(found.is_ok());
            if (found.value() == nullptr) continue;
            receive(rank, what);
            more = true;
          }
        }
      }
    }
  }

  void compare() {
    for (const auto& mail : sent_) {
      REQUIRE(mail->request.is_done());
      REQUIRE(mail->matched != mail->cancelled);
    }
    for (std::size_t id = 0; id < received_.size(); ++id) {
      ReceivedMail& mail = *received_[id];
      if (mail.message < 0) {
        cancel_receive(static_cast<int>(id));
        REQUIRE(mail.request.result.outcome == MailOutcome::kCancelled);
        continue;
      }
      REQUIRE(mail.request.is_done());
      compare_bytes(mail, sent(mail.message));
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(desks_.core(rank).backlog().messages == 0);
      REQUIRE(plain(rank).messages.empty());
      REQUIRE(plain(rank).receives.empty());
    }
  }
  static void compare_bytes(ReceivedMail& mail, const SentMail& message) {
    const MailResult& result = mail.request.result;
    const std::size_t room = mail.sink ? mail.sink->capacity() : mail.room.size();
    const std::size_t bytes = std::min(room, message.bytes.size());
    REQUIRE(result.source == Rank{message.from});
    REQUIRE(result.tag == message.what.tag);
    REQUIRE(result.bytes == bytes);
    REQUIRE((result.outcome == MailOutcome::kTruncated) == (message.bytes.size() > room));
    const std::vector<std::byte>& got = mail.sink ? mail.sink->taken : mail.room;
    REQUIRE(got.size() >= bytes);
    REQUIRE(std::equal(message.bytes.begin(),
                       message.bytes.begin() + static_cast<std::ptrdiff_t>(bytes), got.begin()));
  }

  const bool one_host_;
  std::mt19937 random_;
  std::array<PlainMatcher, kRanks> plain_;
  std::array<std::deque<int>, kRanks * kRanks> under_way_;  // sent, and not seen
  std::array<std::uint64_t, kRanks * kRanks> heard_{};
  std::array<bool, kRanks * kRanks> attends_{};
  std::vector<std::unique_ptr<SentMail>> sent_;
  std::vector<int> active_;  // sent, and not done when it was looked at
  std::vector<std::unique_ptr<ReceivedMail>> received_;
  std::vector<FoundMail> found_;
  MailDesks desks_;  // ends what still waits, so it goes first
};

}  // namespace

TEST_CASE("random messages over links that delay and break are matched as plain lists do it") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    RandomMail({seed, false}).run(500);
  }
}

TEST_CASE("random messages over shared memory, where there is any, are matched as plain lists") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomMail({seed, true}).run(500);
  }
}

}  // namespace holdfast::testing

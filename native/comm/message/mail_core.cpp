#include "comm/message/mail_core.h"

#include <algorithm>
#include <array>
#include <string>

namespace holdfast::comm {
namespace {

// From a packed source to a packed room, in parts that stay in the first levels of the cache.
constexpr std::size_t kHereBytes = 32 * 1024;

std::string text(Rank rank) { return std::to_string(rank.value); }
std::string text(ContextId context) { return std::to_string(context.value); }

}  // namespace

MailCore::MailCore(Rank self, int size, const MailLimits& limits)
    : self_(self), limits_(limits), seats_(static_cast<std::size_t>(size)) {}

MailCore::~MailCore() {
  end({Code::kAborted, "the mailbox has gone"});
  while (MailArrival* mail = matcher_.first_kept()) {
    matcher_.remove(*mail);
    pool_.give(static_cast<KeptMail&>(*mail));
  }
  while (!taken_.empty()) pool_.give(static_cast<KeptMail&>(taken_.pop(Matcher::kAllKept)));
}

MailCore::MailContext* MailCore::find_context(ContextId context) {
  if (last_ != nullptr && last_id_ == context.value) return last_;
  const auto found = contexts_.find(context.value);
  if (found == contexts_.end()) return nullptr;
  last_id_ = context.value;
  return last_ = &found->second;
}

Status MailCore::open(ContextId context, std::span<const Rank> members) {
  MailContext made;
  made.members.resize(seats_.size());
  for (const Rank rank : members) {
    if (rank.value < 0 || rank.value >= size()) {
      return {Code::kConfigError, "mailbox: context " + text(context) + " with member " +
                                      text(rank) + "; accepted: 0 to " +
                                      std::to_string(size() - 1)};
    }
    made.members[static_cast<std::size_t>(rank.value)] = true;
  }
  for (std::int32_t r = 0; r < size(); ++r) {
    if (!made.members[static_cast<std::size_t>(r)] || Rank{r} == self_) continue;
    ++made.others;
    if (gone({r}).is_ok()) continue;
    ++made.left;
    if (seats_[static_cast<std::size_t>(r)].died) made.died = Rank{r};
  }
  if (!contexts_.emplace(context.value, std::move(made)).second) {
    return {Code::kConfigError, "mailbox: context " + text(context) + " is open already"};
  }
  return Status::ok();
}

void MailCore::close(ContextId context) {
  for (MailRequest* receive = matcher_.first_posted(); receive != nullptr;) {
    MailRequest& posted = *receive;
    receive = posted.lists[Matcher::kAllPosted].next;
    if (posted.pattern.context == context) cancel(posted);
  }
  for (MailArrival* arrival = matcher_.first_kept(); arrival != nullptr;) {
    auto& mail = static_cast<KeptMail&>(*arrival);
    arrival = mail.lists[Matcher::kAllKept].next;
    if (mail.context != context) continue;
    matcher_.remove(mail);
    discard(mail);
  }
  if (last_id_ == context.value) last_ = nullptr;
  contexts_.erase(context.value);
}

// Nobody will receive the message.
void MailCore::discard(KeptMail& mail) {
  if (mail.from != nullptr) mail.from->drop(mail);
  if (mail.from == nullptr) kept_here_ -= mail.cost;
  MailRequest* local = mail.local;
  pool_.give(mail);
  if (local == nullptr) return;
  local->kept = nullptr;
  local->moved = local->bytes;
  complete(*local);
}

void MailCore::begin(MailRequest& request, MailRequest::Kind kind) {
  CHECK(request.state.load(std::memory_order_relaxed) != MailRequest::State::kActive);
  request.kind = kind;
  request.result.outcome = MailOutcome::kOk;
  if (!request.result.status.is_ok()) request.result.status = Status::ok();
  request.linked = false;
  request.bytes = request.wanted = request.moved = 0;
  request.id = request.their_id = request.address = 0;
  request.kept = nullptr;
  // relaxed: the caller's own thread looks at it, or one that it tells
  request.state.store(MailRequest::State::kActive, std::memory_order_relaxed);
}

void MailCore::complete(MailRequest& request) {
  MailResult& result = request.result;
  result.bytes = request.moved;
  if (request.kind == MailRequest::Kind::kRecv && request.bytes > request.wanted) {
    result.outcome = MailOutcome::kTruncated;
    result.status = {Code::kConfigError,
                     "receive: the message from rank " + text(result.source) + " with tag " +
                         std::to_string(result.tag) + " has " + std::to_string(request.bytes) +
                         " bytes, and there is room for " + std::to_string(request.wanted)};
  }
  ++completions_;
  request.state.store(MailRequest::State::kDone, std::memory_order_release);
}

void MailCore::fail(MailRequest& request, const Status& why) {
  request.result.outcome = MailOutcome::kFailed;
  request.result.status = why;
  request.result.bytes = request.moved;
  ++completions_;
  request.state.store(MailRequest::State::kDone, std::memory_order_release);
}

Status MailCore::check_send(const MailSend& message) {
  MailContext* context = find_context(message.context);
  if (context == nullptr) {
    return {Code::kConfigError, "send: context " + text(message.context) + " is not open"};
  }
  if (!is_member(*context, message.dest)) {
    return {Code::kConfigError, "send: rank " + text(message.dest) + " is no member of context " +
                                    text(message.context)};
  }
  if (message.tag < 0) {
    return {Code::kConfigError,
            "send: tag " + std::to_string(message.tag) + "; accepted: 0 or more"};
  }
  if (message.payload.size() > kMaxMessageBytes) {
    return {Code::kConfigError, "send: " + std::to_string(message.payload.size()) +
                                    " bytes; accepted: at most " +
                                    std::to_string(kMaxMessageBytes)};
  }
  return ended_;
}

void MailCore::send(MailRequest& request, const MailSend& message) {
  begin(request, MailRequest::Kind::kSend);
  request.mode = message.mode;
  request.peer = message.dest;
  request.pattern = {message.context, self_, message.tag};
  request.payload = message.payload;
  request.result.source = self_;
  request.result.tag = message.tag;
  if (const Status wrong = check_send(message); !wrong.is_ok()) return fail(request, wrong);
  request.bytes = message.payload.size();
  if (message.dest == self_) return send_here(request);
  if (const Status& lost = gone(message.dest); !lost.is_ok()) return fail(request, lost);
  MailPeer* to = peer(message.dest);
  if (to == nullptr) {
    return fail(request, Status(Code::kPeerLost, "send: rank " + text(message.dest) + " is vacant")
                             .about({message.dest}, {}));
  }
  to->send(request);
}

void MailCore::send_here(MailRequest& request) {
  const MailEnvelope envelope{self_, request.pattern.tag, request.bytes};
  if (MailRequest* receive = match(request.pattern.context, envelope)) {
    return deliver_here(request, *receive);
  }
  KeptMail& mail = pool_.take();
  mail.context = request.pattern.context;
  mail.envelope = envelope;
  const std::uint64_t cost = request.bytes + kMailOverhead;
  const bool copies = request.mode != SendMode::kSynchronous && request.bytes <= limits_.eager &&
                      kept_here_ + cost <= limits_.bytes;
  if (copies) {
    mail.data.resize(request.bytes);
    read_mail(request.payload, 0, mail.data);
    mail.cost = cost;
    kept_here_ += cost;
  } else {
    mail.local = &request;
    request.kept = &mail;
  }
  keep(mail);
  if (!copies) return;
  request.moved = request.bytes;
  complete(request);
}

void MailCore::deliver_here(MailRequest& send, MailRequest& receive) {
  receive.result.source = self_;
  receive.result.tag = send.pattern.tag;
  receive.bytes = send.bytes;
  receive.wanted = std::min(send.bytes, receive.room.size());
  const MailPayload& from = send.payload;
  if (from.source == nullptr) {
    place_mail(receive.room, 0, {from.data, receive.wanted});
  } else if (receive.room.sink == nullptr) {
    read_mail(from, 0, {receive.room.data, receive.wanted});
  } else {
    std::array<std::byte, kHereBytes> part;
    for (std::uint64_t at = 0; at < receive.wanted;) {
      const std::uint64_t bytes = std::min<std::uint64_t>(receive.wanted - at, part.size());
      from.source->read(at, std::span(part).first(bytes));
      receive.room.sink->write(at, std::span(part).first(bytes));
      at += bytes;
    }
  }
  receive.moved = receive.wanted;
  send.moved = send.bytes;
  complete(receive);
  complete(send);
}

void MailCore::deliver(KeptMail& mail, MailRequest& request) {
  if (!mail.lost.is_ok()) {
    fail(request, mail.lost);
  } else if (mail.from != nullptr) {
    mail.from->deliver(mail, request);
  } else if (mail.local != nullptr) {
    mail.local->kept = nullptr;
    deliver_here(*mail.local, request);
  } else {
    kept_here_ -= mail.cost;
    request.result.source = mail.envelope.source;
    request.result.tag = mail.envelope.tag;
    request.bytes = mail.envelope.bytes;
    request.moved = request.wanted = std::min(request.bytes, request.room.size());
    place_mail(request.room, 0, std::span(mail.data).first(request.wanted));
    complete(request);
  }
  pool_.give(mail);
}

Status MailCore::check_pattern(const MailPattern& pattern) {
  MailContext* context = find_context(pattern.context);
  if (context == nullptr) {
    return {Code::kConfigError, "receive: context " + text(pattern.context) + " is not open"};
  }
  if (pattern.source != kAnyMailSource && !is_member(*context, pattern.source)) {
    return {Code::kConfigError, "receive: rank " + text(pattern.source) +
                                    " is no member of context " + text(pattern.context)};
  }
  if (pattern.tag < 0 && pattern.tag != kAnyTag) {
    return {Code::kConfigError, "receive: tag " + std::to_string(pattern.tag) +
                                    "; accepted: 0 or more, or any (" + std::to_string(kAnyTag) +
                                    ")"};
  }
  return Status::ok();
}

// Not ok: why no message of this pattern can come any more. The pattern was checked.
Status MailCore::hopeless(const MailPattern& pattern) {
  if (!ended_.is_ok()) return ended_;
  if (pattern.source == self_) return Status::ok();
  if (pattern.source != kAnyMailSource) {
    const Status& lost = gone(pattern.source);
    if (!lost.is_ok() || peer(pattern.source) != nullptr) return lost;
    return Status(Code::kPeerLost, "receive: rank " + text(pattern.source) + " is vacant")
        .about({pattern.source}, {});
  }
  const MailContext& context = *find_context(pattern.context);
  if (context.died) return gone(*context.died);
  if (context.others == 0 || context.left < context.others) return Status::ok();
  return {Code::kPeerLost,
          "receive: all other members of context " + text(pattern.context) + " have left"};
}

void MailCore::receive(MailRequest& request, const MailPattern& pattern, const MailRoom& room) {
  begin(request, MailRequest::Kind::kRecv);
  request.pattern = pattern;
  request.room = room;
  if (const Status wrong = check_pattern(pattern); !wrong.is_ok()) return fail(request, wrong);
  if (MailArrival* mail = matcher_.post(request)) {
    return deliver(static_cast<KeptMail&>(*mail), request);
  }
  const Status lost = hopeless(pattern);
  if (lost.is_ok()) return;
  matcher_.cancel(request);
  fail(request, lost);
}

void MailCore::receive_matched(MailRequest& request, KeptMail& mail, const MailRoom& room) {
  begin(request, MailRequest::Kind::kRecv);
  request.pattern = {mail.context, mail.envelope.source, mail.envelope.tag};
  request.room = room;
  taken_.remove(mail, Matcher::kAllKept);
  deliver(mail, request);
}

Result<KeptMail*> MailCore::probe(const MailPattern& pattern, bool take) {
  TRY(check_pattern(pattern));
  MailArrival* arrival = matcher_.find(pattern);
  if (arrival == nullptr) {
    TRY(hopeless(pattern));
    return static_cast<KeptMail*>(nullptr);
  }
  if (take) {
    matcher_.remove(*arrival);
    taken_.push(*arrival, Matcher::kAllKept);
    static_cast<KeptMail*>(arrival)->matched = true;
  }
  return static_cast<KeptMail*>(arrival);
}

bool MailCore::cancel(MailRequest& request) {
  if (request.is_done()) return false;
  if (request.kind == MailRequest::Kind::kRecv) {
    if (!request.linked) return false;
    matcher_.cancel(request);
  } else if (request.kept != nullptr) {
    auto& mail = static_cast<KeptMail&>(*request.kept);
    // One that a probe has taken out is as good as received.
    if (mail.matched) return false;
    matcher_.remove(mail);
    pool_.give(mail);
  } else if (peer(request.peer) == nullptr || !peer(request.peer)->cancel(request)) {
    return false;
  }
  request.result.outcome = MailOutcome::kCancelled;
  request.result.bytes = 0;
  ++completions_;
  request.state.store(MailRequest::State::kDone, std::memory_order_release);
  return true;
}

Mailbox::Backlog MailCore::backlog() const {
  Mailbox::Backlog all;
  for (const MailArrival* mail = matcher_.first_kept(); mail != nullptr;) {
    ++all.messages;
    all.bytes += static_cast<const KeptMail*>(mail)->data.size();
    mail = mail->lists[Matcher::kAllKept].next;
  }
  return all;
}

void MailCore::hear(Rank rank, const MailHeader& header, std::span<const std::byte> payload) {
  MailPeer* from = peer(rank);
  if (from == nullptr || !gone(rank).is_ok() || !ended_.is_ok()) return;
  if (const Status sound = from->hear(header, payload); !sound.is_ok()) {
    on_gone(rank, true, Status(sound.code(), "rank " + text(rank) + ": " + sound.message()));
  }
}

bool MailCore::has_work() const {
  return std::any_of(seats_.begin(), seats_.end(), [](const MailSeat& seat) {
    return seat.peer != nullptr && seat.peer->has_work();
  });
}

bool MailCore::progress() {
  bool moved = false;
  for (MailSeat& seat : seats_) {
    if (seat.peer != nullptr && seat.peer->has_work()) moved = seat.peer->progress() || moved;
  }
  return moved;
}

}  // namespace holdfast::comm

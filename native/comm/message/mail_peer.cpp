#include "comm/message/mail_peer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace holdfast::comm {
namespace {

// Read from a peer's memory before others have their turn: a tenth of a millisecond's work.
constexpr std::uint64_t kPullBytes = 1 << 20;
Status bad_mail(const std::string& what) { return {Code::kProtocolError, "broken peer: " + what}; }

template <class Part>
std::byte* put(std::byte* to, const Part& part) {
  std::memcpy(to, &part, sizeof part);
  return to + sizeof part;
}

std::uint32_t narrow(std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes); }

// A message has been matched: what the receive will say of it.
void begin_receive(MailRequest& request, const MailEnvelope& envelope) {
  request.peer = envelope.source;
  request.result.source = envelope.source;
  request.result.tag = envelope.tag;
  request.bytes = envelope.bytes;
  request.wanted = std::min(envelope.bytes, request.room.size());
  request.moved = 0;
}

void receive_whole(MailRequest& request, const MailEnvelope& envelope,
                   std::span<const std::byte> bytes) {
  begin_receive(request, envelope);
  place_mail(request.room, 0, bytes.first(request.wanted));
  request.moved = request.wanted;
}

}  // namespace

void MailPeer::send(MailRequest& request) {
  if (waiting_.empty() && leave(request)) return;
  request.linked = true;
  waiting_.push(request, 0);
}

bool MailPeer::cancel(MailRequest& request) {
  const bool waits = request.linked;
  unlink(request);
  return waits;
}

// False: it has to wait.
bool MailPeer::leave(MailRequest& request) {
  if (lane_ == nullptr || credit_.messages == 0) return false;
  const bool whole = request.bytes <= limits_.eager &&
                     request.bytes + sizeof(MailId) <= lane_->most_payload() &&
                     request.bytes + kMailOverhead <= credit_.bytes;
  return whole ? leave_whole(request) : announce(request);
}

bool MailPeer::leave_whole(MailRequest& request) {
  const bool sync = request.mode == SendMode::kSynchronous;
  const std::uint64_t front = sync ? sizeof(MailId) : 0;
  std::byte* to =
      lane_->begin({sync ? MailKind::kEagerSync : MailKind::kEager, request.pattern.context,
                    request.pattern.tag, narrow(front + request.bytes)});
  if (to == nullptr) return false;
  if (sync) {
    request.id = slots_.add(request);
    to = put(to, MailId{request.id});
  }
  read_mail(request.payload, 0, {to, request.bytes});
  lane_->commit();
  if (meter_ != nullptr) meter_->sent.add(request.bytes);
  credit_.bytes -= request.bytes + kMailOverhead;
  --credit_.messages;
  request.moved = request.bytes;
  unlink(request);
  if (!sync) host_.complete(request);
  return true;
}

// A request that is done belongs to its caller again, so it leaves all lists first.
void MailPeer::unlink(MailRequest& request) {
  if (!request.linked) return;
  waiting_.remove(request, 0);
  request.linked = false;
}

bool MailPeer::announce(MailRequest& request) {
  std::byte* to = lane_->begin(
      {MailKind::kAnnounce, request.pattern.context, request.pattern.tag, sizeof(MailAnnounce)});
  if (to == nullptr) return false;
  request.id = slots_.add(request);
  const bool lies = request.payload.source == nullptr;
  put(to, MailAnnounce{request.id, request.bytes,
                       lies ? reinterpret_cast<std::uintptr_t>(request.payload.data) : 0});
  lane_->commit();
  if (meter_ != nullptr) meter_->sent.add(request.bytes);
  --credit_.messages;
  unlink(request);
  return true;
}

bool MailPeer::progress() {
  bool moved = pull();
  if (lane_ == nullptr) return moved;
  moved = write_replies() || moved;
  while (!waiting_.empty() && leave(*waiting_.first)) moved = true;
  while (!streams_.empty() && write_stream()) moved = true;
  return moved;
}

bool MailPeer::write_replies() {
  bool moved = false;
  while (!replies_.empty()) {
    const MailReply& next = replies_.front();
    std::byte* to = nullptr;
    if (next.kind == MailKind::kTake) {
      to = lane_->begin({next.kind, {}, 0, sizeof(MailTake)});
      if (to != nullptr) put(to, next.take);
    } else if (next.kind == MailKind::kDone) {
      to = lane_->begin({next.kind, {}, 0, sizeof(MailId)});
      if (to != nullptr) put(to, MailId{next.take.id});
    } else {
      to = lane_->begin({next.kind, {}, 0, sizeof(MailAmount)});
      if (to != nullptr) put(to, next.amount);
    }
    if (to == nullptr) return moved;
    lane_->commit();
    replies_.pop_front();
    moved = true;
  }
  return moved;
}

void MailPeer::reply(const MailReply& reply) {
  replies_.push_back(reply);
  if (lane_ != nullptr) write_replies();
}

// Writes a part of the payload that was asked for first; whether there was room.
bool MailPeer::write_stream() {
  MailRequest& request = *streams_.first;
  const std::uint64_t most = lane_->part_payload() - sizeof(MailPart);
  const std::uint64_t part = std::min(request.wanted - request.moved, most);
  std::byte* to = lane_->begin({MailKind::kData, {}, 0, narrow(sizeof(MailPart) + part)});
  if (to == nullptr) return false;
  to = put(to, MailPart{request.their_id, request.moved});
  read_mail(request.payload, request.moved, {to, part});
  lane_->commit();
  request.moved += part;
  if (request.moved < request.wanted) return true;
  streams_.pop(0);
  slots_.remove(request.id);
  // All of it is sent, even if there was room for less.
  request.moved = request.bytes;
  host_.complete(request);
  return true;
}

Status MailPeer::hear(const MailHeader& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case MailKind::kEager:
    case MailKind::kEagerSync: return hear_whole(header, payload);
    case MailKind::kAnnounce: return hear_announce(header, payload);
    case MailKind::kTake: return hear_take(payload);
    case MailKind::kData: return hear_data(payload);
    case MailKind::kDone: return hear_done(payload);
    case MailKind::kCredit: return hear_credit(payload);
    case MailKind::kHello:
    case MailKind::kSwitch: break;
  }
  return bad_mail("a mail frame out of place");
}

Status MailPeer::hear_whole(const MailHeader& header, std::span<const std::byte> payload) {
  std::uint64_t id = 0;
  if (header.kind == MailKind::kEagerSync) {
    const auto named = take_part<MailId>(payload);
    if (!named || named->id == 0) return bad_mail("a message without its number");
    id = named->id;
  }
  const MailEnvelope envelope{rank_, header.tag, payload.size()};
  if (meter_ != nullptr) meter_->received.add(envelope.bytes);
  const std::uint64_t cost = payload.size() + kMailOverhead;
  if (MailRequest* request = host_.match(header.context, envelope)) {
    receive_whole(*request, envelope, payload);
    if (id != 0) reply({MailKind::kDone, {id}, {}});
    settle(cost);
    host_.complete(*request);
    return Status::ok();
  }
  if (kept_.bytes + cost > limits_.bytes || kept_.messages >= limits_.messages) {
    return bad_mail("more messages than its credit of " + std::to_string(limits_.bytes) + " bytes");
  }
  kept_.bytes += cost;
  ++kept_.messages;
  KeptMail& mail = host_.new_mail();
  mail.from = this;
  mail.context = header.context;
  mail.envelope = envelope;
  mail.data.assign(payload.begin(), payload.end());
  mail.id = id;
  mail.cost = cost;
  host_.keep(mail);
  return Status::ok();
}

Status MailPeer::hear_announce(const MailHeader& header, std::span<const std::byte> payload) {
  const auto said = take_part<MailAnnounce>(payload);
  if (!said || said->id == 0 || said->bytes > kMaxMessageBytes) {
    return bad_mail("an announcement of a message that cannot be");
  }
  const MailEnvelope envelope{rank_, header.tag, said->bytes};
  if (meter_ != nullptr) meter_->received.add(envelope.bytes);
  if (MailRequest* request = host_.match(header.context, envelope)) {
    begin_receive(*request, envelope);
    request->their_id = said->id;
    request->address = said->address;
    settle(0);
    fetch(*request);
    return Status::ok();
  }
  if (kept_.messages >= limits_.messages) {
    return bad_mail("more messages than its credit of " + std::to_string(limits_.messages));
  }
  ++kept_.messages;
  KeptMail& mail = host_.new_mail();
  mail.from = this;
  mail.context = header.context;
  mail.envelope = envelope;
  mail.announced = true;
  mail.id = said->id;
  mail.address = said->address;
  host_.keep(mail);
  return Status::ok();
}

void MailPeer::deliver(KeptMail& mail, MailRequest& request) {
  kept_.bytes -= mail.cost;
  --kept_.messages;
  settle(mail.cost);
  if (mail.announced) {
    begin_receive(request, mail.envelope);
    request.their_id = mail.id;
    request.address = mail.address;
    fetch(request);
    return;
  }
  receive_whole(request, mail.envelope, mail.data);
  if (mail.id != 0) reply({MailKind::kDone, {mail.id}, {}});
  host_.complete(request);
}

void MailPeer::drop(const KeptMail& mail) {
  kept_.bytes -= mail.cost;
  --kept_.messages;
  settle(mail.cost);
  if (mail.id != 0) reply({MailKind::kDone, {mail.id}, {}});
}

// Gets the payload of a message that was announced.
void MailPeer::fetch(MailRequest& request) {
  if (request.wanted == 0) {
    reply({MailKind::kDone, {request.their_id}, {}});
    host_.complete(request);
    return;
  }
  request.id = slots_.add(request);
  if (request.address != 0 && memory_ != nullptr) {
    pulls_.push(request, 0);
    pull();
  } else {
    ask(request);
  }
}

void MailPeer::ask(MailRequest& request) {
  request.address = 0;
  reply({MailKind::kTake, {request.their_id, request.id, request.moved, request.wanted}, {}});
}

// Reads a part of what lies in the peer's memory, or asks for it; whether it did anything.
bool MailPeer::pull() {
  std::uint64_t left = kPullBytes;
  bool moved = false;
  while (!pulls_.empty() && left > 0) {
    MailRequest& request = *pulls_.first;
    moved = true;
    const std::uint64_t before = request.moved;
    if ((attends_ && attends_()) || !pull_part(request, left)) {
      ask(pulls_.pop(0));
      continue;
    }
    left -= request.moved - before;
    if (request.moved < request.wanted) continue;
    pulls_.pop(0);
    slots_.remove(request.id);
    reply({MailKind::kDone, {request.their_id}, {}});
    host_.complete(request);
  }
  return moved;
}

// False: the system stopped allowing it, or the process has gone, of which the owner will hear.
bool MailPeer::pull_part(MailRequest& request, std::uint64_t most) {
  if (memory_ == nullptr) return false;
  const std::uint64_t part = std::min(request.wanted - request.moved, most);
  const std::uint64_t read =
      pull_mail(*memory_, request.address, request.moved, part, request.room);
  request.moved += read;
  if (read < part) memory_ = nullptr;
  return read == part;
}

Status MailPeer::hear_take(std::span<const std::byte> payload) {
  const auto take = take_part<MailTake>(payload);
  MailRequest* request = take ? slots_.find(take->id) : nullptr;
  const bool fits = request != nullptr && request->kind == MailRequest::Kind::kSend &&
                    request->their_id == 0 && request->moved == 0 && take->receiver_id != 0 &&
                    take->from < take->end && take->end <= request->bytes;
  if (!fits) return bad_mail("it takes a message that was not announced");
  request->their_id = take->receiver_id;
  request->moved = take->from;
  request->wanted = take->end;
  streams_.push(*request, 0);
  while (lane_ != nullptr && !streams_.empty() && write_stream()) {
  }
  return Status::ok();
}

Status MailPeer::hear_data(std::span<const std::byte> payload) {
  const auto part = take_part<MailPart>(payload);
  MailRequest* request = part ? slots_.find(part->receiver_id) : nullptr;
  const bool fits = request != nullptr && request->kind == MailRequest::Kind::kRecv &&
                    request->address == 0 && part->offset == request->moved && !payload.empty() &&
                    payload.size() <= request->wanted - request->moved;
  if (!fits) return bad_mail("a part of a message that was not asked for");
  place_mail(request->room, request->moved, payload);
  request->moved += payload.size();
  if (request->moved < request->wanted) return Status::ok();
  slots_.remove(request->id);
  host_.complete(*request);
  return Status::ok();
}

Status MailPeer::hear_done(std::span<const std::byte> payload) {
  const auto done = take_part<MailId>(payload);
  MailRequest* request = done ? slots_.find(done->id) : nullptr;
  if (request == nullptr || request->kind != MailRequest::Kind::kSend || request->their_id != 0) {
    return bad_mail("it has done with a message that was not sent");
  }
  slots_.remove(request->id);
  request->moved = request->bytes;
  host_.complete(*request);
  return Status::ok();
}

Status MailPeer::hear_credit(std::span<const std::byte> payload) {
  const auto amount = take_part<MailAmount>(payload);
  if (!amount || amount->bytes > limits_.bytes - credit_.bytes ||
      amount->messages > limits_.messages - credit_.messages) {
    return bad_mail("credit that was never spent");
  }
  credit_.bytes += amount->bytes;
  credit_.messages += amount->messages;
  return Status::ok();
}

// A message is kept no more; the sender is told in lumps.
void MailPeer::settle(std::uint64_t cost) {
  debt_.bytes += cost;
  ++debt_.messages;
  if (debt_.bytes < limits_.bytes / 4 && debt_.messages < limits_.messages / 4) return;
  reply({MailKind::kCredit, {}, std::exchange(debt_, {})});
}

void MailPeer::fail_all(const Status& why) {
  lane_ = nullptr;
  replies_.clear();
  streams_ = {};
  pulls_ = {};
  std::vector<MailRequest*> requests = slots_.take_all();
  for (MailRequest* request : requests) request->lists = {};
  while (!waiting_.empty()) {
    requests.push_back(waiting_.first);
    unlink(*waiting_.first);
  }
  for (MailRequest* request : requests) host_.fail(*request, why);
}

}  // namespace holdfast::comm

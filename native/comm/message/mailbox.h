// Mailbox: matched messages between the ranks of a world, as MPI means them: by context, source and
// tag, with wildcards, and without overtaking. What MPI knows beyond that (communicators' ranks,
// datatypes, buffered sends, error classes) is its caller's.
//
// Messages between two ranks of one context are matched in the order in which they were sent. A
// message larger than the room of its receive ends that receive as truncated, and is consumed. A
// small message goes at once and is kept by the receiver as far as the sender has credit; a larger
// one is announced, and its payload goes when a receive has taken it. A send is done when its
// memory may be used again.
//
// The loss of a rank fails, with kPeerLost and its number, all sends to it, all receives from it,
// and all receives from any source in contexts that it is a member of; such receives that are
// posted later fail, too, unless a message is here. What the lost rank had sent in full before is
// still received. When the world ends, all fail with its status.
//
// Thread: any, all at once. A call that waits lends its thread to progress.
// Why: docs/decisions/0136-messages-are-matched-in-a-mailbox.md
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/message/mail_request.h"

namespace holdfast::comm {

// A message that a matched probe has taken out of the queues: only receive_matched() can still have
// it. Empty: no message. It lives no longer than the mailbox.
class MatchedMail {
 public:
  MatchedMail() = default;
  MatchedMail(void* message, MailEnvelope envelope) : message_(message), envelope_(envelope) {}

  explicit operator bool() const { return message_ != nullptr; }
  const MailEnvelope& envelope() const { return envelope_; }
  void* message() const { return message_; }

 private:
  void* message_ = nullptr;
  MailEnvelope envelope_;
};

struct MailSend {
  ContextId context;
  Rank dest{};
  std::int32_t tag = 0;
  SendMode mode = SendMode::kStandard;
  MailPayload payload;
};

class Mailbox {
 public:
  virtual ~Mailbox() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Says which ranks of the world use the context here; what they have sent into it before is kept.
  // kConfigError: it is open already, or a rank is out of range.
  virtual Status open(ContextId context, std::span<const Rank> members) = 0;
  // Receives that are still posted end as cancelled, and messages that nobody has received go.
  virtual void close(ContextId context) = 0;

  // Starts a message. What is wrong with the call (a rank that is no member, a tag below 0, a
  // context that is not open) ends the request at once, as kFailed with kConfigError.
  virtual void send(MailRequest& request, const MailSend& message) = 0;
  virtual void receive(MailRequest& request, const MailPattern& pattern, const MailRoom& room) = 0;
  // `message` is empty afterwards.
  virtual void receive_matched(MailRequest& request, MatchedMail& message,
                               const MailRoom& room) = 0;

  // The envelope of the message that a receive of this pattern would take now. The error: no such
  // message can come any more.
  virtual Result<std::optional<MailEnvelope>> probe(const MailPattern& pattern) = 0;
  // As probe(), and takes the message out.
  virtual Result<MatchedMail> match(const MailPattern& pattern) = 0;
  // As these, and wait until there is one; nothing, or an empty one, when the time has passed.
  virtual Result<std::optional<MailEnvelope>> wait_probe(const MailPattern& pattern,
                                                         Duration timeout) = 0;
  virtual Result<MatchedMail> wait_match(const MailPattern& pattern, Duration timeout) = 0;

  // Ends the request as kCancelled if it has not been matched: a receive that is still posted, a
  // send that has not left. Whether it did. Otherwise the request ends as it would have.
  virtual bool cancel(MailRequest& request) = 0;

  // Makes progress without waiting; whether the request is done.
  virtual bool test(MailRequest& request) = 0;
  // Makes progress without waiting.
  virtual void poll() = 0;
  // Waits until the request is done: true, or until the time has passed.
  virtual bool wait(MailRequest& request, Duration timeout) = 0;
  // Null entries are skipped, as are idle requests. all: whether all are done in time.
  virtual bool wait_all(std::span<MailRequest* const> requests, Duration timeout) = 0;
  // The lowest index of one that is done; nothing when the time has passed.
  virtual std::optional<std::size_t> wait_any(std::span<MailRequest* const> requests,
                                              Duration timeout) = 0;

  // How much is here that nobody has asked for, for tests and pages.
  struct Backlog {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;  // of payload
  };
  virtual Backlog backlog() const = 0;
};

}  // namespace holdfast::comm

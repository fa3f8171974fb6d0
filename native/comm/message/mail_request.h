// Mail requests: what a caller of the mailbox asks for, a send or a receive, and how it ended.
//
// A request belongs to its caller. It is not copied, moved or destroyed while it is active; once it
// is done it may be used again. The mailbox links active requests into its own lists and allocates
// nothing for them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "comm/message/mail_list.h"

namespace holdfast::comm {

// Names the messages of one communicator; the mailbox's caller chooses it, alike on all ranks.
using ContextId = Strong<struct ContextIdTag, std::uint32_t>;

// As the source of a receive: any rank of the context.
inline constexpr Rank kAnyMailSource{-1};
// As the tag of a receive: any tag. Tags of messages are 0 or more.
inline constexpr std::int32_t kAnyTag = -1;

// A payload that is not contiguous: packs itself on demand. Called by whichever thread drives,
// possibly by several after one another, never by two at once, and not after the request is done.
// It must not call the mailbox.
class MailSource {
 public:
  virtual ~MailSource() = default;
  virtual std::uint64_t size() const = 0;
  virtual void read(std::uint64_t offset, std::span<std::byte> to) = 0;
};

// A receive buffer that is not contiguous; as MailSource. Offsets rise without gaps; bytes beyond
// the capacity are never written.
class MailSink {
 public:
  virtual ~MailSink() = default;
  virtual std::uint64_t capacity() const = 0;
  virtual void write(std::uint64_t offset, std::span<const std::byte> from) = 0;
};

// What is sent: contiguous memory, or a source.
struct MailPayload {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;       // of `data`; a source has its own size
  MailSource* source = nullptr;  // null: `data`

  std::uint64_t size() const { return source != nullptr ? source->size() : bytes; }
};

// Where a message goes: contiguous memory, or a sink.
struct MailRoom {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;   // of `data`; a sink has its own capacity
  MailSink* sink = nullptr;  // null: `data`

  std::uint64_t size() const { return sink != nullptr ? sink->capacity() : bytes; }
};

enum class SendMode : std::uint8_t {
  kStandard,
  kSynchronous,  // done no sooner than the message has been matched
  kReady,        // the caller knows that the receive is posted; as kStandard
};

// Which messages a receive takes.
struct MailPattern {
  ContextId context;
  Rank source = kAnyMailSource;
  std::int32_t tag = kAnyTag;

  bool takes(ContextId c, Rank from, std::int32_t t) const {
    return c == context && (source == kAnyMailSource || source == from) &&
           (tag == kAnyTag || tag == t);
  }
};

// What a message says of itself.
struct MailEnvelope {
  Rank source{};
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;
};

enum class MailOutcome : std::uint8_t {
  kOk,
  kTruncated,  // the message was larger than the room; `bytes` of it were delivered, it is consumed
  kCancelled,
  kFailed,  // `status` says why: kPeerLost, with the rank, or why the world has ended
};

struct MailResult {
  MailOutcome outcome = MailOutcome::kOk;
  // Of a receive: the message that came. Of a send: `source` is this rank.
  Rank source{};
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;  // delivered to the room, or sent
  Status status;            // ok, or the error: kConfigError where the message is truncated
};

struct MailArrival;

struct MailRequest {
  enum class State : std::uint8_t { kIdle, kActive, kDone };
  enum class Kind : std::uint8_t { kSend, kRecv };

  MailRequest() = default;
  MailRequest(const MailRequest&) = delete;
  MailRequest& operator=(const MailRequest&) = delete;

  // Any thread. The result may be read once it is done.
  bool is_done() const { return state.load(std::memory_order_acquire) == State::kDone; }

  // release by the mailbox when the result is there, acquire by who looks.
  std::atomic<State> state{State::kIdle};
  MailResult result;

  // All below: the mailbox's, under its lock.
  Kind kind = Kind::kSend;
  SendMode mode = SendMode::kStandard;
  bool linked = false;          // a receive that is posted, or a send that waits to leave
  Rank peer{};                  // the destination, or the source of what was matched
  MailPattern pattern;          // of a send: its context and tag
  MailPayload payload;          // of a send
  MailRoom room;                // of a receive
  std::uint64_t bytes = 0;      // of the message
  std::uint64_t wanted = 0;     // of those, how many go to the room
  std::uint64_t moved = 0;      // of those, how many have gone
  std::uint64_t id = 0;         // by which the other end answers; 0: it need not
  std::uint64_t their_id = 0;   // by which this end answers
  std::uint64_t address = 0;    // of the payload, in the sender's memory
  MailArrival* kept = nullptr;  // a send to this rank itself that nobody has received
  std::uint64_t order = 0;      // of posting
  // In the matcher: among receives of its pattern, among all. Elsewhere the first one alone: among
  // the sends that wait, or among the messages that are moving.
  std::array<MailLinks<MailRequest>, 2> lists;
};

}  // namespace holdfast::comm

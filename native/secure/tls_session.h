// One TLS 1.3 session as bytes in and bytes out: no socket and no clock. A transport feeds it what
// it receives, sends what is outgoing, and writes and reads what the session protects. It calls
// only the callbacks of its terms. OpenSSL shakes hands; what comes afterwards are records of ours.
// Why: docs/decisions/0153-a-token-is-a-derived-key.md,
// docs/decisions/0166-open-sessions-have-records-of-our-own.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "secure/proof.h"
#include "secure/records/tls_records.h"
#include "secure/tls_context.h"
#include "secure/tls_judge.h"

namespace holdfast::secure {

// The most bytes that a handshake may take: two certificates' worth. More is an attack or a
// mistake.
inline constexpr std::size_t kMaxHandshakeBytes = 32 << 10;

enum class TlsState : std::uint8_t {
  kHandshaking,
  kOpen,    // a client is, before the server has judged it: the first bytes it reads show that
  kClosed,  // by either side, on purpose
  kFailed,  // for the reason that `failure` tells
};

// What became of bytes that were fed.
struct TlsFed {
  std::size_t taken = 0;  // of them
  std::size_t read = 0;   // bytes of what was protected
};

// One thread at a time, for all functions.
class TlsSession {
 public:
  // Fails if the terms lack what the context's mode asks. A client's first bytes are outgoing then.
  static Result<TlsSession> client(const TlsContext& context, TlsTerms terms);
  static Result<TlsSession> server(const TlsContext& context, TlsTerms terms);
  ~TlsSession();
  TlsSession(TlsSession&& other) noexcept;
  TlsSession& operator=(TlsSession&& other) noexcept;

  // Takes what was received, cut anywhere. All that it protects is readable afterwards, so who
  // feeds pieces of a bounded size has bounded memory here. Ignored once the session is closed or
  // failed.
  void feed(std::span<const std::byte> bytes);
  // Reads to `to`: first what is readable, then what `bytes` protect, which goes there straight.
  // Takes no more of them than that needs, so the rest is to be fed again; less than a record may
  // be readable afterwards.
  TlsFed feed(std::span<const std::byte> bytes, std::span<std::byte> to);
  // Says that nothing more comes. Without the other side's farewell the session was cut off.
  void feed_end();

  // What is to be sent, in order, and how much of it was. There may be some in every state: an
  // alert of a failure, too.
  std::span<const std::byte> outgoing() const;
  void sent(std::size_t size);
  std::vector<std::byte> take_outgoing();

  // Protects all of `bytes`; only while open.
  Status write(std::span<const std::byte> bytes);

  // What was received, in order, also after the session's end; and how much of it is done with.
  std::span<const std::byte> readable() const;
  void consume(std::size_t size);
  // Copies, consumes and returns how many bytes there were.
  std::size_t read(std::span<std::byte> to);

  // Says farewell. What comes in afterwards is ignored.
  void close();

  TlsState state() const;
  // OK unless the state is kFailed. kAuthFailed: who is there was refused, by this side or the
  // other; kPeerLost: cut off; kProtocolError: damaged bytes, or no TLS 1.3.
  Status failure() const;
  TlsSide side() const;
  // While open and afterwards.
  const TlsPeer& peer() const;
  // The suite's name, for people; "" before the session is open.
  std::string suite() const;

  // Of an open session. The other side's proof holds for its side of this session.
  Result<Binding> binding() const;
  Result<Proof> prove(const Identity& identity) const;
  Status check_proof(std::span<const std::byte> proof, const Fingerprint& expected) const;

 private:
  struct Core;
  explicit TlsSession(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace holdfast::secure

// TLS seal: a TLS session over a connection's socket. The session itself knows no socket
// (secure/tls_session.h).
#pragma once

#include <memory>
#include <utility>

#include "comm/transport/stream_link.h"
#include "runtime/rendezvous/papers.h"
#include "secure/tls_session.h"

namespace holdfast::runtime {

// Thread: one at a time.
class TlsSeal final : public comm::Seal {
 public:
  // `papers`: what the two show each other in their greetings; null: nothing.
  explicit TlsSeal(secure::TlsSession session, std::unique_ptr<Papers> papers = nullptr)
      : session_(std::move(session)), papers_(std::move(papers)) {}

  // Moves the handshake on without blocking. True: the session is open. Not ok: it has failed, for
  // a reason that names no secret.
  Result<bool> shake_hands(int fd);

  ssize_t send(int fd, std::span<const iovec> parts) override;
  bool holds() const override { return !session_.outgoing().empty(); }
  bool flush(int fd) override;
  ssize_t receive(int fd, std::span<const iovec> parts) override;
  std::size_t arrived() const override { return session_.readable().size(); }
  // Once hands are shaken: puts this side's papers into its greeting, and looks at the other's.
  Status show_papers(Greeting& own);
  Status check_papers(const Greeting& theirs);
  CallerFacts facts() const { return papers_ ? papers_->facts() : CallerFacts{}; }
  // Why receive() or send() failed, if the session did.
  Status failure() const { return session_.failure(); }

 private:
  std::size_t take(std::span<const iovec> parts);
  ssize_t put(std::span<const iovec> parts);

  secure::TlsSession session_;
  std::unique_ptr<Papers> papers_;        // until both have greeted
  std::unique_ptr<std::byte[]> scratch_;  // what comes from the socket; made when first needed
};

}  // namespace holdfast::runtime

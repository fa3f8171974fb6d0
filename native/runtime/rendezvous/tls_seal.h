// TLS seal: a TLS session over a connection's socket. The session itself knows no socket
// (secure/tls_session.h).
#pragma once

#include <memory>
#include <utility>

#include "comm/transport/stream_link.h"
#include "runtime/rendezvous/papers.h"
#include "secure/digest.h"
#include "secure/tls_session.h"

namespace holdfast::runtime {

// Thread: one at a time.
class TlsSeal final : public comm::Seal {
 public:
  // `papers`: what the two show each other in their greetings.
  explicit TlsSeal(secure::TlsSession session,
                   std::unique_ptr<Papers> papers = std::make_unique<Papers>())
      : session_(std::move(session)), papers_(std::move(papers)) {}

  // Moves the handshake on without blocking. True: the session is open. Not ok: it has failed, for
  // a reason that names no secret, and that says what it means where this is the other side.
  Result<bool> shake_hands(int fd);

  ssize_t send(int fd, std::span<const iovec> parts) override;
  bool holds() const override { return !session_.outgoing().empty(); }
  bool flush(int fd) override;
  ssize_t receive(int fd, std::span<const iovec> parts) override;
  std::size_t arrived() const override { return session_.readable().size(); }
  // Once hands are shaken: puts this side's papers into its greeting, and looks at the other's.
  Status show_papers(Greeting& own);
  Status check_papers(const Greeting& theirs);
  // A key that only the two ends of this session know.
  Result<secure::Secret> export_key() const;
  // That who has the key of a trunk's first session is an end of this one, too.
  Result<secure::Secret> prove_lane(const secure::Secret& trunk) const;
  CallerFacts facts() const { return papers_->facts(); }
  // Why receive() or send() failed before the two have greeted, if the session did.
  Status failure() const {
    const Status why = session_.failure();
    return why.is_ok() ? why : papers_->explain(why, true);
  }

 private:
  std::size_t take(std::span<const iovec> parts);
  ssize_t look(int fd);

  secure::TlsSession session_;
  std::unique_ptr<Papers> papers_;
  std::unique_ptr<std::byte[]> scratch_;  // what comes from the socket; made when first needed
  std::span<const std::byte> unfed_{};    // of it
};

}  // namespace holdfast::runtime

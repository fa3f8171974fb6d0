// Handshake: one connection that is to become a link, seen by the caller or by the answerer. Bytes
// of a stranger, another version, or silence end it; nothing that the other side sends is trusted,
// or buffered beyond one small frame.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/net/socket.h"
#include "base/types.h"
#include "comm/transport/trunk/trunk_terms.h"
#include "runtime/rendezvous/card.h"
#include "runtime/rendezvous/sealer.h"

namespace holdfast::runtime {

class Handshake {
 public:
  enum class HandshakeState : std::uint8_t { kPending, kReady, kFailed };

  // Caller: connects to the endpoint and sends `hello`. `seal`: of the connection, if it is sealed.
  Handshake(int fd, const Endpoint& to, const Greeting& hello, Instant deadline,
            std::unique_ptr<TlsSeal> seal = nullptr);
  // Answerer: reads the hello first. `sealer`: null if the connection is not sealed; its seal is
  // made when the caller's first bytes may be those of TLS.
  Handshake(int fd, Instant deadline, std::shared_ptr<const Sealer> sealer = nullptr);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Moves on without blocking.
  HandshakeState step(Instant now);
  bool is_caller() const { return caller_; }
  bool wants_to_write() const { return connecting_ || !out_.empty() || (seal_ && seal_->holds()); }
  bool is_connected() const { return !connecting_; }
  const Endpoint& endpoint() const { return endpoint_; }  // caller: the endpoint it calls
  int fd() const { return fd_; }
  comm::Connection take_connection();
  const Status& failure() const { return failure_; }

  // Caller: the hello that it sent; the state is kReady once the peer's welcome has come.
  const Greeting& hello() const { return hello_; }
  // The connection goes through a relay.
  void set_relayed() { relayed_ = true; }
  bool is_relayed() const { return relayed_; }
  Instant deadline() const { return deadline_; }
  // Answerer: whether the caller's hello has come and must be answered with welcome(); then kReady.
  bool has_hello() const { return !caller_ && peer_.has_value() && !answered_; }
  const Greeting& peer() const { return *peer_; }
  void welcome(const Greeting& greeting);
  // What the other side has proven of itself.
  CallerFacts facts() const { return seal_ ? seal_->facts() : CallerFacts{}; }
  // In kReady: whether the two keep the path that carried their data before.
  bool keeps() const { return caller_ ? peer_->keeps : said_.keeps; }
  // Likewise: what the two have agreed on, and whether the connection is a further lane of a trunk.
  comm::TrunkTerms terms() const;
  // Of a sealed connection: a key of it that only its two ends know. Fails where there is none.
  Result<secure::Secret> export_key() const;
  // Caller, before it greets: by the key of the trunk's first connection.
  void prove_lane(const secure::Secret& trunk) { trunk_key_ = trunk.copy(); }
  // Answerer: whether the caller has that key.
  bool has_proven_lane(const secure::Secret& trunk) const;
  bool joins() const { return caller_ ? peer_->joins : said_.joins; }
  void refuse(Status why) { fail(std::move(why)); }
  // Caller: the callee has called this process, so this call is given up.
  void withdraw();
  bool is_withdrawn() const { return withdrawn_; }

 private:
  void say_hello();
  void queue(bool is_hello, Greeting greeting);
  bool has_seal();
  bool shake_hands();
  void turn_away(Status why);
  bool look_at_papers();
  bool flush();
  ssize_t send_some();
  ssize_t receive_some(std::span<std::byte> room);
  Status broken(const std::string& what) const;
  bool is_closed() const;
  bool read_greeting();
  HandshakeState fail(Status why);

  int fd_;
  bool caller_;
  std::shared_ptr<const Sealer> sealer_;  // until there is a seal
  std::unique_ptr<TlsSeal> seal_;
  bool sealed_ = false;  // hands are shaken
  bool connecting_ = false;
  bool answered_ = false;
  bool withdrawn_ = false;
  bool relayed_ = false;
  Endpoint endpoint_;
  Greeting hello_;  // caller
  Greeting said_;   // answerer: its welcome
  std::optional<secure::Secret> trunk_key_;
  std::optional<Greeting> peer_;
  Instant deadline_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  Status failure_;
};

}  // namespace holdfast::runtime

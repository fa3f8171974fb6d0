// A door with a sealer, and calls to it. Real sockets of this host.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/forks.h"
#include "base/net/socket.h"
#include "runtime/rendezvous/doorman.h"
#include "sealed_pair.h"

namespace holdfast::runtime::testing {

inline Instant in_ten_seconds() { return MonotonicClock().now() + std::chrono::seconds(10); }

inline bool says(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// A doorman that wants what `sealer` asks for, or nothing, of the member `self`.
class SealedDoor {
 public:
  explicit SealedDoor(std::shared_ptr<const Sealer> sealer, MemberId self = {2})
      : self_(self),
        listener_(listen_on("127.0.0.1", 0).value()),
        at_{"127.0.0.1", local_port(listener_).value()} {
    Doorman::Rules rules;
    rules.sealer = std::move(sealer);
    doorman_ = Doorman::start(listener_, rules, [] {}).value();
  }
  ~SealedDoor() {
    doorman_.reset();
    close_unforked(listener_);
  }
  std::unique_ptr<Handshake> call(const Sealer* sealer, MemberId from = {7}) {
    std::unique_ptr<TlsSeal> seal;
    if (sealer != nullptr) seal = std::move(sealer->call(self_)).value();
    return std::make_unique<Handshake>(start_connect(at_).value(), at_,
                                       Greeting{from, self_, {}, false, {}}, in_ten_seconds(),
                                       std::move(seal));
  }
  // Turns both sides until the call ends; answers it if it is heard.
  Handshake::HandshakeState end_of(Handshake& call) {
    std::vector<std::unique_ptr<Handshake>> heard;
    for (int i = 0; i < 50000; ++i) {
      const auto state = call.step(MonotonicClock().now());
      if (state != Handshake::HandshakeState::kPending) return state;
      for (auto& caller : doorman_->take()) heard.push_back(std::move(caller));
      for (auto& caller : heard) {
        if (caller->has_hello()) caller->welcome({self_, caller->peer().from, {}, false, {}});
        caller->step(MonotonicClock().now());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return Handshake::HandshakeState::kPending;
  }
  // Why a call is refused; "" if it is let in.
  std::string refusal_of(const Sealer& caller, MemberId from) {
    const auto call = this->call(&caller, from);
    end_of(*call);
    return call->failure().message();
  }
  const Endpoint& at() const { return at_; }
  Doorman& doorman() { return *doorman_; }

 private:
  MemberId self_;
  int listener_;
  Endpoint at_;
  std::unique_ptr<Doorman> doorman_;
};

}  // namespace holdfast::runtime::testing

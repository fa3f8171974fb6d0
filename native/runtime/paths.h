// Paths: the transports that a runtime uses, and what is said about them in cards and greetings. It
// knows no transport by name (comm/transport/catalogue.h).
//
// Thread: only the holder of the runtime; names(), shares_memory() and lacks_memory() on any
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/catalogue.h"
#include "runtime/rendezvous/card.h"

namespace holdfast::runtime {

class Paths {
 public:
  // `names`: as in option transports. kConfigError that says what one of them lacks here.
  static Result<Paths> open(const std::vector<std::string>& names,
                            const comm::PathSettings& settings);

  // A peer's control channel over a connection whose greetings have been exchanged.
  std::unique_ptr<comm::StreamLink> make_control(comm::Connection connection,
                                                 const comm::TrunkTerms& terms) const {
    return control_->make_stream(std::move(connection), terms);
  }

  // Names of the transports that make paths here, for the card.
  std::vector<std::string> names() const;
  // Whether this process lays its memory open to others of its host.
  bool shares_memory() const;
  // Whether a shared-memory transport was asked for and is not available here.
  bool lacks_memory() const { return lacks_memory_; }

  // Caller: its offers to the process that it calls; `lacks` is told why an offer could not be
  // made.
  std::vector<Offer> offers(const Card& callee, bool same_host,
                            const std::function<void(const Status&)>& lacks);
  // Answerer: the answer to the first offer that it accepts; empty: it accepts none.
  std::vector<Offer> answer(MemberId caller, const std::vector<Offer>& offers);
  // Either side, once both have greeted; null: the control channel carries the data.
  std::unique_ptr<comm::DataPath> make(MemberId peer, const std::vector<Offer>& said,
                                       bool is_caller, comm::StreamLink& control);
  // Drops what was offered to the peer or accepted from it: no path will be made of it.
  void forget(MemberId peer);
  void stop();

  // These concern the transports that have to be driven, as PathMaker says.
  bool is_driven() const { return !driven_.empty(); }
  std::vector<int> descriptors() const;
  bool arm();
  bool progress();
  bool busy() const;

 private:
  struct Used {
    const comm::TransportRow* row;
    std::unique_ptr<comm::PathMaker> maker;
  };
  comm::PathMaker* find(const std::string& name) const;

  const comm::TransportRow* control_ = nullptr;
  std::vector<Used> used_;  // in the catalogue's order
  std::vector<comm::PathMaker*> driven_;
  bool lacks_memory_ = false;
};

// Whether the card's process lays its memory open to others of its host.
bool lays_memory_open(const Card& card);

}  // namespace holdfast::runtime

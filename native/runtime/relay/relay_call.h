// Relay call: a caller's side of the preface, up to the relay's verdict. Reads no byte of what
// follows. Bytes in, bytes out: no sockets, no clock.
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/relay/preface.h"

namespace holdfast::runtime {

class RelayCall {
 public:
  // `preface`: without its claims, which are the token's.
  RelayCall(Preface preface, secure::Token token);

  std::vector<std::byte> take_out() { return std::exchange(out_, {}); }
  // How many bytes may be read now; 0: the verdict has come.
  std::size_t wants() const;
  // At most wants() bytes. kProtocolError: what answers is no relay, and what it seems to be.
  Status hear(std::span<const std::byte> bytes);
  // What it means that the other side has closed the connection.
  Status ended() const;

  const Preface& preface() const { return preface_; }
  bool has_verdict() const { return verdict_.has_value(); }
  RelayVerdict verdict() const { return *verdict_; }
  const std::string& reason() const { return reason_; }

 private:
  Preface preface_;
  secure::Token token_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  bool greeted_ = false;
  std::optional<RelayVerdict> verdict_;
  std::string reason_;
};

}  // namespace holdfast::runtime

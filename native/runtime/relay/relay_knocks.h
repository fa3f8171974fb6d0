// Relay knocks: calls back to members that have asked whether they can be called. Each says a nonce
// and ends: what is answered is not read.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/relay/relay_core.h"

namespace holdfast::runtime {

class RelayKnocks {
 public:
  explicit RelayKnocks(int epoll) : epoll_(epoll) {}
  ~RelayKnocks() { clear(); }
  RelayKnocks(const RelayKnocks&) = delete;
  RelayKnocks& operator=(const RelayKnocks&) = delete;

  // `last`: the last line that was used; events of a call have one of its own.
  void begin(const RelayCore::KnockAt& at, RelayCore::Line& last, Instant now);
  bool has(RelayCore::Line line) const { return knocks_.contains(line); }
  bool empty() const { return knocks_.empty(); }
  void look_at(RelayCore::Line line);
  void tick(Instant now);
  // While the epoll set is open.
  void clear();

 private:
  struct KnockLine {
    int fd = -1;
    Endpoint at;
    RelayTicket nonce{};
    Instant until{};
  };
  void close(const KnockLine& knock) const;

  const int epoll_;
  std::map<RelayCore::Line, KnockLine> knocks_;
};

}  // namespace holdfast::runtime

#include "runtime/relay/spliced_pair.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/forks.h"

namespace holdfast::runtime {
namespace {

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

SplicedPair::~SplicedPair() {
  for (const PairWay& way : ways_) close_unforked(way.from);
}

SplicedPair::PairTurn SplicedPair::turn(std::span<std::byte> scratch) {
  bool more = false;
  for (PairWay& way : ways_) {
    const PairTurn outcome = move(way, scratch);
    if (outcome == PairTurn::kEnded) return outcome;
    more = more || outcome == PairTurn::kMore;
  }
  if (ways_[0].told && ways_[1].told) return PairTurn::kEnded;
  return more ? PairTurn::kMore : PairTurn::kWaits;
}

SplicedPair::PairTurn SplicedPair::move(PairWay& way, std::span<std::byte> scratch) {
  std::size_t moved = 0;
  while (moved < kBudget) {
    if (!flush(way)) return PairTurn::kEnded;
    if (!way.held.empty()) return PairTurn::kWaits;
    if (way.ended) {
      if (!way.told) ::shutdown(way.to, SHUT_WR);
      way.told = true;
      return PairTurn::kWaits;
    }
    const ssize_t got = ::recv(way.from, scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return must_wait() ? PairTurn::kWaits : PairTurn::kEnded;
    way.ended = got == 0;
    if (!give(way, scratch.first(static_cast<std::size_t>(got)))) return PairTurn::kEnded;
    moved += static_cast<std::size_t>(got);
  }
  return PairTurn::kMore;
}

// False: the connection has broken. What is not taken is held.
bool SplicedPair::give(PairWay& way, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(way.to, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && !must_wait()) return false;
    if (sent < 0) break;
    passed_ += static_cast<std::uint64_t>(sent);
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  if (!bytes.empty()) way.held.assign(bytes.begin(), bytes.end());
  way.begun = 0;
  return true;
}

bool SplicedPair::flush(PairWay& way) {
  while (!way.held.empty()) {
    const auto rest = std::span<const std::byte>(way.held).subspan(way.begun);
    const ssize_t sent = ::send(way.to, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return must_wait();
    passed_ += static_cast<std::uint64_t>(sent);
    way.begun += static_cast<std::size_t>(sent);
    if (way.begun == way.held.size()) way.held = {};
  }
  return true;
}

}  // namespace holdfast::runtime

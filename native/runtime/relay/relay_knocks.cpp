#include "runtime/relay/relay_knocks.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "base/forks.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMostKnocks = 256;
// A process that can be called takes the call within this time.
constexpr Duration kKnockTime = std::chrono::seconds(2);

}  // namespace

void RelayKnocks::clear() {
  for (const auto& [line, knock] : knocks_) close(knock);
  knocks_.clear();
}

void RelayKnocks::begin(const RelayCore::KnockAt& at, RelayCore::Line& last, Instant now) {
  for (const Endpoint& place : at.places) {
    if (knocks_.size() >= kMostKnocks) return;
    auto fd = start_connect(place);
    if (!fd.is_ok()) continue;
    const RelayCore::Line line = ++last;
    knocks_[line] = {fd.value(), place, at.nonce, now + kKnockTime};
    epoll_event event{};
    event.events = EPOLLOUT | EPOLLET;
    event.data.u64 = line;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.value(), &event) != 0) look_at(line);
  }
}

// Says the nonce to whoever answers there: only who has given it can do something with it.
void RelayKnocks::look_at(RelayCore::Line line) {
  const KnockLine& knock = knocks_.at(line);
  if (connect_outcome(knock.fd, knock.at).is_ok()) {
    std::vector<std::byte> said(kKnockMagic.begin(), kKnockMagic.end());
    said.insert(said.end(), knock.nonce.begin(), knock.nonce.end());
    [[maybe_unused]] const ssize_t sent =
        ::send(knock.fd, said.data(), said.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  close(knock);
  knocks_.erase(line);
}

void RelayKnocks::tick(Instant now) {
  std::erase_if(knocks_, [&](const auto& each) {
    const bool late = now >= each.second.until;
    if (late) close(each.second);
    return late;
  });
}

// Where a forked child has the descriptor, too, closing alone does not remove it from the set.
void RelayKnocks::close(const KnockLine& knock) const {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, knock.fd, nullptr);
  close_unforked(knock.fd);
}

}  // namespace holdfast::runtime

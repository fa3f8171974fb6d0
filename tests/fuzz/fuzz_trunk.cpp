// What comes over the lanes of a trunk, from whoever: it ends the trunk or is taken, and what is
// kept stays within its limits. Input: pieces, each with the lane it comes over and its length;
// what is sent meanwhile is read and thrown away.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/transport/trunk/trunk_link.h"

namespace {

using namespace holdfast::comm;

constexpr std::size_t kFuzzLanes = 3;
constexpr std::size_t kVersionAt = kLaneHeaderBytes + 2;  // in a piece that begins with its headers

void read_all(int fd) {
  std::array<std::byte, 4096> room;
  while (::recv(fd, room.data(), room.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<int, kFuzzLanes> ends{};
  std::unique_ptr<TrunkLink> link;
  for (int& end : ends) {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) != 0) return 0;
    end = fds[1];
    if (link) {
      link->join({fds[0]});
    } else {
      link = std::make_unique<TrunkLink>(Connection{fds[0]}, TrunkTerms{1, kFuzzLanes});
    }
  }
  for (int i = 0; i < 3; ++i) link->session().send_control(FrameKind::kHeartbeat, {}, {}, {});
  auto rest = std::span(data, size);
  while (rest.size() > 2 && link->status().is_ok()) {
    const int end = ends[rest[0] % kFuzzLanes];
    const bool breaks = rest[0] >= 250;
    const auto said = rest.subspan(2).first(std::min<std::size_t>(rest[1], rest.size() - 2));
    rest = rest.subspan(2 + said.size());
    std::vector<std::uint8_t> piece(said.begin(), said.end());
    // Seeds of earlier versions are as good as new ones.
    if (piece.size() > kVersionAt) {
      piece[kVersionAt] = std::max<std::uint8_t>(piece[kVersionAt], kProtocolVersion);
    }
    if (breaks) ::shutdown(end, SHUT_RDWR);
    [[maybe_unused]] const ssize_t sent =
        ::send(end, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    link->set_readable();
    for (int i = 0; i < 3; ++i) link->pump();
    while (link->session().take_control()) {
    }
    for (const int one : ends) read_all(one);
  }
  link.reset();
  for (const int end : ends) ::close(end);
  return 0;
}

// How fast two processes exchange messages over loopback, by the ways there are: one socket or
// several, with and without MSG_ZEROCOPY, by io_uring. The plain loop is TcpLink's. One line per
// size: microseconds of the plain loop, and the others' speed by its.
//
//   tcp_ways [ROUNDS [LARGEST]]    9 rounds, up to 64 MiB
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kFrame = 512 * 1024;
constexpr std::size_t kMostSockets = 4;
constexpr std::size_t kLargest = 64 << 20;
constexpr std::size_t kBytesPerTurn = 64 << 20;  // per way and round, at least one exchange

struct Way {
  const char* name;
  std::size_t sockets;
  bool zerocopy;
  bool ring;
};
constexpr Way kWays[] = {
    {"plain", 1, false, false},     {"2 sockets", 2, false, false}, {"4 sockets", 4, false, false},
    {"zerocopy", 1, true, false},   {"io_uring", 1, false, true},   {"io_uring zc", 1, true, true},
    {"io_uring 2", 2, false, true},
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A part of a message on one socket.
struct Part {
  int fd;
  std::byte* data;
  std::size_t left;
};

std::vector<Part> parts_of(const std::vector<int>& fds, std::size_t sockets, std::byte* data,
                           std::size_t bytes) {
  std::vector<Part> parts;
  const std::size_t each = (bytes + sockets - 1) / sockets;
  for (std::size_t s = 0; s < sockets; ++s) {
    const std::size_t at = std::min(bytes, s * each);
    parts.push_back({fds[s], data + at, std::min(each, bytes - at)});
  }
  return parts;
}

void advance(Part& part, std::size_t bytes) {
  part.data += bytes;
  part.left -= bytes;
}

// One call, at most a frame; whether anything moved.
bool move(Part& part, bool sends, int flags) {
  const std::size_t length = std::min(part.left, kFrame);
  if (length == 0) return false;
  const ssize_t moved =
      sends ? ::send(part.fd, part.data, length, MSG_DONTWAIT | MSG_NOSIGNAL | flags)
            : ::recv(part.fd, part.data, length, MSG_DONTWAIT);
  if (moved < 0 && (errno == EAGAIN || errno == ENOBUFS)) return false;
  if (moved <= 0) die(sends ? "send" : "recv");
  advance(part, static_cast<std::size_t>(moved));
  return true;
}

// Sends whose memory the kernel has let go of.
std::uint32_t released(int fd) {
  char control[128];
  msghdr message{};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return 0;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr) return 0;
  sock_extended_err error{};
  std::memcpy(&error, CMSG_DATA(head), sizeof error);
  return error.ee_data - error.ee_info + 1;
}

void exchange_plain(std::vector<Part>& out, std::vector<Part>& in, bool zerocopy) {
  const int flags = zerocopy ? MSG_ZEROCOPY : 0;
  std::uint32_t held = 0;
  for (;;) {
    bool moved = false;
    bool ready = true;
    std::vector<pollfd> waits;
    for (std::size_t s = 0; s < out.size(); ++s) {
      if (move(out[s], true, flags)) moved = true, held += zerocopy ? 1 : 0;
      moved = move(in[s], false, 0) || moved;
      ready = ready && out[s].left == 0 && in[s].left == 0;
      const int events = (out[s].left > 0 ? POLLOUT : 0) | (in[s].left > 0 ? POLLIN : 0);
      waits.push_back({out[s].fd, static_cast<short>(events), 0});
    }
    if (zerocopy && held > 0) held -= released(out[0].fd);
    if (ready && held == 0) return;
    if (!moved) ::poll(waits.data(), waits.size(), 100);
  }
}

// The little of liburing that this needs.
class Ring {
 public:
  Ring() {
    io_uring_params params{};
    fd_ = static_cast<int>(::syscall(SYS_io_uring_setup, 64, &params));
    if (fd_ < 0) return;
    const std::size_t queue = params.sq_off.array + params.sq_entries * sizeof(std::uint32_t);
    const std::size_t ends = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
    std::byte* base = map(std::max(queue, ends), IORING_OFF_SQ_RING);
    entries_ = reinterpret_cast<io_uring_sqe*>(
        map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    tail_ = word(base + params.sq_off.tail);
    mask_ = *word(base + params.sq_off.ring_mask);
    array_ = word(base + params.sq_off.array);
    done_head_ = word(base + params.cq_off.head);
    done_tail_ = word(base + params.cq_off.tail);
    done_mask_ = *word(base + params.cq_off.ring_mask);
    done_ = reinterpret_cast<io_uring_cqe*>(base + params.cq_off.cqes);
  }
  // Whether this kernel has it.
  bool has(unsigned operation) const {
    constexpr unsigned kAsked = 64;
    std::vector<std::byte> memory(sizeof(io_uring_probe) + kAsked * sizeof(io_uring_probe_op));
    auto* probe = reinterpret_cast<io_uring_probe*>(memory.data());
    if (fd_ < 0) return false;
    if (::syscall(SYS_io_uring_register, fd_, IORING_REGISTER_PROBE, probe, kAsked) != 0) {
      return false;
    }
    return operation < probe->ops_len && (probe->ops[operation].flags & IO_URING_OP_SUPPORTED) != 0;
  }

  void put(const Part& part, bool sends, bool zerocopy, std::uint64_t name) {
    const std::uint32_t at = *tail_ & mask_;
    io_uring_sqe& entry = entries_[at];
    entry = {};
    entry.opcode = !sends ? IORING_OP_RECV : zerocopy ? IORING_OP_SEND_ZC : IORING_OP_SEND;
    entry.fd = part.fd;
    entry.addr = reinterpret_cast<std::uintptr_t>(part.data);
    entry.len = static_cast<std::uint32_t>(part.left);
    entry.msg_flags = MSG_WAITALL | MSG_NOSIGNAL;
    entry.user_data = name;
    array_[at] = at;
    std::atomic_ref(*tail_).store(*tail_ + 1, std::memory_order_release);
    ++unsent_;
  }
  // Submits, waits for one at least, and calls visit(completion) for all there are.
  template <class Visit>
  void wait(Visit visit) {
    const long entered =
        ::syscall(SYS_io_uring_enter, fd_, unsent_, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    if (entered < 0 && errno != EINTR) die("io_uring_enter");
    if (entered > 0) unsent_ -= static_cast<unsigned>(entered);
    std::uint32_t head = *done_head_;
    while (head != std::atomic_ref(*done_tail_).load(std::memory_order_acquire)) {
      visit(done_[head++ & done_mask_]);
    }
    std::atomic_ref(*done_head_).store(head, std::memory_order_release);
  }

 private:
  std::byte* map(std::size_t bytes, std::uint64_t what) const {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_,
                          static_cast<off_t>(what));
    if (memory == MAP_FAILED) die("mmap");
    return static_cast<std::byte*>(memory);
  }
  static std::uint32_t* word(std::byte* at) { return reinterpret_cast<std::uint32_t*>(at); }

  int fd_ = -1;
  unsigned unsent_ = 0;
  io_uring_sqe* entries_ = nullptr;
  std::uint32_t* tail_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t* array_ = nullptr;
  std::uint32_t* done_head_ = nullptr;
  std::uint32_t* done_tail_ = nullptr;
  std::uint32_t done_mask_ = 0;
  io_uring_cqe* done_ = nullptr;
};

// False: this kernel does not have the operation.
bool exchange_ring(Ring& ring, std::vector<Part>& out, std::vector<Part>& in, bool zerocopy) {
  std::size_t open = 0;
  const auto put = [&](std::uint64_t name) {
    const bool sends = name % 2 == 0;
    const Part& part = (sends ? out : in)[name / 2];
    if (part.left == 0) return;
    ring.put(part, sends, zerocopy, name);
    ++open;
  };
  for (std::uint64_t name = 0; name < 2 * out.size(); ++name) put(name);
  bool works = true;
  while (open > 0) {
    ring.wait([&](const io_uring_cqe& end) {
      if ((end.flags & IORING_CQE_F_NOTIF) == 0 || (end.flags & IORING_CQE_F_MORE) == 0) --open;
      if ((end.flags & IORING_CQE_F_NOTIF) != 0) return;  // its memory is free
      if ((end.flags & IORING_CQE_F_MORE) != 0) ++open;   // which will be told
      if (end.res < 0) {
        works = false;
        return;
      }
      advance((end.user_data % 2 == 0 ? out : in)[end.user_data / 2],
              static_cast<std::size_t>(end.res));
      put(end.user_data);
    });
    if (!works) return false;
  }
  return true;
}

struct Side {
  std::vector<int> fds;
  Ring ring;
  std::vector<std::byte> out = std::vector<std::byte>(kLargest);
  std::vector<std::byte> in = std::vector<std::byte>(kLargest);

  bool exchange(const Way& way, std::size_t bytes) {
    std::vector<Part> sends = parts_of(fds, way.sockets, out.data(), bytes);
    std::vector<Part> receives = parts_of(fds, way.sockets, in.data(), bytes);
    if (way.ring) return exchange_ring(ring, sends, receives, way.zerocopy);
    exchange_plain(sends, receives, way.zerocopy);
    return true;
  }
};

int connected(int listener, bool calls, std::uint16_t port) {
  int fd = -1;
  if (calls) {
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) die("connect");
  } else {
    fd = ::accept(listener, nullptr, nullptr);
    if (fd < 0) die("accept");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on);
  return fd;
}

// By size and way: microseconds of an exchange, per round.
void run(Side& side, bool prints, int rounds, std::size_t largest) {
  if (prints) {
    std::printf("%8s", "size");
    for (const Way& way : kWays) std::printf(" %12s", way.name);
    std::printf("\n");
  }
  for (std::size_t bytes = 4096; bytes <= largest; bytes *= 4) {
    std::vector<std::vector<double>> times(std::size(kWays));
    const int repeats = static_cast<int>(std::clamp<std::size_t>(kBytesPerTurn / bytes, 1, 500));
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t w = 0; w < std::size(kWays); ++w) {
        const Way& way = kWays[w];
        const unsigned operation = way.zerocopy ? IORING_OP_SEND_ZC : IORING_OP_SEND;
        if (way.ring && !side.ring.has(operation)) continue;
        const auto began = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) {
          if (!side.exchange(way, bytes)) die(way.name);
        }
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - began;
        times[w].push_back(took.count() / repeats);
      }
    }
    if (!prints) continue;
    std::printf("%7zuK", bytes / 1024);
    double plain = 0;
    for (auto& each : times) {
      if (each.empty()) {
        std::printf(" %12s", "-");
        continue;
      }
      std::nth_element(each.begin(), each.begin() + static_cast<long>(each.size() / 2), each.end());
      const double median = each[each.size() / 2];
      if (plain == 0) {
        plain = median;
        std::printf(" %9.1f us", plain);
      } else {
        std::printf(" %12.2f", plain / median);
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const std::size_t largest =
      std::min(kLargest, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : kLargest);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof here;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&here), sizeof here) != 0) die("bind");
  ::listen(listener, static_cast<int>(kMostSockets));
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&here), &length);
  const pid_t child = ::fork();
  Side side;
  for (std::size_t s = 0; s < kMostSockets; ++s) {
    side.fds.push_back(connected(listener, child == 0, ntohs(here.sin_port)));
  }
  run(side, child != 0, rounds, largest);
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

// Path emulator: a path with a rate, a delay and losses between two network namespaces, for kernels
// that have no netem. In each namespace it makes a TUN device `wan`; what is written to one comes
// out of the other, when a path of that kind would have brought it. It shapes packets and never
// looks into them.
//
//   path_emulator NAMESPACE_A NAMESPACE_B
//
// It says "ready", and then obeys lines on its standard input until that ends:
//
//   ab|ba|both mbit 200        rate; 0: none
//   ab|ba|both delay_ms 75     one way
//   ab|ba|both jitter_ms 2     more delay, random up to this; packets keep their order
//   ab|ba|both loss 0.001      part of the packets that is lost
//   ab|ba|both queue_ms 50     what waits longer for its turn to be sent is dropped
//   ab|ba|both still 1         nothing arrives any more, and nothing is said; 0: goes on
//   counts                     says of ab, then of ba, in one line: packets and bytes that were
//                              brought, packets that were lost, and that were dropped
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;

constexpr double kNsPerMs = 1e6;
constexpr std::size_t kLargestPacket = 65536;
// Far more than a path of 10 Gbit/s and 1 s holds is not kept.
constexpr std::size_t kMostPackets = 1 << 18;
constexpr int kBurst = 64;

Nanoseconds now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "path_emulator: " << what << ": " << std::strerror(errno) << std::endl;
  std::exit(1);
}

int open_device(const std::string& space) {
  const std::string file = "/var/run/netns/" + space;
  const int inside = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (inside < 0 || ::setns(inside, CLONE_NEWNET) != 0) fail("namespace " + space);
  ::close(inside);
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "wan");
  if (device < 0 || ::ioctl(device, TUNSETIFF, &request) != 0) fail("/dev/net/tun in " + space);
  return device;
}

// One direction. The settings are written by the main thread; relaxed: each stands for itself.
struct Direction {
  int from = -1;
  int to = -1;
  std::atomic<double> mbit{0};
  std::atomic<double> delay_ms{0};
  std::atomic<double> jitter_ms{0};
  std::atomic<double> loss{0};
  std::atomic<double> queue_ms{100};
  std::atomic<double> still{0};
  std::atomic<std::uint64_t> brought{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> dropped{0};
};

struct Packet {
  Nanoseconds due = 0;
  std::vector<char> data;
};

class Line {
 public:
  Line(Direction& direction, unsigned seed) : d_(direction), random_(seed) {}

  void run() {
    ::prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
      deliver();
      if (!take()) wait();
    }
  }

 private:
  void deliver() {
    while (!under_way_.empty() && under_way_.front().due <= now()) {
      const Packet& packet = under_way_.front();
      const bool arrives =
          d_.still == 0 && ::write(d_.to, packet.data.data(), packet.data.size()) >= 0;
      if (arrives) {
        ++d_.brought;
        d_.bytes += packet.data.size();
      } else {
        ++d_.lost;
      }
      under_way_.pop_front();
    }
  }

  // Returns whether there was any.
  bool take() {
    bool any = false;
    for (int i = 0; i < kBurst; ++i) {
      const ssize_t got = ::read(d_.from, buffer_.data(), buffer_.size());
      if (got <= 0) break;
      any = true;
      send(static_cast<std::size_t>(got));
    }
    return any;
  }

  void send(std::size_t bytes) {
    const Nanoseconds at = now();
    if (unit_(random_) < d_.loss) {
      ++d_.lost;
      return;
    }
    Nanoseconds leaves = std::max(free_, at);
    const bool waits_too_long = static_cast<double>(leaves - at) > d_.queue_ms * kNsPerMs ||
                                under_way_.size() >= kMostPackets;
    if (waits_too_long) {
      ++d_.dropped;
      return;
    }
    if (d_.mbit > 0) leaves += static_cast<Nanoseconds>(static_cast<double>(bytes) * 8e3 / d_.mbit);
    free_ = leaves;
    const double delay = d_.delay_ms + d_.jitter_ms * unit_(random_);
    last_ = std::max(last_, leaves + static_cast<Nanoseconds>(delay * kNsPerMs));
    const char* begin = buffer_.data();
    under_way_.push_back({last_, {begin, begin + bytes}});
  }

  void wait() {
    pollfd readable{d_.from, POLLIN, 0};
    if (under_way_.empty()) {
      ::ppoll(&readable, 1, nullptr, nullptr);
      return;
    }
    const Nanoseconds left = std::max<Nanoseconds>(0, under_way_.front().due - now());
    const timespec until{left / 1'000'000'000, left % 1'000'000'000};
    ::ppoll(&readable, 1, &until, nullptr);
  }

  Direction& d_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> unit_{0, 1};
  std::deque<Packet> under_way_;
  std::array<char, kLargestPacket> buffer_{};
  Nanoseconds free_ = 0;  // when the line has sent all that waits
  Nanoseconds last_ = 0;  // when the last packet arrives
};

// Returns whether the line was understood.
bool obey(const std::string& line, std::array<Direction, 2>& directions) {
  std::istringstream words(line);
  std::string which;
  std::string what;
  double value = 0;
  if (!(words >> which >> what >> value)) return false;
  bool known = false;
  for (int i = 0; i < 2; ++i) {
    if (which != "both" && which != (i == 0 ? "ab" : "ba")) continue;
    Direction& d = directions[static_cast<std::size_t>(i)];
    known = true;
    if (what == "mbit")
      d.mbit = value;
    else if (what == "delay_ms")
      d.delay_ms = value;
    else if (what == "jitter_ms")
      d.jitter_ms = value;
    else if (what == "loss")
      d.loss = value;
    else if (what == "queue_ms")
      d.queue_ms = value;
    else if (what == "still")
      d.still = value;
    else
      known = false;
  }
  return known;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: path_emulator NAMESPACE_A NAMESPACE_B\n";
    return 2;
  }
  const int a = open_device(argv[1]);
  const int b = open_device(argv[2]);
  std::array<Direction, 2> directions;
  directions[0].from = directions[1].to = a;
  directions[0].to = directions[1].from = b;
  for (unsigned i = 0; i < 2; ++i) {
    std::thread([&directions, i] { Line(directions[i], i + 1).run(); }).detach();
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "counts") {
      for (const Direction& d : directions) {
        std::cout << d.brought << " " << d.bytes << " " << d.lost << " " << d.dropped << " ";
      }
      std::cout << std::endl;
    } else if (!obey(line, directions)) {
      std::cerr << "path_emulator: not understood: " << line << std::endl;
      return 2;
    }
  }
  // The threads end with the process.
  std::_Exit(0);
}

// How fast one thread passes a stream on from one TCP connection of this host to another: by recv
// and send through a buffer, or by splice through a pipe. By hand; a relay's choice was made by it.
//   relay_ways SECONDS RECORD_BYTES
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// Both ends of a connection over loopback.
std::array<int, 2> connected() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&at), length) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    std::abort();
  }
  const int caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(caller, reinterpret_cast<sockaddr*>(&at), length) != 0) std::abort();
  const int answerer = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {caller, answerer};
}

double cpu_of_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::size_t pass_by_copies(int from, int to, std::vector<char>& room) {
  const ssize_t got = ::recv(from, room.data(), room.size(), 0);
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n =
        ::send(to, room.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return 0;
    sent += n;
  }
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::size_t pass_by_splice(int from, int to, const std::array<int, 2>& pipe) {
  constexpr std::size_t kAtOnce = std::size_t{64} << 10;
  const ssize_t got = ::splice(from, nullptr, pipe[1], nullptr, kAtOnce, SPLICE_F_MOVE);
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n = ::splice(pipe[0], nullptr, to, nullptr, static_cast<std::size_t>(got - sent),
                               SPLICE_F_MOVE);
    if (n <= 0) return 0;
    sent += n;
  }
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void measure(const char* way, bool splices, double seconds, std::size_t record) {
  const auto in = connected();
  const auto out = connected();
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) std::abort();
  std::atomic<bool> stops{false};
  std::thread sender([&] {
    const std::vector<char> bytes(record, 'x');
    while (!stops && ::send(in[0], bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
    ::shutdown(in[0], SHUT_WR);
  });
  std::thread receiver([&] {
    std::vector<char> bytes(std::size_t{256} << 10);
    while (::recv(out[1], bytes.data(), bytes.size(), 0) > 0) {
    }
  });
  std::vector<char> room(std::size_t{64} << 10);
  const auto began = Clock::now();
  const double cpu = cpu_of_thread();
  std::size_t passed = 0;
  const auto now_s = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  while (now_s() < seconds) {
    passed += splices ? pass_by_splice(in[1], out[0], pipe) : pass_by_copies(in[1], out[0], room);
  }
  const double took = now_s();
  const double gib = static_cast<double>(passed) / (1U << 30);
  std::printf(
      "{\"name\": \"relay\", \"way\": \"%s\", \"record\": %zu, \"GiB_per_s\": %.2f, "
      "\"cpu_s_per_GiB\": %.3f}\n",
      way, record, gib / took, (cpu_of_thread() - cpu) / gib);
  stops = true;
  while (pass_by_copies(in[1], out[0], room) > 0) {
  }
  ::shutdown(out[0], SHUT_WR);
  sender.join();
  receiver.join();
  for (const int fd : {in[0], in[1], out[0], out[1], pipe[0], pipe[1]}) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const auto record = static_cast<std::size_t>(argc > 2 ? std::atol(argv[2]) : 16384);
  measure("copies", false, seconds, record);
  measure("splice", true, seconds, record);
  return 0;
}

#include "runtime/coordinator/etcd/lookup.h"

#include <netdb.h>
#include <pthread.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/net/socket.h"

namespace holdfast::runtime {
namespace {

using Addresses = std::vector<std::string>;

Result<Addresses> resolve_host(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) return Status{Code::kSystem, "\"" + host + "\": " + ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int failed = ::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr,
                                     0, NI_NUMERICHOST);
    if (failed == 0) addresses.emplace_back(text.data());
  }
  if (addresses.empty()) return Status{Code::kSystem, "\"" + host + "\" has no address"};
  return addresses;
}

}  // namespace

struct HostLookup::Found {
  std::mutex mutex;  // guards the member below
  std::optional<Result<Addresses>> answer;
  std::condition_variable comes;
};

Result<Addresses> HostLookup::find(Instant deadline) {
  if (!known_.empty()) return known_;
  if (is_numeric_address(host_)) return Addresses{host_};
  if (!under_way_) {
    auto found = std::make_shared<Found>();
    try {
      std::thread([host = host_, found] {
        // Signals are for the program's own threads, so this one blocks all.
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        auto answer = resolve_host(host);
        const std::lock_guard lock(found->mutex);
        found->answer = std::move(answer);
        found->comes.notify_all();
      }).detach();
    } catch (const std::system_error& error) {
      return Status{Code::kSystem, std::string("cannot start a thread: ") + error.what()};
    }
    under_way_ = std::move(found);
  }
  std::unique_lock lock(under_way_->mutex);
  const std::chrono::steady_clock::time_point until{deadline.since_origin};
  if (!under_way_->comes.wait_until(lock, until, [&] { return under_way_->answer.has_value(); })) {
    return Status{Code::kTimeout, "no name server has answered what \"" + host_ + "\" is"};
  }
  auto answer = *under_way_->answer;  // a copy: a copy of this object may wait for it, too
  lock.unlock();
  under_way_.reset();
  if (answer.is_ok()) known_ = answer.value();
  return answer;
}

}  // namespace holdfast::runtime

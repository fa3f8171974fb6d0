#include "runtime/coordinator/host_search.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace holdfast::runtime {
namespace {

// Pause between two searches: other programs use the name servers as well.
constexpr Duration kSearchPause = std::chrono::seconds(2);

}  // namespace

struct HostSearch::Answer {
  std::optional<Result<std::vector<std::string>>> found;
  std::atomic<bool> ended{false};  // release after `found` is written, acquire before it is read
};

HostSearch::HostSearch(std::string host, std::uint16_t port, Resolve resolve)
    : host_(std::move(host)),
      port_(port),
      resolve_(std::move(resolve)),
      numeric_(is_numeric_address(host_)) {
  if (numeric_) endpoints_.push_back({host_, port_});
}

void HostSearch::look(Instant now) {
  if (numeric_ || answer_ || now < next_look_) return;
  next_look_ = now + kSearchPause;
  auto answer = std::make_shared<Answer>();
  try {
    std::thread([resolve = resolve_, host = host_, answer] {
      // Signals are for the program's own threads, so this one blocks all.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      answer->found = resolve(host);
      answer->ended.store(true, std::memory_order_release);
      answer->ended.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return;  // no thread could be started: the known addresses stay in use
  }
  answer_ = std::move(answer);
}

void HostSearch::await() {
  if (answer_) {
    answer_->ended.wait(false, std::memory_order_acquire);
    take();
  } else if (endpoints_.empty()) {
    adopt(resolve_(host_));
  }
}

bool HostSearch::take() {
  if (!answer_ || !answer_->ended.load(std::memory_order_acquire)) return false;
  const auto answer = std::exchange(answer_, nullptr);
  return adopt(*answer->found);
}

bool HostSearch::adopt(const Result<std::vector<std::string>>& found) {
  failure_ = found.status();
  if (!found.is_ok()) return false;  // the known addresses stay in use
  std::vector<Endpoint> now;
  for (const std::string& address : found.value()) now.push_back({address, port_});
  const bool moved = !std::equal(
      now.begin(), now.end(), endpoints_.begin(), endpoints_.end(),
      [](const Endpoint& one, const Endpoint& other) { return one.address == other.address; });
  endpoints_ = std::move(now);
  return moved;
}

}  // namespace holdfast::runtime

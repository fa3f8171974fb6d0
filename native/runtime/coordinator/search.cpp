#include "runtime/coordinator/search.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>

namespace holdfast::runtime {
namespace {

// Pause between two searches: other programs use the name servers as well.
constexpr Duration kSearchPause = std::chrono::seconds(2);

}  // namespace

struct CoordinatorSearch::Answer {
  std::optional<Card> card;
  std::atomic<bool> ended{false};  // release after `card` is written, acquire before it is read
};

void CoordinatorSearch::look(Instant now) {
  if (answer_ || now < next_look_) return;
  next_look_ = now + kSearchPause;
  auto answer = std::make_shared<Answer>();
  try {
    std::thread([find = find_, answer] {
      // Signals are for the program's own threads, so this one blocks all.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      auto found = find();
      if (found.is_ok()) answer->card = std::move(found).value();
      answer->ended.store(true, std::memory_order_release);
    }).detach();
  } catch (const std::system_error&) {
    return;  // no thread could be started: the known addresses stay in use
  }
  answer_ = std::move(answer);
}

std::optional<Card> CoordinatorSearch::take() {
  if (!answer_ || !answer_->ended.load(std::memory_order_acquire)) return std::nullopt;
  return std::exchange(answer_, nullptr)->card;
}

}  // namespace holdfast::runtime

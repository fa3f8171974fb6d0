// Order desk: what operators ask of a coordinator by its pages, on its way from the pages' thread
// to the driving thread, and the answers on their way back. The pages' thread waits for neither.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "health/pages.h"

namespace holdfast::runtime {

// Orders that nobody has taken yet: a driving thread takes them at its next turn, so many that
// wait mean that it is stuck.
inline constexpr std::size_t kMostOrders = 16;

// Any thread.
class OrderDesk {
 public:
  // `wake`: has the driving thread look at the desk. Any thread.
  explicit OrderDesk(std::function<void()> wake) : wake_(std::move(wake)) {}

  class Answer {
   public:
    void give(health::HttpResponse response) {
      const std::lock_guard lock(mutex_);
      response_ = std::move(response);
    }
    std::optional<health::HttpResponse> take() {
      const std::lock_guard lock(mutex_);
      return std::exchange(response_, std::nullopt);
    }

   private:
    std::mutex mutex_;  // guards the rest
    std::optional<health::HttpResponse> response_;
  };
  struct DeskOrder {
    health::PageOrder order;
    std::shared_ptr<Answer> answer;  // owners: this, and the connection that waits for it
  };

  // The answer comes later.
  health::HttpResponse ask(health::PageOrder order) {
    DeskOrder asked{std::move(order), std::make_shared<Answer>()};
    health::HttpResponse response;
    response.later = [answer = asked.answer] { return answer->take(); };
    {
      const std::lock_guard lock(mutex_);
      if (orders_.size() >= kMostOrders) {
        return {503, "text/plain; charset=utf-8", "too many requests wait; try again\n"};
      }
      orders_.push_back(std::move(asked));
      // release: pairs with has_orders(), which guards nothing
      waiting_.store(true, std::memory_order_release);
    }
    wake_();
    return response;
  }
  bool has_orders() const { return waiting_.load(std::memory_order_acquire); }
  std::vector<DeskOrder> take() {
    const std::lock_guard lock(mutex_);
    waiting_.store(false, std::memory_order_release);
    return std::exchange(orders_, {});
  }

 private:
  const std::function<void()> wake_;
  std::atomic<bool> waiting_{false};
  std::mutex mutex_;  // guards the rest
  std::vector<DeskOrder> orders_;
};

}  // namespace holdfast::runtime

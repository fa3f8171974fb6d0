// Task: something to be done once, on any thread. Like std::function<void()>, but it holds usual
// captures inside itself, so that it costs no allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace holdfast {

class Task {
 public:
  // Room for three shared pointers.
  static constexpr std::size_t kRoom = 48;

  Task() = default;
  template <class F>
  requires(!std::is_same_v<F, Task> && std::is_invocable_v<F&>)
      Task(F function) {  // implicit on purpose: a lambda is a task
    if constexpr (fits<F>) {
      new (room_) F(std::move(function));
      actions_ = &kActions<F>;
    } else {
      new (room_) Boxed<F>{std::make_unique<F>(std::move(function))};
      actions_ = &kActions<Boxed<F>>;
    }
  }
  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this == &other) return *this;
    reset();
    take(other);
    return *this;
  }
  ~Task() { reset(); }

  void operator()() { actions_->run(room_); }

 private:
  template <class F>
  static constexpr bool fits =
      sizeof(F) <= kRoom &&
      alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;
  template <class F>
  struct Boxed {
    std::unique_ptr<F> function;
    void operator()() { (*function)(); }
  };
  struct Actions {
    void (*run)(void* function);
    void (*move)(void* from, void* to);  // also destroys the source
    void (*end)(void* function);
  };
  template <class F>
  static constexpr Actions kActions{
      [](void* f) { (*static_cast<F*>(f))(); },
      [](void* from, void* to) {
        new (to) F(std::move(*static_cast<F*>(from)));
        static_cast<F*>(from)->~F();
      },
      [](void* f) { static_cast<F*>(f)->~F(); },
  };

  void take(Task& other) {
    if (other.actions_ == nullptr) return;
    other.actions_->move(other.room_, room_);
    actions_ = std::exchange(other.actions_, nullptr);
  }
  void reset() {
    if (actions_ != nullptr) std::exchange(actions_, nullptr)->end(room_);
  }

  const Actions* actions_ = nullptr;
  alignas(std::max_align_t) std::byte room_[kRoom];
};

}  // namespace holdfast

// Mail slots: requests that the other end answers, by numbers that it is given. A number that was
// not given, or is not in use any more, finds nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/message/mail_request.h"

namespace holdfast::comm {

class MailSlots {
 public:
  std::uint64_t add(MailRequest& request) {
    std::uint32_t at = free_;
    if (at == kNone) {
      at = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back({});
    } else {
      free_ = slots_[at].next_free;
    }
    slots_[at].request = &request;
    ++used_;
    return std::uint64_t{slots_[at].use} << 32 | at;
  }

  MailRequest* find(std::uint64_t id) const {
    const auto at = static_cast<std::uint32_t>(id);
    if (at >= slots_.size() || slots_[at].use != id >> 32) return nullptr;
    return slots_[at].request;
  }

  // `id` is in use.
  void remove(std::uint64_t id) {
    const auto at = static_cast<std::uint32_t>(id);
    slots_[at] = {nullptr, slots_[at].use + 1, free_};
    free_ = at;
    --used_;
  }

  // Takes them all, in no order that means anything, but the same on every run.
  std::vector<MailRequest*> take_all() {
    std::vector<MailRequest*> all;
    for (const MailSlot& slot : slots_) {
      if (slot.request != nullptr) all.push_back(slot.request);
    }
    slots_.clear();
    free_ = kNone;
    used_ = 0;
    return all;
  }

  std::size_t used() const { return used_; }

 private:
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  struct MailSlot {
    MailRequest* request = nullptr;
    std::uint32_t use = 1;  // never 0, so that no id is 0
    std::uint32_t next_free = kNone;
  };

  std::vector<MailSlot> slots_;
  std::uint32_t free_ = kNone;
  std::size_t used_ = 0;
};

}  // namespace holdfast::comm

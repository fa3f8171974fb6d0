// Notices: announces or grants that came before the post that they are for. A kept notice saves a
// message; notices beyond the limit are forgotten, and credit.h says why that is safe.
#pragma once

#include <cstddef>
#include <optional>

#include "comm/transport/key_table.h"

namespace holdfast::comm {

class Notices {
 public:
  // Keeps the latest notice of a key. One that a receive looks for is kept even beyond the limit.
  void keep(const FrameHeader& notice, std::size_t limit, bool looked_for = false) {
    if (kept_.size() >= limit && !looked_for && !has(notice.key)) {
      forgets_ = true;
    } else {
      kept_.put(notice.key, notice);
    }
  }
  std::optional<FrameHeader> take(const MessageKey& key) { return kept_.take(key); }
  bool has(const MessageKey& key) const { return kept_.find(key) != nullptr; }
  // Whether one was ever forgotten.
  bool forgets() const { return forgets_; }
  std::size_t size() const { return kept_.size(); }

  void retire(CommId comm, Epoch epoch) {
    kept_.erase_if([&](const MessageKey& key, const FrameHeader&) {
      return key.comm == comm && key.epoch == epoch;
    });
  }

 private:
  KeyTable<FrameHeader> kept_;
  bool forgets_ = false;
};

}  // namespace holdfast::comm

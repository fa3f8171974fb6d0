// Early notices: what processes said of their messages (comm::SentNotice) before this member had
// the view that they are in. Bounded: the oldest give way.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"

namespace holdfast::group {

class EarlyNotices {
 public:
  using Notice = std::vector<std::byte>;

  void keep(MemberId from, std::span<const std::byte> said) {
    kept_.emplace_back(from, Notice(said.begin(), said.end()));
    bytes_ += said.size() + kEntryBytes;
    while (bytes_ > kMaxBytes && kept_.size() > 1) {
      bytes_ -= kept_.front().second.size() + kEntryBytes;
      kept_.pop_front();
    }
  }

  // In the order in which they came.
  std::vector<Notice> take(MemberId from) {
    std::vector<Notice> taken;
    for (auto at = kept_.begin(); at != kept_.end();) {
      if (at->first != from) {
        ++at;
        continue;
      }
      bytes_ -= at->second.size() + kEntryBytes;
      taken.push_back(std::move(at->second));
      at = kept_.erase(at);
    }
    return taken;
  }

 private:
  static constexpr std::size_t kMaxBytes = 1U << 20;
  static constexpr std::size_t kEntryBytes = 64;

  std::deque<std::pair<MemberId, Notice>> kept_;
  std::size_t bytes_ = 0;
};

}  // namespace holdfast::group

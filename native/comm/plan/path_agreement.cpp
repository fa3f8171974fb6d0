#include "comm/plan/path_agreement.h"

namespace holdfast::comm {

Result<PathAgreement::PathChoice> PathAgreement::choose(Epoch boundary, Duration timeout,
                                                        std::uint32_t renew) {
  std::unique_lock lock(mutex_);
  const auto begin_trial = [&] {
    calls_ = 1;
    known_ = false;
    return PathChoice{Path::kDirect, ++trial_};
  };
  if (trial_ == 0 || boundary != boundary_) {
    boundary_ = boundary;
    return begin_trial();
  }
  if (calls_ < kTrialCalls) {
    ++calls_;
    return PathChoice{};
  }
  if (renew != 0 && calls_++ >= renew) return begin_trial();
  if (!concluded_.wait_for(lock, timeout, [this] { return known_; })) {
    return Status(Code::kTimeout,
                  "the group's first large op on device memory has not ended (option timeout)");
  }
  if (verdict_ == PathVerdict::kAgain) return begin_trial();
  return PathChoice{verdict_ == PathVerdict::kDirect ? Path::kDirect : Path::kStaged, 0};
}

void PathAgreement::conclude(std::uint64_t trial, PathVerdict verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (trial != trial_ || known_) return;
    known_ = true;
    verdict_ = verdict;
  }
  concluded_.notify_all();
}

}  // namespace holdfast::comm

#include "group/parts/fates.h"

namespace holdfast::group {

const Fate& Fates::usual(const Roster& roster) {
  if (usual_ == nullptr || usual_->epoch != roster.epoch) {
    usual_ = std::make_shared<const OpFate>(
        fate_at_start(roster.present, roster.members.size(), roster.epoch));
    whole_ = nullptr;
    whole_ = outcome_of(usual_);
  }
  return usual_;
}

std::shared_ptr<const comm::Outcome> Fates::outcome_of(const Fate& fate) const {
  if (fate == usual_ && whole_ != nullptr) return whole_;
  return std::make_shared<const comm::Outcome>(
      comm::Outcome{fate->epoch, fate->contributors, fate->missing, fate->retried, {}});
}

}  // namespace holdfast::group

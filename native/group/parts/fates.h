// Fates: the fates and outcomes that most ops of a view share, made once for all of them.
//
// Thread: only the holder of the runtime.
#pragma once

#include <memory>

#include "comm/call/outcome.h"
#include "group/parts/roster.h"
#include "group/repair.h"

namespace holdfast::group {

class Fates {
 public:
  // The fate of an op of which nothing is known.
  const Fate& unknown() const { return unknown_; }
  // The fate of an op that begins now, until an incident changes it.
  const Fate& usual(const Roster& roster);
  std::shared_ptr<const comm::Outcome> outcome_of(const Fate& fate) const;

 private:
  const Fate unknown_ = std::make_shared<const OpFate>();
  Fate usual_;
  std::shared_ptr<const comm::Outcome> whole_;  // of the usual fate
};

}  // namespace holdfast::group

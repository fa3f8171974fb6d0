// Page caller: who asks for a page, as far as the request proves it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "health/lock/page_roles.h"

namespace holdfast::health {

struct PageCaller {
  PageReader reader = PageReader::kAnybody;
  // For the audit log, never the secret: the user, or which line of the file of credentials it is,
  // or the token's serial. Empty: nothing is proven, and where no credentials are asked for, the
  // caller may read all and do nothing.
  std::string name = {};
  std::string token = {};  // the token's serial
  std::string run = {};    // it may see and act on the worlds of this run only; empty: on all
  std::string why = {};    // why it may read nothing, where it is to be told

  bool is_known() const { return !name.empty(); }
  bool may_see(std::string_view world) const { return run.empty() || world.starts_with(run + "/"); }
};

// Who a token's text is of; such a text begins with "hf1-". Any thread.
using TokenJudge = std::function<PageCaller(std::string_view text)>;

}  // namespace holdfast::health

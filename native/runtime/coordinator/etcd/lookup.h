// Lookup: the addresses of a host's name, found on a thread of its own, since a name server may
// take half a minute to answer, and nothing can end the wait. One lookup runs at a time; who asks
// again waits for the same one.
//
// Thread: only the holder's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace holdfast::runtime {

class HostLookup {
 public:
  explicit HostLookup(std::string host) : host_(std::move(host)) {}

  // Numeric addresses. Waits until `deadline`; kTimeout when no name server has answered by then.
  // What was found is kept until forget().
  Result<std::vector<std::string>> find(Instant deadline);
  // To be called when nobody answers at the addresses: the name may lead elsewhere by now.
  void forget() { known_.clear(); }

 private:
  struct Found;
  std::string host_;
  std::vector<std::string> known_;
  std::shared_ptr<Found> under_way_;  // owners: this, its copies and the lookup's thread
};

}  // namespace holdfast::runtime

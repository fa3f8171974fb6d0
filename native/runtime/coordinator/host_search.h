// Host search: the numeric addresses of one host at which the coordinator may be. A name is
// resolved again while the coordinator cannot be reached, for it may have moved. That is done on a
// thread of its own: a name server may take half a minute to answer.
//
// Thread: only the holder of the runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/net/socket.h"
#include "base/result.h"

namespace holdfast::runtime {

class HostSearch {
 public:
  using Resolve = std::function<Result<std::vector<std::string>>(const std::string& host)>;
  // `resolve` may block. A search may outlive this object, so it must refer to nothing that it does
  // not own.
  HostSearch(std::string host, std::uint16_t port, Resolve resolve);

  // Begins to resolve the name, unless that is under way or was done a moment ago. A numeric
  // address is never looked up.
  void look(Instant now);
  // Waits until what look() began has ended, or resolves the name here if it could not begin.
  void await();
  // Takes over what an ended search has found. True: the endpoints are others now.
  bool take();

  // Empty: the name has not been resolved.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // Why the last search failed; ok when it did not.
  const Status& failure() const { return failure_; }

 private:
  struct Answer;
  bool adopt(const Result<std::vector<std::string>>& found);

  std::string host_;
  std::uint16_t port_;
  Resolve resolve_;
  bool numeric_;
  std::vector<Endpoint> endpoints_;
  Status failure_;
  std::shared_ptr<Answer> answer_;  // owners: this and the search's thread
  Instant next_look_{};
};

}  // namespace holdfast::runtime

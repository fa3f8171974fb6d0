// Meeting: how the members of a new group find each other: cards through the store, then
// connections, then one more round through the store in which everybody says it is ready and what
// it could map.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/store.h"
#include "runtime/node.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Meeting {
 public:
  Meeting(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
          Duration timeout);
  Result<std::shared_ptr<comm::LiveCommunicator>> run();

 private:
  Status exchange_cards();
  Status connect();
  Status connect_error(const std::vector<Rank>& missing);
  Result<std::shared_ptr<comm::LiveCommunicator>> create();
  // Publishes `value` under `round` and collects everybody's; on a timeout names who is missing.
  Result<std::vector<std::string>> round(const std::string& name, const std::string& value);
  Status missing_error(const std::string& round, Rank first);
  std::optional<comm::FlatExchange> open_flat();
  std::vector<int> hosts() const;
  Duration left() const;
  std::string key(const std::string& round, Rank rank) const;
  bool may_use_shm() const;
  // Runs `task` on the driving thread and waits for it.
  void on_driver(const std::function<void()>& task);

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  Instant deadline_;
  comm::Segment own_flat_;
  std::vector<Card> cards_;
};

}  // namespace holdfast::runtime

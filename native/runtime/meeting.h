// Meeting: how the members of a new group find each other: cards through the store, then
// connections, then one more round through the store in which everybody says it is ready, what it
// could map, and which world it takes the group to be part of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/store.h"
#include "ft/group.h"
#include "runtime/node.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

class Meeting {
 public:
  Meeting(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
          Duration timeout);
  Result<std::shared_ptr<ft::Group>> run();

 private:
  Status exchange_cards();
  Status connect();
  Status connect_error(const std::vector<Rank>& missing);
  Result<std::shared_ptr<ft::Group>> create();
  // Publishes `value` under `round` and collects everybody's; on a timeout names who is missing.
  Result<std::vector<std::string>> round(const std::string& name, const std::string& value);
  Status missing_error(const std::string& round, Rank first);
  std::vector<comm::HostPeer> open_flat();
  // What every member says before the group begins.
  struct Word {
    std::string memory;  // "reach", "flat", "shm" or "tcp": what it can use with all others
    CommId world;        // that all members are in; 0: none yet
    Epoch epoch;         // of its view there
  };
  Word own_word();
  static Result<Word> parse_word(const std::string& text);
  Result<ft::GroupConfig> agree(const std::vector<Word>& words);
  std::shared_ptr<ft::World> make_world();
  Duration left() const;
  std::string key(const std::string& round, Rank rank) const;

  std::shared_ptr<Runtime> runtime_;
  Store& store_;
  const JoinRequest& request_;
  Instant deadline_;
  comm::Segment own_flat_;
  std::vector<comm::HostPeer> flat_;
  std::vector<Card> cards_;
};

}  // namespace holdfast::runtime

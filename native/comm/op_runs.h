// Op runs: turns the ops of one communicator into runs of the engine. Keeps the schedules that were
// built, scratch memory, and the count of messages per (peer, tag), by which both ends name them.
//
// Thread: only the holder of the runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/communicator_config.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/run.h"
#include "comm/op_work.h"

namespace holdfast::comm {

bool is_point_to_point(Collective collective);
// Hash of what must agree between ranks, `history` of earlier calls included; sizes are compared on
// their own, too.
std::uint32_t signature_of(const OpRequest& request, std::uint32_t history);
// The larger of what goes in and what comes out.
std::uint64_t payload_bytes(const OpRequest& request);

class OpRuns {
 public:
  // Both must outlive this.
  OpRuns(const CommunicatorConfig& config, const std::vector<Link*>& links)
      : config_(config), links_(links) {}

  std::unique_ptr<Run> make(const OpWork& work, std::uint32_t history);
  // A send to or a receive from `peer`.
  std::unique_ptr<Run> make_message(const OpWork& work, Rank peer);
  // Takes the run's posts and scratch memory back.
  void end(Run& run);
  // A rank whose next message with this tag has come, or waits to be fetched. Ranks take turns.
  std::optional<Rank> find_message(std::uint32_t tag);

 private:
  int size() const { return static_cast<int>(links_.size()); }
  std::unique_ptr<Run> make(const OpRequest& request, const Schedule& schedule, const RunKey& key);
  const Schedule& schedule_for(const OpRequest& request);
  std::uint32_t& next_message(Collective collective, Rank peer, std::uint32_t tag) {
    return messages_[{collective, peer.value, tag}];
  }

  const CommunicatorConfig& config_;
  const std::vector<Link*>& links_;
  BufferPool pool_;
  std::map<std::tuple<Collective, std::string, int>, Schedule> schedules_;
  std::map<std::tuple<Collective, int, std::uint32_t>, std::uint32_t> messages_;
  int first_asked_ = 0;
};

}  // namespace holdfast::comm

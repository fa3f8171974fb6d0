#include "runtime/rendezvous/open_memory.h"

#include <algorithm>
#include <utility>

namespace holdfast::runtime {

std::string usable_memory(Runtime& runtime, const std::vector<MemberId>& members,
                          const std::vector<comm::HostPeer>& flat, Rank self) {
  if (!flat.empty()) return comm::reach_each_other(flat, self) ? "reach" : "flat";
  const bool all_share = std::all_of(members.begin(), members.end(), [&](MemberId member) {
    const Peer* peer = runtime.find_peer(member);
    return peer == nullptr || peer->shares_memory();
  });
  return all_share ? "queues" : kNoMemory;
}

void agree_on_memory(const std::vector<std::string>& said, std::vector<comm::HostPeer> flat,
                     group::GroupConfig& config) {
  const auto nobody_says = [&](const std::string& word) {
    return std::find(said.begin(), said.end(), word) == said.end();
  };
  config.shares_memory = nobody_says(kNoMemory);
  if (config.shares_memory && nobody_says("queues")) config.flat = std::move(flat);
  for (comm::HostPeer& peer : config.flat) {
    if (!nobody_says("flat")) peer.memory.reset();
  }
}

}  // namespace holdfast::runtime

// What a live communicator is made of; the runtime fills it in at the rendezvous of the members.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/engine/flat_exchange.h"
#include "comm/engine/slice_exchange.h"
#include "comm/plan/map_plans.h"
#include "comm/transport/link.h"
#include "comm/view/fabrics.h"

namespace holdfast::comm {

// The links to one member: `data` for data, and `control` for notices, which ends with the peer.
struct MemberLinks {
  Link* data = nullptr;
  Link* control = nullptr;
};

struct CommunicatorConfig {
  CommId id;
  View view;                // the present members, without gaps
  Rank rank;                // in the view
  std::vector<Rank> ranks;  // by rank in the view: the rank in the group, as users know it
  int group_size = 0;       // ranks of the group, vacant ones included
  std::string name;
  std::vector<MemberLinks> links;  // by rank; own entry empty
  // Where all members share memory: the exchange for small ops, and those for large ops, by
  // SliceLane.
  std::optional<FlatExchange> flat;
  std::vector<SliceExchange> slices = {};
  Fabrics fabric;  // of the members, by rank in the view
  // Owners: the group and its views' communicators. Null: nothing is remembered.
  std::shared_ptr<MapPlans> plans = {};
  bool protect = true;  // ops can be repaired when a member is lost
};

}  // namespace holdfast::comm

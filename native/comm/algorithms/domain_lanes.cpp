// Domain lanes: a domain exchange whose payload is cut into lanes, each with other heads: the ranks
// of a domain share what its head would do alone, and what crosses goes over several connections at
// once, each of which may send so much before it has heard from the other side. Source: the lanes
// are those of Jia et al., "Highly scalable deep learning training system", 2018, section 3.3.
//
// Critical path: that of domain_exchange.cpp. H domains, L ranks in the largest, S bytes, K lanes
// (2L, and 8 at most): in each lane H-1 messages of S/K across by each of its heads; inside, 2(L-1)
// of them. Copies: as there.
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// More lanes than this are more messages than they save time.
constexpr int kMostLanes = 8;

}  // namespace

Schedule build_domain_lanes(const BuildSpec& spec) { return build_in_lanes(spec, kMostLanes); }

}  // namespace holdfast::comm

// Domains of a map: which ranks are near each other, by latency alone. Where the ways between ranks
// are of distinct kinds (inside a site, between sites), each kind is a level of a fabric; where
// they are alike, there is the whole and nothing else.
#pragma once

#include "topology/fabric.h"
#include "topology/link_map.h"

namespace holdfast::topology {

// A fabric of the map's ranks. Its links cost nothing: only who is together with whom counts.
Fabric domains_of(const LinkMap& map);

}  // namespace holdfast::topology

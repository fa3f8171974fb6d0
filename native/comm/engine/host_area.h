// The layout of a rank's shared area: the process that owns it, a part for each of the exchanges,
// and what its memory pool lends.
#pragma once

#include "comm/engine/flat_exchange.h"
#include "comm/engine/slice_exchange.h"

namespace holdfast::comm {

struct HostArea {
  MemoryOwner owner;
  FlatArea flat;
  SliceArea slices[kSliceLanes];
  PoolDirectory pool;
};

}  // namespace holdfast::comm

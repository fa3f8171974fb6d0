// The layout of a rank's shared area: a part for small messages and one for large ones.
#pragma once

#include "comm/engine/flat_exchange.h"
#include "comm/engine/slice_exchange.h"

namespace holdfast::comm {

struct HostArea {
  FlatArea flat;
  SliceArea slices;
};

}  // namespace holdfast::comm

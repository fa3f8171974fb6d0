// Verifier: runs every rank's schedule symbolically and proves it before it ever moves a byte.
//
// Each chunk carries the set of contributions (rank, input chunk) reduced into it. These are
// proven: the collective's postcondition on every rank; no contribution twice; deadlock freedom
// when no send completes before its receive is posted (rendezvous semantics, the strictest
// transport); messages pair up one to one by (link, ordinal); no two unordered steps touch one slot
// unless both read (aliased input/output counted as one); input is never written, and output is
// written only with final values; what is encoded is decoded, and sums of frames are made in f32. A
// proof treats encoding and decoding as copies.
//
// It needs the steps of all ranks, which nobody has who only takes part. What a rank proves of the
// trees that it uses is in topology/forest/proof.h.
// Why: docs/decisions/0143-trees-are-proven-where-they-are-used.md
#pragma once

#include <vector>

#include "base/result.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

// `schedules[r]` is rank r's. Returns kProtocolError with rank, step and reason when a proof fails.
Status verify(const std::vector<Schedule>& schedules);

}  // namespace holdfast::comm

// What a caller asks for: its size, and checks before anything moves; their errors say what would
// be accepted.
#pragma once

#include "comm/communicator.h"

namespace holdfast::comm {

// The larger of input bytes and output bytes.
std::uint64_t payload_bytes(const OpRequest& request);
// Whether payload_bytes() is the same on all ranks, so that they decide alike by it.
bool is_sized_alike(const OpRequest& request);

// Whether a codec that the caller did not name may encode the op: a sum or an average of floating
// elements, of `least` bytes or more, that the codec makes smaller; with a lossless codec also an
// op that only moves elements, where all ranks know alike how many bytes it moves.
bool is_worth_coding(const OpRequest& request, const compress::Codec& codec, std::uint64_t least);

Status check_request(const OpRequest& request, Rank rank, int size);

}  // namespace holdfast::comm

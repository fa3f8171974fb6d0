// Which frames of which elements go where, in an op whose frames the device makes
// (encoded/encoded.h). Pure.
//
// Every rank has a part: of an all_reduce or a broadcast a run of the vector, else a block. Parts
// are cut into chunks, a frame each, where the host's schedules cut them (comm/algorithms), so that
// frames have the host's bits. What one rank sends to another is a message:
//
//   head | frame | frame ...      each at a multiple of kEncodedAlignment
//
// All messages of an op have one size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::device_comm {

inline constexpr std::uint64_t kEncodedAlignment = 16;

// What a rank tells the others beside its frames, the same to all of them.
struct EncodedHead {
  std::uint32_t vote = 0;
  std::uint32_t unused[3] = {};
};
static_assert(sizeof(EncodedHead) == kEncodedAlignment);

struct EncodedFrame {
  std::uint64_t first = 0;  // element, in its block
  std::uint64_t count = 0;
  std::uint64_t chunk = 0;  // of the host's schedule: part of the key of stochastic rounding
  std::uint64_t at = 0;     // in its message
  std::uint64_t bytes = 0;
};

struct EncodedPlan {
  comm::Collective collective{};
  Rank rank{};
  Rank root{};
  std::uint64_t element_bytes = 1;
  std::vector<std::vector<EncodedFrame>> parts;  // by rank
  std::uint64_t message_bytes = 0;

  std::size_t size() const { return parts.size(); }
  std::size_t self() const { return static_cast<std::size_t>(rank.value); }
  // Whether frames are added up.
  bool folds() const;
  // Whether a rank sends different frames to each rank; else all get the same.
  bool spreads() const;
  // Whether this rank encodes the part; and whether it encodes any of the input block.
  bool encodes(std::size_t part) const;
  bool encodes_block(std::size_t block) const;
  // Messages that this rank makes, and messages that it gets besides.
  std::size_t sent() const { return spreads() ? size() : 1; }
  std::size_t received() const { return collective == comm::Collective::kBroadcast ? 0 : size(); }
  // The blocks that a part belongs to.
  std::size_t input_block(std::size_t part) const;
  std::size_t output_block(std::size_t part) const;
  // Elements of this rank's part, and frames of all parts.
  std::uint64_t own_elements() const;
  std::size_t frames() const;
  std::uint64_t most_elements() const;  // of a frame
};

// Requires a codec whose frames have one size, and equal blocks where the collective has several.
EncodedPlan encoded_plan(const comm::OpRequest& request, Rank rank, int size);

// The device memory that the op takes, as offsets.
struct EncodedRoom {
  std::uint64_t out = 0;       // messages that this rank makes
  std::uint64_t in = 0;        // messages that others have made
  std::uint64_t sum = 0;       // f32, of its part
  std::uint64_t decoded = 0;   // f32, of this rank's part
  std::uint64_t residual = 0;  // f32, of all input blocks
  std::uint64_t encoding = 0;  // what stages need
  std::uint64_t decoding = 0;  // what stages need
  std::uint64_t bytes = 0;
};
EncodedRoom encoded_room(const EncodedPlan& plan, const comm::OpRequest& request);

}  // namespace holdfast::device_comm

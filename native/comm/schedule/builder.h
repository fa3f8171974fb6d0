// Builder: algorithms say what moves; the builder derives message ordinals and dependencies from
// the slots.
//
// Ordinals count messages per directed link in program order, so two ranks agree on them without
// talking. Dependencies: read-after-write (streamed when the reader takes exactly the slot the
// writer fills and both work element by element), write-after-read and write-after-write
// (complete). A step that takes or makes a frame works on whole chunks and never streams. Input
// chunk c and output chunk c are assumed to alias for every collective whose caller may pass one
// buffer for both.
#pragma once

#include "comm/schedule/schedule.h"
#include "topology/fabric.h"

namespace holdfast::topology {
struct PlannedTree;
}

namespace holdfast::comm {

// Says what an algorithm is asked to build.
struct BuildSpec {
  Collective collective{};
  Rank rank{};
  int size = 1;
  Rank root{};
  // Where the ranks are; it must live while the schedule is built. nullptr: all are in one place.
  const topology::Fabric* fabric = nullptr;
  // Chunks of a rank's block, where the algorithm cuts blocks into pieces.
  int pieces = 1;
  // Of the algorithm that goes by trees, if they are planned already; nullptr: by the fabric's map.
  const std::vector<topology::PlannedTree>* trees = nullptr;
};

class Builder {
 public:
  Builder(const BuildSpec& spec, std::uint32_t chunks);

  static Slot input(int chunk);
  static Slot output(int chunk);
  // A new scratch chunk as large as `like` (an input or output slot).
  Slot scratch(Slot like);
  // New scratch chunks: room for the codec's frame of `like`, and for a sum of such frames in f32.
  Slot frame(Slot like);
  Slot wide(Slot like);

  void send(int peer, Slot source);
  void recv(int peer, Slot destination);
  void copy(Slot destination, Slot source);
  void reduce(Slot destination, Slot lhs, Slot rhs);
  void encode(Slot frame, Slot source);
  void decode(Slot destination, Slot frame);
  // Adds the last reduction of a chunk: averages divide here.
  void reduce_final(Slot destination, Slot lhs, Slot rhs);

  // By chunk; see Schedule.
  void set_shares(std::vector<std::uint32_t> shares) { schedule_.shares = std::move(shares); }

  Schedule finish() &&;

 private:
  Slot add_scratch(Slot like, Form form);
  Step& append(StepKind kind);

  Schedule schedule_;
};

}  // namespace holdfast::comm

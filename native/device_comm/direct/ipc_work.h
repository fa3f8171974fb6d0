// The work of a call in which ranks of one host read each other's device memory: what all its
// subclasses share. Its chain of ops begins with `where`, an all_gather of where inputs and results
// are; then phases of the device and ops of the group take turns, each op gated on the phase before
// it. Some of the ops are votes: all_reduces of whether all has gone well
// everywhere so far.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/peer_memory.h"
#include "device/scratch.h"
#include "device_comm/chained_work.h"
#include "device_comm/direct/direct.h"
#include "device_comm/direct/plan.h"

namespace holdfast::device_comm {

// What a rank tells the others about its memory. Plain bytes: all ranks run one build.
struct PeerCard {
  std::uint64_t owner = 0;
  std::uint32_t able = 0;   // 1: has a driver, kernels and handles for this
  std::uint32_t ready = 0;  // 1: its memory is there
  std::uint64_t there = 0;  // of a subclass that expects certain ranks: a number made from them
  device::PeerPiece input;
  device::PeerPiece result;
};

class IpcWork : public ChainedWork {
 public:
  static constexpr std::size_t kMostVotes = 2;
  // The steps of a subclass's chain.
  struct IpcChain {
    std::size_t steps = 0;  // with `where`, without ChainedWork's last
    std::size_t votes = 0;  // the last ones of the steps, at most kMostVotes
    bool shows = false;     // others read this rank's result
  };

  ~IpcWork() override;

 protected:
  // Bits of a vote, anded over the ranks.
  static constexpr std::uint32_t kReached = 1;  // every piece could be mapped
  static constexpr std::uint32_t kWell = 2;     // the phases went well, too
  // `direct` belongs to `staged`.
  IpcWork(std::shared_ptr<Staged> staged, Direct& direct, const comm::Communicator& group,
          const comm::OpRequest& request, Direct::DirectCall extra, const IpcChain& row);

  // Called by the caller's thread before the first op: takes more memory. card_.ready tells what is
  // lacking.
  virtual void prepare_more() {}
  // ranks_ and cards_ are known, and all that they say is well. False: the call cannot be done.
  virtual bool plan() { return true; }
  // Enqueues on our stream down, after step `number`. `reached`: all could be mapped.
  virtual Status run_phase(std::size_t number, bool& reached) = 0;

  comm::OpRequest step_request(std::size_t step) override;
  device::DevicePointer result_at(std::size_t block) const;
  // Where another rank's memory, or this rank's, is mapped.
  Result<device::DevicePointer> peer(Rank rank, bool of_result);
  std::optional<device::Scratch::Piece> take_scratch(std::uint64_t bytes);
  void give_memory(bool idle) override;
  static std::uint64_t all_of(const std::vector<std::uint64_t>& blocks);

  Direct& direct_;
  const DirectShape shape_;
  // Used by the thread that starts the work; then by one step after the other.
  PeerCard card_;
  std::vector<PeerCard> cards_;  // by rank
  std::vector<Rank> ranks_;      // ranks whose data there is, rising

 private:
  // A copy within this rank's own memory.
  struct Move {
    device::DevicePointer to = 0;
    device::DevicePointer from = 0;
    std::uint64_t bytes = 0;
  };

  Status prepare(std::span<const device::CuStream> streams) override;
  std::vector<Move> expose_input();
  void choose_result();
  bool results_meet_inputs() const;
  void expose_scratch(const device::Scratch::Piece& scratch, std::uint64_t bytes,
                      device::PeerPiece& piece);
  std::optional<Status> look_at_step(std::size_t step) override;
  void on_step_ended(std::size_t step, const comm::Outcome& outcome) override;
  void on_broken() override { conclude(false, false); }
  void on_where(const comm::Outcome& outcome);
  void begin_phase(std::size_t number);
  bool is_vote(std::size_t step) const { return step >= chain_.steps - chain_.votes; }
  std::uint32_t& vote(std::array<std::uint32_t, kMostVotes>& votes, std::size_t step) const;
  Status move_result();
  void conclude(bool whole, bool reached);

  const IpcChain chain_;
  const std::string group_;
  const std::uint64_t trial_;
  const std::shared_ptr<comm::PathAgreement> agreement_;  // owners: the group, and this

  // Used by the thread that starts the work; then by one step after the other.
  std::optional<device::CuEvent> arrived_;
  device::DevicePointer input_ = 0;
  std::vector<device::Scratch::Piece> scratch_;
  // Where the result is made; nothing: in the caller's output.
  std::optional<device::DevicePointer> result_;
  device::DevicePointer result_run_ = 0;  // the caller's output, if it is one run
  std::uint32_t so_far_ = kReached | kWell;
  std::array<std::uint32_t, kMostVotes> vote_in_{};
  std::array<std::uint32_t, kMostVotes> vote_out_{};
  std::vector<device::DeviceMemoryOfPeers::AllocationKey> opened_;

  // Guarded by mutex_. For each phase: whether all of it is enqueued, and its end; nothing:
  // enqueueing failed.
  struct Phase {
    bool enqueued = false;
    std::optional<device::CuEvent> end;
  };
  std::vector<Phase> phases_;
};

}  // namespace holdfast::device_comm

// The work of an op that goes past the host (direct.h): the row of ops of the group that it is made
// of, and what this rank does on its device between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/peer_memory.h"
#include "device/scratch.h"
#include "runtime/direct.h"
#include "runtime/direct_plan.h"
#include "runtime/row_work.h"

namespace holdfast::runtime {

// What a rank tells the others of its memory. Plain bytes: all ranks are of one build.
struct DirectCard {
  std::uint64_t owner = 0;
  std::uint32_t able = 0;   // has a driver, kernels and handles for this
  std::uint32_t ready = 0;  // its memory is there
  device::PeerPiece input;
  device::PeerPiece result;
};

class DirectWork final : public RowWork {
 public:
  // `direct` is of `staged`.
  DirectWork(std::shared_ptr<Staged> staged, Direct& direct, const comm::Communicator& group,
             const comm::OpRequest& request, Direct::Extra extra,
             std::shared_ptr<comm::PathAgreement> agreement);
  ~DirectWork() override;

 private:
  // Its ops, in order: where, the words; and RowWork's.
  // Bits of a word, anded over the ranks.
  static constexpr std::uint32_t kReached = 1;  // every piece could be mapped
  static constexpr std::uint32_t kRead = 2;     // and the phase went well

  // A run of this rank's own memory that is copied.
  struct Move {
    device::DevicePointer to = 0;
    device::DevicePointer from = 0;
    std::uint64_t bytes = 0;
  };

  std::size_t words() const { return shape_.words(); }
  static std::uint64_t all_of(const std::vector<std::uint64_t>& blocks);

  // By the caller, before the first op.
  Status prepare(std::span<const device::CuStream> streams) override;
  std::vector<Move> expose_input();
  void choose_result();
  bool results_meet_inputs() const;
  std::optional<device::Scratch::Piece> take_scratch(std::uint64_t bytes);
  void expose_scratch(const device::Scratch::Piece& scratch, std::uint64_t bytes,
                      device::PeerPiece& piece);
  comm::OpRequest step_request(std::size_t step) override;

  std::optional<Status> look_at_step(std::size_t step) override;
  void on_step_ended(std::size_t step, const comm::Outcome& outcome) override;
  void on_broken() override { conclude(false, false); }
  void on_where(const comm::Outcome& outcome);
  void on_word(std::size_t word, const comm::Outcome& outcome);
  void begin_phase(std::size_t number);
  Status run_phase(const DirectPhase& phase, std::uint32_t& word);
  Result<device::DevicePointer> peer(Rank rank, bool of_result);
  device::DevicePointer result_at(std::size_t block) const;
  Status move_result();
  void conclude(bool whole, bool reached);
  void give_memory(bool idle) override;

  Direct& direct_;
  const DirectShape shape_;
  const std::string group_;
  const std::uint64_t trial_;
  const std::shared_ptr<comm::PathAgreement> agreement_;  // owners: the group, and this

  // By whoever starts it; then by one step after the other.
  std::optional<device::CuEvent> arrived_;
  device::DevicePointer input_ = 0;
  std::vector<device::Scratch::Piece> scratch_;
  std::optional<device::DevicePointer> result_;  // nothing: the caller's output
  DirectCard card_;
  std::vector<DirectCard> cards_;  // by rank
  std::array<std::uint32_t, 2> word_in_{};
  std::array<std::uint32_t, 2> word_out_{};
  std::vector<Rank> ranks_;  // whose data there is
  std::vector<device::PeerMemory::Key> opened_;

  // Guarded by mutex_.
  std::array<bool, 2> enqueued_{};                        // phases
  std::array<std::optional<device::CuEvent>, 2> phases_;  // the end of each; nothing: it failed
};

}  // namespace holdfast::runtime

// The work of an op whose frames the device makes (encoded/encoded.h): its chain of ops of the
// group, and what this rank's device does between them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/observer.h"
#include "compress/device/stages.h"
#include "device/scratch.h"
#include "device_comm/chained_work.h"
#include "device_comm/encoded/encoded.h"
#include "device_comm/encoded/plan.h"

namespace holdfast::device_comm {

class EncodedWork final : public ChainedWork {
 public:
  // `encoded` belongs to `staged`, and takes the request.
  EncodedWork(std::shared_ptr<Staged> staged, Encoded& encoded, const comm::Communicator& group,
              const comm::OpRequest& request, Encoded::EncodedCall extra,
              std::shared_ptr<comm::PathAgreement> agreement);
  ~EncodedWork() override;

 private:
  // Bits of a vote; each counts only where all ranks have set it.
  static constexpr std::uint32_t kAble = 1;  // there are kernels for this
  static constexpr std::uint32_t kWell = 2;  // what comes with the vote is right, too

  // Called by the caller's thread: prepare() before the first op, on_numbered() when it has its
  // number.
  Status prepare(std::span<const device::CuStream> streams) override;
  void on_numbered() override;
  Status encode();
  Status send_up();
  comm::OpRequest step_request(std::size_t step) override;
  comm::EncodedBytes frames_of(std::size_t step) const;
  comm::OpRequest first_step();
  comm::OpRequest second_step();
  std::optional<Status> look_at_step(std::size_t step) override;
  std::optional<Status> look_at_frames();
  std::optional<Status> look_at_sums();

  void on_step_ended(std::size_t step, const comm::Outcome& outcome) override;
  void on_broken() override { conclude(comm::PathAgreement::PathVerdict::kAgain); }
  void give_up();
  void conclude(comm::PathAgreement::PathVerdict verdict);
  // The votes of all ranks, anded, in a step's messages.
  std::uint32_t votes(std::size_t step) const;
  void begin_sums();
  Status make_sums();
  void finish();

  // Enqueues on our stream down.
  Status bring_down(std::byte* from, device::DevicePointer to);
  // Adds up the frames of this rank's part, and divides.
  Status fold(device::DevicePointer sum);
  Status encode_sums();
  Status write_sums();
  // Decodes the part's frames, in the message that begins there, into their output block.
  Status decode_part(std::size_t part, device::DevicePointer message);
  Status decode_parts();
  Status decode(const EncodedFrame& frame, device::DevicePointer message, DType dtype,
                device::DevicePointer out, bool add);
  Status write_result();
  Status commit_residual();

  Status look_at_result() override;
  void give_memory(bool idle) override;

  compress::RoundingKey key_of(std::uint64_t chunk) const;
  compress::StageReport* next_report() { return reports_ + reported_++; }
  // Addresses in device memory.
  device::DevicePointer out(std::size_t message) const;
  device::DevicePointer in(std::size_t message) const;
  device::DevicePointer sum_of(const EncodedFrame& frame, std::uint64_t area) const;
  float* residual_of(std::size_t block) const;
  // Addresses in host memory.
  std::byte* out_host(std::size_t message) const;
  std::byte* in_host(std::size_t message) const;
  void set_vote(std::byte* message, std::uint32_t vote) const;

  Encoded& encoded_;
  const EncodedPlan plan_;
  const EncodedRoom room_;
  const std::uint64_t seed_;
  const std::uint64_t trial_;
  const std::shared_ptr<comm::PathAgreement> agreement_;  // owners: the group, and this

  // Used by the thread that starts the work; then by one step after the other.
  std::optional<device::CuEvent> arrived_;
  std::optional<device::Scratch::Piece> scratch_;
  device::Pinned frames_;  // messages out, messages in, reports
  compress::StageReport* reports_ = nullptr;
  std::size_t reported_ = 1;    // the first report is that of the encoding stages
  std::uint32_t vote_ = 0;      // this rank's vote, until something goes wrong
  std::uint32_t vote_in_ = 0;   // input of broadcast's vote
  std::uint32_t vote_out_ = 0;  // its result

  // Guarded by mutex_.
  bool encoding_ = false;  // the encoding has been enqueued, or cannot be
  Status lost_;            // the device was lost before anything was enqueued
  bool summing_ = false;
  std::optional<device::CuEvent> summed_;  // nothing: it failed
};

}  // namespace holdfast::device_comm

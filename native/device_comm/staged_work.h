// The work of a staged op (staged.h): its host ops, and where their memory goes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device_comm/device_work.h"
#include "device_comm/staged_binding.h"

namespace holdfast::device_comm {

class StagedWork final : public DeviceWork {
 public:
  // A host op: the whole op, or a slice of it.
  struct StagedPart {
    device::Pinned memory;
    comm::OpRequest request;                 // until it starts
    std::optional<device::CuEvent> arrived;  // its input is in `memory`
    StagedCopies copies;
    std::shared_ptr<comm::Work> work;  // nothing: not started
  };

  StagedWork(std::shared_ptr<Staged> staged, comm::Collective collective);
  ~StagedWork() override;

  OpSeq sequence() const override;  // of its first part
  Rank source() const override;
  void tell_wait(comm::OtherWait other) override;

 private:
  friend class Staged;

  // Called once for each part, when its op has ended.
  void on_part(std::size_t part, const Status& status);
  Status copy_down(const StagedPart& part);
  void give_memory(bool idle) override;

  // Used by the thread that starts the work, until all parts are started.
  std::vector<StagedPart> parts_;
  bool reads_first_ = false;  // no result is written before all inputs have been read
  // Guarded by mutex_.
  std::size_t running_ = 0;  // parts that have not ended
  bool any_outcome_ = false;
};

}  // namespace holdfast::device_comm

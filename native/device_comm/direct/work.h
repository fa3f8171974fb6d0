// The work of an op that bypasses the host (direct/direct.h): what this rank does on its device
// between the ops of its chain.
#pragma once

#include "device_comm/direct/ipc_work.h"

namespace holdfast::device_comm {

class DirectWork final : public IpcWork {
 public:
  // `direct` belongs to `staged`.
  DirectWork(std::shared_ptr<Staged> staged, Direct& direct, const comm::Communicator& group,
             const comm::OpRequest& request, Direct::DirectCall extra);
  ~DirectWork() override;

 private:
  bool plan() override;
  Status run_phase(std::size_t number, bool& reached) override;
};

}  // namespace holdfast::device_comm

// The work of a call on device memory in a group over several hosts, where the ranks of each host
// reach each other's devices: in two levels. Inside a host, data goes from device to device; a
// device's bus carries only what hosts exchange, each byte over one of the host's devices. The
// chain of ops, each after what the script of its rank (two_level/script.h) does on the device:
//
//   where      an all_gather of where inputs and results are
//   exchange   an all_to_all between hosts; of all_reduce, a second one
//   vote       a vote: whether all has gone well everywhere
//   vote       a second vote, where results of others were read after the first
//
// and ChainedWork's last. The exchanges are begun as barriers, and filled in when `where` has told
// which ranks are present; if these are not the ranks that were expected at the call, the op is
// staged. A rank whose memory a device reads is known to have been alive when the next vote ends
// with it; otherwise the call is done again.
//
// Source: two levels, as of MPI over clusters: Karonis et al., "Exploiting hierarchy in parallel
// computer networks to optimize collective operation performance", IPDPS 2000.
// Why: docs/decisions/0111-two-levels-without-nccl.md
#pragma once

#include <vector>

#include "device_comm/direct/ipc_work.h"
#include "device_comm/two_level/script.h"

namespace holdfast::device_comm {

class TwoLevelWork final : public IpcWork {
 public:
  // `direct` belongs to `staged`. The collective has two_level_steps().
  TwoLevelWork(std::shared_ptr<Staged> staged, Direct& direct, const comm::Communicator& group,
               const comm::OpRequest& request, Direct::DirectCall extra);
  ~TwoLevelWork() override;

 private:
  void prepare_more() override;
  bool plan() override;
  comm::OpRequest step_request(std::size_t step) override;
  void fill_step(std::size_t step, comm::OpRequest& request) override;
  Status run_phase(std::size_t number, bool& reached) override;
  Result<device::DevicePointer> address_of(const TwoLevelPlace& place);
  Status check_size(const TwoLevelPlace& place, std::uint64_t bytes) const;
  Status enqueue(const TwoLevelAction& action, device::DevicePointer to,
                 const std::vector<device::DevicePointer>& from);
  void give_memory(bool idle) override;
  bool is_exchange(std::size_t step) const { return step > 0 && step <= script_.exchanges.size(); }

  const std::vector<Rank> expected_;
  TwoLevelScript script_;
  device::Pinned host_;
  device::DevicePointer parts_ = 0;
};

}  // namespace holdfast::device_comm

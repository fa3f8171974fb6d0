// Node: the only composition root. One per process: it owns the transports, the progress thread and
// all communicators of the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/store.h"
#include "comm/communicator.h"
#include "comm/transport/pool.h"
#include "device_comm/staged.h"
#include "health/layer_metrics.h"
#include "runtime/options.h"

namespace holdfast::runtime {

struct JoinRequest {
  std::string group;  // names it in the store, with `ranks`, and in errors
  Rank rank{};
  int size = 1;
  Duration timeout{};     // zero: Options::connect_timeout
  Duration op_timeout{};  // zero: Options::timeout; default of this group's ops
  // Who is in it, by rank: numbers in `parent`, or in whatever the caller numbers processes by.
  std::vector<Rank> ranks = {};
  // The group whose members make this one among themselves; nothing: they meet by the store alone.
  std::shared_ptr<comm::Communicator> parent = nullptr;
  std::uint64_t first_op = 0;  // number of its first collective, the same on all ranks
};

class Node {
 public:
  virtual ~Node() = default;

  // Opens the listener and starts the progress thread. kConfigError for unusable options, kSystem
  // for a port that is in use (naming address and port). `pool`: of the process, for memory that
  // the other ranks of the host read where it lies; none: one of the node's own. `driver`: of CUDA
  // devices, in place of what the option cuda_driver names.
  static Result<std::shared_ptr<Node>> create(const Options& options,
                                              std::shared_ptr<comm::MemoryPool> pool = nullptr,
                                              device::DriverTable driver = nullptr);

  // Meets the other members through the store and connects to them. Collective over the group's
  // members. kTimeout names the ranks that never came; kProtocolError a member of another version.
  // A group of a `parent` is made at once, with the places vacant whose members the parent's world
  // has lost; kPeerLost, naming them, where the loss of a peer is to raise.
  virtual Result<std::shared_ptr<comm::Communicator>> join(Store& store,
                                                           const JoinRequest& request) = 0;

  // Joins an elastic group by the option coordinator; `request` names it, its rank and size are
  // open. Returns when the group has begun with `min_peers` members, or has admitted this one at a
  // step boundary. kNotMember with the coordinator's refusal; kTimeout; kProtocolError when what
  // answers at the address is no coordinator.
  virtual Result<std::shared_ptr<comm::Communicator>> join_elastic(const JoinRequest& request,
                                                                   std::size_t min_peers) = 0;

  // Owners: the node, and the memory that came from it. Any thread.
  virtual std::shared_ptr<comm::MemoryPool> pool() const = 0;

  // The CUDA driver that the option cuda_driver names; kUnsupported, with what is missing, when it
  // cannot be opened. Any thread.
  virtual Result<device::DriverTable> cuda_driver() = 0;
  // Collectives on memory of a CUDA device, for any group of this node; the device is opened on
  // first use. Any thread.
  virtual Result<std::shared_ptr<Staged>> staged(int device) = 0;

  // Where other hosts reach this node: numeric, the first of its card.
  virtual std::string address() const = 0;

  // "host:port" where the option http serves its pages, with the real port; empty: nowhere.
  virtual std::string http_address() const = 0;
  // What /metrics says. Any thread.
  virtual std::string metrics_text(bool openmetrics) const = 0;
  // Where the layers above tell what they did; lives as long as the node. Any thread.
  virtual LayerMetrics& layers() = 0;

  // The page /stack: what writes stacks where (health/stacks.h). `file` stays open until close().
  // Any thread.
  virtual void set_stack(int file, int signal) = 0;

  // Closes all groups of this node, giving their running ops `timeout` in all, and stops its
  // thread: afterwards nothing is called back from it. For the end of the process.
  virtual void close(Duration timeout) = 0;
};

}  // namespace holdfast::runtime

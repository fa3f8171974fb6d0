// Node: the only composition root. One per process: it owns the transports, the progress thread and
// all communicators of the process.
#pragma once

#include <memory>
#include <optional>
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
  // The members, by rank: their numbers in `parent`, or in the caller's own numbering of processes.
  std::vector<Rank> ranks = {};
  // The group whose members make this one among themselves; null: the members meet by the store
  // alone.
  std::shared_ptr<comm::Communicator> parent = nullptr;
  std::uint64_t first_op = 0;  // number of its first collective, the same on all ranks
};

// A group of members of another one, which is made without a meeting.
struct DeriveRequest {
  // The members, by rank: their numbers in the parent. Empty: this process is in none of the new
  // groups; only where all members of the parent call.
  std::vector<Rank> ranks = {};
  // Only the members call, and tell this call from others by a tag; nothing: all members of the
  // parent call derive(), in the same order.
  std::optional<std::uint64_t> members_tag = {};
  std::string name = {};     // in errors; empty: the parent's, and a number
  Duration op_timeout = {};  // zero: the parent's
};

class Node {
 public:
  virtual ~Node() = default;

  // Opens the listener and starts the progress thread. kConfigError for unusable options, kSystem
  // for a port that is in use (naming address and port). `pool`: the process's pool of memory that
  // the other ranks of the host read where it lies; null: the node makes its own. `driver`: the
  // driver of CUDA devices, in place of the one that the option cuda_driver names.
  static Result<std::shared_ptr<Node>> create(const Options& options,
                                              std::shared_ptr<comm::MemoryPool> pool = nullptr,
                                              device::DriverTable driver = nullptr);

  // Meets the other members through the store and connects to them. Collective over the group's
  // members. kTimeout names the ranks that never came; kProtocolError a member of another version.
  // A group of a `parent` is made at once; ranks whose members the parent's world has lost are
  // vacant in it. Where the loss of a peer is to raise, it fails with kPeerLost, which names them.
  virtual Result<std::shared_ptr<comm::Communicator>> join(Store& store,
                                                           const JoinRequest& request) = 0;

  // Makes a group of members of `parent`, a group of this node, from what this process knows: no
  // message is sent, and nothing is waited for. All members find the same name for it
  // (group/parts/derivation.h), so all of them must call with the same ranks; groups of one call
  // have no member in common. The group begins with the view of the parent's last step boundary,
  // and goes through all views since, so members that call at different times agree on its views;
  // ranks whose members were lost are vacant in it, or, where a loss is to raise, make its ops fail
  // until the advance() of the group of all. Its first collective waits for all members to have
  // made it; close() does not wait for others. Null: this process is not among the ranks.
  // kConfigError for ranks that are no members of the parent, or twice in the list, for a parent of
  // another node, and for more than kMostDerived groups at a time; kNotMember for a parent that has
  // ended. Any thread.
  virtual Result<std::shared_ptr<comm::Communicator>> derive(
      const std::shared_ptr<comm::Communicator>& parent, const DeriveRequest& request) = 0;

  // Joins an elastic group by the option coordinator; `request` names the group; its rank and size
  // are not used. Returns when the group has begun with `min_peers` members, or has admitted this
  // one at a step boundary. kNotMember with the coordinator's refusal; kTimeout; kProtocolError
  // when the process that answers at the address is no coordinator.
  virtual Result<std::shared_ptr<comm::Communicator>> join_elastic(const JoinRequest& request,
                                                                   std::size_t min_peers) = 0;

  // Owners: the node, and the memory that came from it. Any thread.
  virtual std::shared_ptr<comm::MemoryPool> pool() const = 0;

  // The CUDA driver that the option cuda_driver names; kUnsupported, with what is missing, when it
  // cannot be opened. Any thread.
  virtual Result<device::DriverTable> cuda_driver() = 0;
  // Collectives on memory of a CUDA device, for any group of this node; the device is opened on
  // first use. Any thread.
  virtual Result<std::shared_ptr<device_comm::Staged>> staged(int device) = 0;

  // Where other hosts reach this node: the first address of its card, numeric.
  virtual std::string address() const = 0;

  // "host:port", or "https://host:port" with option http_cert, where the health pages (option http)
  // are served, with the real port; empty:
  // nowhere.
  virtual std::string http_address() const = 0;
  // The option domain.
  virtual std::string domain() const = 0;
  // The text of the page /metrics. Any thread.
  virtual std::string metrics_text(bool openmetrics) const = 0;
  // Metrics that the layers above the node write; they live as long as the node. Any thread.
  virtual health::LayerMetrics& layers() = 0;

  // Configures the page /stack: which signal writes stacks to which file (health/stacks.h). `file`
  // stays open until close(). Any thread.
  virtual void set_stack(int file, int signal) = 0;

  // Closes all groups of this node, giving their running ops `timeout` in all, and stops its
  // thread: afterwards the node calls nothing back. Meant for the end of the process.
  virtual void close(Duration timeout) = 0;
};

}  // namespace holdfast::runtime

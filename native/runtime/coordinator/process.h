// Coordinator process: a runtime that has no ranks and decides the views of the members that call
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/store.h"
#include "ft/coordinator_service.h"
#include "runtime/coordinator/etcd/lease.h"
#include "runtime/options.h"
#include "runtime/relay/relay_server.h"
#include "secure/token.h"

namespace holdfast::runtime {

struct CoordinatorOptions {
  std::size_t min_peers = 1;      // of groups whose first member does not ask for more
  std::optional<Duration> grace;  // as in ft::CoordinatorService::Settings
  Duration keep = ft::kKeepWorlds;
  // Where its decisions are kept: the path of a file, a store, or the etcd of a lease by which it
  // leads; none of them: nowhere.
  std::string record_file;
  std::shared_ptr<Store> record_store;  // owners: these options, and the caller that made it
  std::set<secure::Serial> revoked;     // tokens that let nobody in from the start
  ft::Quotas quotas;
  std::shared_ptr<EtcdLease> lease;  // owners: these options, and who waits for its end
};

class CoordinatorProcess {
 public:
  virtual ~CoordinatorProcess() = default;

  // Listens on Options::address and Options::port. kSystem for a port that is in use; errors of a
  // record file as open_record_file() has them.
  static Result<std::shared_ptr<CoordinatorProcess>> create(const Options& options,
                                                            const CoordinatorOptions& own);
  virtual std::uint16_t port() const = 0;
  // "host:port" of its health pages (option http); empty: none.
  virtual std::string http_address() const = 0;
  // What its relay has; nothing without a secret. Any thread.
  virtual RelayServer::RelayCounts relay_counts() const = 0;
  // The worlds that it knows. Any thread.
  virtual std::vector<ft::CoordinatorService::WorldStanding> worlds() = 0;
  // The tokens that let nobody in, from now on; members that came in by one leave their worlds at
  // once. Any thread.
  virtual void revoke(const std::set<secure::Serial>& serials) = 0;
  // Looks whether the files of certificates have changed (options tls_*); members whose certificate
  // does not count any more leave their worlds at once. What is to be told, each once. One thread
  // at a time.
  virtual std::vector<std::string> look_at_certificates() = 0;
  // Stops; the members go on without it until they need a decision.
  virtual void close() = 0;
};

}  // namespace holdfast::runtime

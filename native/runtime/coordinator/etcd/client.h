// Client of etcd (v3, by its JSON gateway): each request goes to the members in turn until one
// answers, within one time limit. All answers are of one cluster: two clusters could each elect a
// leader.
//
// Thread: one at a time; a copy is a client of its own.
// Why: docs/decisions/0158-etcd-elects-and-records.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/coordinator/etcd/exchange.h"
#include "runtime/coordinator/etcd/lookup.h"
#include "runtime/coordinator/etcd/messages.h"
#include "runtime/coordinator/etcd/url.h"

namespace holdfast::runtime {

class EtcdClient {
 public:
  // `tls`: whom it believes at https://; null: where all URLs are http://.
  explicit EtcdClient(const std::vector<EtcdUrl>& urls,
                      std::shared_ptr<const secure::TlsContext> tls = nullptr);

  // kSystem: none has answered, or etcd could not; kProtocolError: what answers is no etcd, or not
  // of this cluster; kNotMember: the lease has ended. A change may have happened whatever the error
  // is.
  Result<EtcdGrant> grant(std::int64_t ttl_s, Duration patience);
  Result<EtcdGrant> keep(std::int64_t lease, Duration patience);
  Status give_back(std::int64_t lease, Duration patience);
  Result<EtcdOutcome> transact(const EtcdTransaction& transaction, Duration patience);

 private:
  struct Server {
    EtcdUrl url;
    HostLookup lookup;
  };
  template <class Read>
  auto ask(const std::string& path, const std::string& body, Duration patience, Read read)
      -> decltype(read(body));
  Result<HttpAnswer> ask_one(Server& server, const std::string& path, const std::string& body,
                             Instant deadline);
  Status look_at(const Server& server, const EtcdHeader& header);

  MonotonicClock clock_;
  std::vector<Server> servers_;
  std::shared_ptr<const secure::TlsContext> tls_;  // owners: clients, and the lease that made them
  std::size_t next_ = 0;                           // the server that answered last
  std::uint64_t cluster_ = 0;                      // 0: none has answered yet
};

}  // namespace holdfast::runtime

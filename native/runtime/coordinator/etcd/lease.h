// Lease: one of several coordinators leads, for as long as it keeps a lease of etcd's. Who finds no
// leader takes a lease and writes itself down with it, in one transaction; etcd removes what was
// written when the lease ends. Each leader gets a term, a number above those of all leaders before.
//
// By its own clock a leader leads until one TTL after it has sent the last request that kept the
// lease, which is before etcd ends it. That is a courtesy: what protects the record is that each
// change of it names the leader (condition()).
// Why: docs/decisions/0158-etcd-elects-and-records.md
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/coordinator/etcd/client.h"

namespace holdfast::runtime {

// etcd grants no less than one and a half of its election timeouts (1 s, if not told otherwise).
inline constexpr std::chrono::seconds kShortestTtl{2};
// Nothing is decided for so long when a leader's machine is lost: more is a mistake.
inline constexpr std::chrono::seconds kLongestTtl{600};
// Time limit of a request, if the lease does not end before. Several round trips, a member that is
// tried in vain, and a disk that is slow.
inline constexpr Duration kEtcdPatience = std::chrono::seconds(2);

// What lives of coordinators are numbered by where no term is known: two begin further apart than
// that.
std::uint64_t tenths_since_1970();

class EtcdLease {
 public:
  struct LeaseSettings {
    std::vector<EtcdUrl> urls;
    std::chrono::seconds ttl{5};
    std::string who;                                     // what other coordinators are told
    std::shared_ptr<const secure::TlsContext> tls = {};  // as EtcdClient has it
  };

  explicit EtcdLease(LeaseSettings settings);
  ~EtcdLease();
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  // Waits until this coordinator leads, for about `patience`, a request's time limit more at most.
  // False: another one leads. Errors as EtcdClient has them; nothing is lost by asking again.
  // Holder only, like close().
  Result<bool> acquire(Duration patience);
  // Gives the lease back, if it has one, so that another may lead at once.
  void close();

  // Any thread:
  bool still_leads() const { return left() > Duration{}; }
  // Until when it leads by its own clock; zero: it does not.
  Duration left() const;
  // Whether it leads no more; waits for that, for `patience` at most.
  bool wait_lost(Duration patience);
  // To be called by whoever finds that another one leads.
  void lose(const std::string& why);
  std::string why_lost() const;
  // Who leads, as acquire() has found; empty: nobody did.
  std::string leader() const;
  std::uint64_t term() const;
  // Holds as long as etcd knows this leader.
  EtcdCondition condition() const;
  // A client of its own, which asks the same cluster.
  EtcdClient client() const;

 private:
  Result<bool> try_once();
  Result<bool> stand(const EtcdOutcome& found);
  Status begin(std::int64_t lease, std::int64_t created, std::uint64_t term, Duration until);
  void keep(std::int64_t lease);
  Duration keep_once(EtcdClient& client, std::int64_t lease, std::string& error);
  void stop_keeping();

  LeaseSettings settings_;
  EtcdClient client_;         // holder only
  std::int64_t given_ = 0;    // the lease that etcd may still have; holder only
  std::thread keeper_;        // holder only
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changes_;
  bool stop_ = false;         // the keeper's end
  Duration until_{};          // since the system's start, its sleep included; zero: does not lead
  std::int64_t created_ = 0;  // the election key's revision
  std::uint64_t term_ = 0;
  std::string leader_;
  std::string why_lost_;
};

}  // namespace holdfast::runtime

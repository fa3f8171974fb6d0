// Record in etcd: a leader's decisions, one key for each world. Each change is one transaction: the
// world's key has the value that the leader knows, and this leader is the one that etcd knows. So a
// leader that has slept through its lease changes nothing, whatever its clock says.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ft/record.h"
#include "runtime/coordinator/etcd/lease.h"

namespace holdfast::runtime {

class EtcdRecord final : public ft::Record {
 public:
  // `lease` leads. Owners: this, and who waits for its end.
  explicit EtcdRecord(std::shared_ptr<EtcdLease> lease)
      : lease_(std::move(lease)), leads_(lease_->condition()), client_(lease_->client()) {}

  Result<std::optional<ft::WorldRecord>> load(const std::string& name) override;
  Result<bool> compare_and_set(const std::string& name,
                               const std::optional<ft::WorldRecord>& expected,
                               const std::optional<ft::WorldRecord>& next) override;

 private:
  Result<EtcdOutcome> transact(const EtcdTransaction& transaction);
  Status deposed();

  std::shared_ptr<EtcdLease> lease_;
  EtcdCondition leads_;
  EtcdClient client_;
};

}  // namespace holdfast::runtime

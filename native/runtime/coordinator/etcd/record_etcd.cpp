#include "runtime/coordinator/etcd/record_etcd.h"

#include <algorithm>

#include "base/json_reader.h"
#include "runtime/coordinator/record_text.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMostShownRecord = 80;

std::string world_key(const std::string& name) { return "holdfast/world/" + name; }

std::string text_of(const std::optional<EtcdEntry>& entry) {
  return entry ? entry->value : record_text(std::nullopt);
}

}  // namespace

Status EtcdRecord::deposed() {
  lease_->lose("another coordinator leads");
  return {Code::kNotMember, "this coordinator leads no more"};
}

Result<EtcdOutcome> EtcdRecord::transact(const EtcdTransaction& transaction) {
  const Duration left = lease_->left();
  if (left <= Duration{}) {
    return Status{Code::kNotMember, "this coordinator leads no more: " + lease_->why_lost()};
  }
  auto outcome = client_.transact(transaction, std::min(left, kEtcdPatience));
  if (!outcome.is_ok()) return outcome;
  const auto& done = outcome.value().held ? transaction.then : transaction.otherwise;
  if (outcome.value().entries.size() != done.size()) {
    return Status{Code::kProtocolError, "etcd answers another question"};
  }
  return outcome;
}

Result<std::optional<ft::WorldRecord>> EtcdRecord::load(const std::string& name) {
  auto outcome =
      transact({.conditions = {leads_}, .then = {{EtcdAction::EtcdVerb::kRead, world_key(name)}}});
  if (!outcome.is_ok()) return outcome.status();
  if (!outcome.value().held) return deposed();
  const std::string text = text_of(outcome.value().entries[0]);
  auto record = parse_record(text);
  if (record.is_ok()) return record;
  return Status{Code::kProtocolError, "etcd, key " + world_key(name) + ": \"" +
                                          shown_text(text, kMostShownRecord) +
                                          "\" was not written by a coordinator"};
}

Result<bool> EtcdRecord::compare_and_set(const std::string& name,
                                         const std::optional<ft::WorldRecord>& expected,
                                         const std::optional<ft::WorldRecord>& next) {
  using Target = EtcdCondition::EtcdTarget;
  using Verb = EtcdAction::EtcdVerb;
  const std::string key = world_key(name);
  EtcdTransaction change;
  change.conditions = {leads_, {Target::kCreated, key}};
  if (expected) change.conditions[1] = {Target::kValue, key, 0, record_text(expected)};
  change.then = {{Verb::kDelete, key}};
  if (next) change.then = {{Verb::kPut, key, record_text(next)}};
  change.otherwise = {{Verb::kRead, leads_.key}, {Verb::kRead, key}};
  auto outcome = transact(change);
  if (!outcome.is_ok()) return outcome.status();
  if (outcome.value().held) return true;
  const auto& leader = outcome.value().entries[0];
  if (!leader || leader->create_revision != leads_.revision) return deposed();
  // A request whose answer was lost has done it.
  return text_of(outcome.value().entries[1]) == record_text(next);
}

}  // namespace holdfast::runtime

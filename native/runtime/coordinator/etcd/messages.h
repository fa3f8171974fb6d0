// Messages of etcd's JSON gateway (v3): the texts that a coordinator sends, and the little that it
// reads of the answers. Pure. An answer is read without trust: what answers at an address may be
// anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace holdfast::runtime {

// What each answer begins with.
struct EtcdHeader {
  std::uint64_t cluster = 0;
  std::int64_t revision = 0;  // of the whole store; the one that a change in this request got
};

struct EtcdGrant {
  EtcdHeader header;
  std::int64_t lease = 0;
  std::int64_t ttl_s = 0;  // 0: the lease has ended
};

// A key as it is in the store. Revisions are above 0; in a comparison 0 means that there is none.
struct EtcdEntry {
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
};

struct EtcdCondition {
  enum class EtcdTarget { kCreated, kModified, kValue };
  EtcdTarget target = EtcdTarget::kCreated;
  std::string key;
  std::int64_t revision = 0;
  std::string value = {};
};

struct EtcdAction {
  enum class EtcdVerb { kRead, kPut, kDelete };
  EtcdVerb verb = EtcdVerb::kRead;
  std::string key;
  std::string value = {};
  std::int64_t lease = 0;  // the key goes with it; 0: with none
};

// If all conditions hold: `then`; else: `otherwise`. Conditions and actions are one step for all
// who share the store.
struct EtcdTransaction {
  std::vector<EtcdCondition> conditions = {};
  std::vector<EtcdAction> then = {};
  std::vector<EtcdAction> otherwise = {};
};

struct EtcdOutcome {
  EtcdHeader header;
  bool held = false;  // the conditions
  // By action that was done; nullopt: it was no read, or there is no such key.
  std::vector<std::optional<EtcdEntry>> entries;
};

std::string grant_text(std::int64_t ttl_s);
// Names a lease: to keep it, and to give it back.
std::string lease_text(std::int64_t lease);
std::string transaction_text(const EtcdTransaction& transaction);

// Of the body of an answer with status 200; kProtocolError for one that etcd does not give.
Result<EtcdGrant> read_grant(std::string_view body);
Result<EtcdGrant> read_kept(std::string_view body);
Result<EtcdHeader> read_given_back(std::string_view body);
Result<EtcdOutcome> read_outcome(std::string_view body);

// What an answer with another status says; nullopt: it is none of etcd's.
std::optional<std::string> read_refusal(std::string_view body);

}  // namespace holdfast::runtime

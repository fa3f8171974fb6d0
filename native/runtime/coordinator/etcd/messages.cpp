#include "runtime/coordinator/etcd/messages.h"

#include <charconv>

#include "base/base64.h"
#include "base/json_reader.h"

namespace holdfast::runtime {
namespace {

// An answer has a few levels and, of each action, a few values.
constexpr JsonLimits kEtcdJsonLimits{.bytes = 1u << 20, .values = 4096, .fields = 32, .depth = 12};
constexpr std::size_t kMostShownJson = 80;

std::string quoted(const std::string& text) { return "\"" + encode_base64(text) + "\""; }
std::string number_text(std::int64_t value) { return "\"" + std::to_string(value) + "\""; }

std::string condition_text(const EtcdCondition& condition) {
  using Target = EtcdCondition::EtcdTarget;
  std::string text = R"({"result":"EQUAL","key":)" + quoted(condition.key);
  switch (condition.target) {
    case Target::kCreated:
      return text + R"(,"target":"CREATE","create_revision":)" + number_text(condition.revision) +
             "}";
    case Target::kModified:
      return text + R"(,"target":"MOD","mod_revision":)" + number_text(condition.revision) + "}";
    case Target::kValue: break;
  }
  return text + R"(,"target":"VALUE","value":)" + quoted(condition.value) + "}";
}

std::string action_text(const EtcdAction& action) {
  using Verb = EtcdAction::EtcdVerb;
  const std::string key = R"({"key":)" + quoted(action.key);
  switch (action.verb) {
    case Verb::kRead: return R"({"request_range":)" + key + "}}";
    case Verb::kDelete: return R"({"request_delete_range":)" + key + "}}";
    case Verb::kPut: break;
  }
  const std::string lease = action.lease == 0 ? "" : ",\"lease\":" + number_text(action.lease);
  return R"({"request_put":)" + key + ",\"value\":" + quoted(action.value) + lease + "}}";
}

template <class Item, class Text>
std::string list_text(const std::vector<Item>& items, Text text) {
  std::string list = "[";
  for (const Item& item : items) list += (list.size() > 1 ? "," : "") + text(item);
  return list + "]";
}

Status foreign(std::string_view body, const std::string& what) {
  return {Code::kProtocolError, what + ": \"" + shown_text(body, kMostShownJson) + "\""};
}

// 64-bit numbers are texts in this JSON; a field that is 0 is left out.
template <class Number>
bool take_number(const JsonValue& object, std::string_view name, Number& number) {
  const JsonValue* field = object.find(name);
  if (field == nullptr) return true;
  if (!field->is(JsonKind::kText) || field->text.empty()) return false;
  const char* end = field->text.data() + field->text.size();
  const auto [at, error] = std::from_chars(field->text.data(), end, number);
  return error == std::errc{} && at == end && number >= 0;
}

const JsonValue* find_object(const JsonValue& object, std::string_view name) {
  const JsonValue* field = object.find(name);
  return field != nullptr && field->is(JsonKind::kObject) ? field : nullptr;
}

bool take_header(const JsonValue& object, EtcdHeader& header) {
  const JsonValue* field = find_object(object, "header");
  return field != nullptr && take_number(*field, "cluster_id", header.cluster) &&
         take_number(*field, "revision", header.revision) && header.cluster != 0;
}

bool take_bytes(const JsonValue& object, std::string_view name, std::string& bytes) {
  const JsonValue* field = object.find(name);
  if (field == nullptr) return true;
  if (!field->is(JsonKind::kText)) return false;
  auto parsed = decode_base64(field->text);
  if (!parsed) return false;
  bytes = *std::move(parsed);
  return true;
}

Result<JsonValue> read_object(std::string_view body) {
  auto value = read_json(body, kEtcdJsonLimits);
  if (!value.is_ok()) return foreign(body, "no JSON (" + value.status().message() + ")");
  if (!value.value().is(JsonKind::kObject)) return foreign(body, "no object");
  return value;
}

bool take_grant(const JsonValue& object, EtcdGrant& grant) {
  return take_header(object, grant.header) && take_number(object, "ID", grant.lease) &&
         take_number(object, "TTL", grant.ttl_s) && grant.lease != 0;
}

// One item of "responses": {"response_range":{"kvs":[{...}]}}.
bool take_entry(const JsonValue& item, std::optional<EtcdEntry>& entry) {
  if (!item.is(JsonKind::kObject)) return false;
  const JsonValue* range = find_object(item, "response_range");
  if (range == nullptr) return true;
  const JsonValue* found = range->find("kvs");
  if (found == nullptr) return true;
  if (!found->is(JsonKind::kList) || found->items.size() > 1) return false;
  if (found->items.empty()) return true;
  const JsonValue& one = found->items.front();
  EtcdEntry read;
  const bool sound = one.is(JsonKind::kObject) && take_bytes(one, "value", read.value) &&
                     take_number(one, "create_revision", read.create_revision) &&
                     take_number(one, "mod_revision", read.mod_revision) &&
                     read.create_revision > 0 && read.mod_revision > 0;
  if (sound) entry = std::move(read);
  return sound;
}

}  // namespace

std::string grant_text(std::int64_t ttl_s) { return "{\"TTL\":" + number_text(ttl_s) + "}"; }

std::string lease_text(std::int64_t lease) { return "{\"ID\":" + number_text(lease) + "}"; }

std::string transaction_text(const EtcdTransaction& transaction) {
  return "{\"compare\":" + list_text(transaction.conditions, condition_text) +
         ",\"success\":" + list_text(transaction.then, action_text) +
         ",\"failure\":" + list_text(transaction.otherwise, action_text) + "}";
}

Result<EtcdGrant> read_grant(std::string_view body) {
  auto object = read_object(body);
  if (!object.is_ok()) return object.status();
  EtcdGrant grant;
  if (!take_grant(object.value(), grant) || grant.ttl_s == 0) {
    return foreign(body, "no lease of etcd's");
  }
  return grant;
}

Result<EtcdGrant> read_kept(std::string_view body) {
  auto object = read_object(body);
  if (!object.is_ok()) return object.status();
  const JsonValue* result = find_object(object.value(), "result");
  EtcdGrant grant;
  if (result == nullptr || !take_grant(*result, grant)) return foreign(body, "no lease of etcd's");
  return grant;
}

Result<EtcdHeader> read_given_back(std::string_view body) {
  auto object = read_object(body);
  if (!object.is_ok()) return object.status();
  EtcdHeader header;
  if (!take_header(object.value(), header)) return foreign(body, "no header of etcd's");
  return header;
}

Result<EtcdOutcome> read_outcome(std::string_view body) {
  auto object = read_object(body);
  if (!object.is_ok()) return object.status();
  EtcdOutcome outcome;
  bool sound = take_header(object.value(), outcome.header);
  const JsonValue* held = object.value().find("succeeded");
  if (held != nullptr) {
    sound = sound && held->is(JsonKind::kFlag);
    outcome.held = held->flag;
  }
  const JsonValue* answers = object.value().find("responses");
  if (answers != nullptr) {
    sound = sound && answers->is(JsonKind::kList);
    for (const JsonValue& item : answers->items) {
      sound = sound && take_entry(item, outcome.entries.emplace_back());
    }
  }
  if (!sound) return foreign(body, "no transaction of etcd's");
  return outcome;
}

std::optional<std::string> read_refusal(std::string_view body) {
  const auto object = read_object(body);
  if (!object.is_ok()) return std::nullopt;
  for (const char* name : {"error", "message"}) {
    const JsonValue* said = object.value().find(name);
    if (said != nullptr && said->is(JsonKind::kText)) return shown_text(said->text, kMostShownJson);
  }
  return std::nullopt;
}

}  // namespace holdfast::runtime

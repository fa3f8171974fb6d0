#include "runtime/coordinator/record_store.h"

#include "runtime/coordinator/record_text.h"

namespace holdfast::runtime {
namespace {

// Time limit of an access to the store; the coordinator does nothing else meanwhile.
constexpr Duration kStorePatience = std::chrono::seconds(2);

std::string key_of(const std::string& name) { return "holdfast/record/" + name; }

Result<std::optional<ft::WorldRecord>> parse_value(const std::string& name,
                                                   const std::string& text) {
  if (text.empty()) return std::optional<ft::WorldRecord>{};
  auto record = parse_record(text);
  if (record.is_ok()) return record;
  return Status{Code::kProtocolError, "store, key " + key_of(name) + ": \"" + text.substr(0, 80) +
                                          "\" was not written by a coordinator"};
}

}  // namespace

Result<std::string> RecordStore::load_text(const std::string& name) {
  auto there = store_.has(key_of(name));
  if (!there.is_ok()) return there.status();
  if (!there.value()) return std::string{};
  return store_.get(key_of(name), kStorePatience);
}

Result<std::optional<ft::WorldRecord>> RecordStore::load(const std::string& name) {
  auto text = load_text(name);
  if (!text.is_ok()) return text.status();
  return parse_value(name, text.value());
}

Result<bool> RecordStore::compare_and_set(const std::string& name,
                                          const std::optional<ft::WorldRecord>& expected,
                                          const std::optional<ft::WorldRecord>& next) {
  auto text = load_text(name);
  if (!text.is_ok()) return text.status();
  auto said = parse_value(name, text.value());
  if (!said.is_ok()) return said.status();
  if (said.value() != expected) return false;
  const std::string wanted = record_text(next);
  auto now = store_.compare_set(key_of(name), text.value(), wanted);
  if (!now.is_ok()) return now.status();
  return now.value() == wanted;
}

}  // namespace holdfast::runtime

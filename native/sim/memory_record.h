// Memory record: a coordinator's record that outlives its lives in one simulation or test.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ft/record.h"

namespace holdfast::sim {

class MemoryRecord final : public ft::Record {
 public:
  Result<std::optional<ft::WorldRecord>> load(const std::string& name) override {
    if (fails) return Status{Code::kSystem, "out of reach"};
    const auto at = worlds.find(name);
    return at == worlds.end() ? std::nullopt : std::optional(at->second);
  }

  Result<bool> compare_and_set(const std::string& name,
                               const std::optional<ft::WorldRecord>& expected,
                               const std::optional<ft::WorldRecord>& next) override {
    auto said = load(name);
    if (!said.is_ok()) return said.status();
    if (said.value() != expected) return false;
    worlds.erase(name);
    if (next) worlds.emplace(name, *next);
    if (written) written();
    return true;
  }

  std::map<std::string, ft::WorldRecord> worlds;
  bool fails = false;
  std::function<void()> written;  // called after each change
};

}  // namespace holdfast::sim

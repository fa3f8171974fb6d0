// Quotas: how many members and groups a run may have at a coordinator, and how many places in
// lobbies those have who share a token. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace holdfast::ft {

// Of a token that does not say how many processes it lets in: a lobby is for processes that come
// in at the next step boundary, and holds 1024.
inline constexpr std::size_t kLobbyPlaces = 64;

struct RunQuota {
  std::optional<std::size_t> members;  // processes in its groups and lobbies; nullopt: no limit
  std::optional<std::size_t> groups;
  friend bool operator==(const RunQuota&, const RunQuota&) = default;
};

// What a run has.
struct RunUse {
  std::size_t members = 0;  // in views
  std::size_t waiting = 0;  // in lobbies, and in no view
  std::size_t groups = 0;   // that have begun
  std::size_t lobbies = 0;  // of groups that have not
};

class Quotas {
 public:
  // The quota of a run that has none of its own.
  static constexpr const char* kEveryRun = "*";

  // Adds "RUN=members:N,groups:M". kConfigError, with what is accepted.
  Status add(const std::string& text);
  RunQuota of(const std::string& run) const;

 private:
  std::map<std::string, RunQuota> by_run_;
};

// The run that a world belongs to: what its name begins with; a world of no run is one by itself.
std::string run_of_world(const std::string& world);

}  // namespace holdfast::ft

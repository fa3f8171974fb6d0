// Plan table: how long algorithms took where they were measured, and the constants of the cost
// model that follow from it. A look-up names the fastest algorithm. Pure values, with a text of one
// line per measurement, so that tables can be read, compared and put together with ordinary tools.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/schedule/collective.h"
#include "topology/cost_model.h"

namespace holdfast::comm {

// As an algorithm: what Holdfast does on one host without one, through shared memory.
inline constexpr std::string_view kSharedMemory = "shared_memory";

// Where the ranks of a group are; the same on all of them.
struct Placement {
  int ranks = 1;
  int hosts = 1;
  bool shared = false;  // all of them use shared memory
  friend auto operator<=>(const Placement&, const Placement&) = default;
};

struct PlanKey {
  Collective collective{};
  Placement place;
  friend auto operator<=>(const PlanKey&, const PlanKey&) = default;
};

struct PlanRow {
  PlanKey key;
  std::uint64_t bytes = 0;  // payload, as the cost model counts it
  std::string algorithm;    // of the catalogue, or kSharedMemory
  double seconds = 0;
  friend bool operator==(const PlanRow&, const PlanRow&) = default;
};

class PlanTable {
 public:
  // Replaces the row of the same algorithm and about the same size.
  void add(PlanRow row);
  void merge(const PlanTable& other);
  void set_link(bool shared, const topology::LinkModel& link);

  // The fastest algorithm at about `bytes` (of the same power of two); with `or_near`, else at half
  // or twice as much. Nothing: not measured. For all_to_all the table holds calls with equal
  // blocks.
  std::optional<std::string_view> find(const PlanKey& key, std::uint64_t bytes, bool or_near) const;
  // The table's constants, or the built-in ones.
  topology::LinkModel link(bool shared) const;
  std::vector<PlanRow> rows() const;  // in order of key and size
  bool empty() const { return sizes_.empty() && !links_[0] && !links_[1]; }

  std::string text() const;
  // kConfigError naming line and value.
  static Result<PlanTable> parse(std::string_view text);

 private:
  using Rows = std::vector<PlanRow>;  // rows of one size: one per algorithm
  std::map<PlanKey, std::map<int, Rows>> sizes_;
  std::optional<topology::LinkModel> links_[2];  // across sockets, through shared memory
};

}  // namespace holdfast::comm

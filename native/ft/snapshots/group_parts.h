// Parts of a group: what is there of one code group's share of one snapshot, over all places, and
// whether that is enough.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ft/snapshots/choice.h"
#include "ft/snapshots/code_places.h"

namespace holdfast::ft {

class GroupShare {
 public:
  explicit GroupShare(const PartReport& first);

  // Places must be added from the nearest on. The report stays the caller's, and alive.
  void add(const PartReport& part);
  const std::vector<int>& ranks() const { return ranks_; }
  // Which rank cannot be had from places up to this one, and why; empty: all can.
  std::string lacks(PartPlace most) const;
  RankSource source(std::size_t seat, PartPlace most) const;

 private:
  using Offsets = std::set<std::uint64_t>;

  bool has_tile(std::size_t seat, std::uint64_t tile, PartPlace most) const;
  bool has_row(std::size_t seat, int row, std::optional<std::uint64_t> tile, PartPlace most) const;
  const PartReport* body_of(std::size_t seat, PartPlace most) const;
  Offsets offsets() const;
  // How many of the codeword's parts are lost there, and whether data is among them.
  std::pair<int, int> lost(int codeword, std::optional<std::uint64_t> offset, PartPlace most) const;

  std::vector<int> ranks_;
  CodePlaces places_;
  std::uint64_t slice_tiles_;
  std::vector<std::vector<const PartReport*>> seats_;
};

}  // namespace holdfast::ft

// Fabrics: where the ranks of a view are, and what their links do, by op: the map of links may
// change, at the same op on all members.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.h"
#include "topology/fabric.h"

namespace holdfast::comm {

class Fabrics {
 public:
  Fabrics() : Fabrics(topology::Fabric{}) {}
  // `version`: of the map that the fabric is on; 0: none was taken.
  Fabrics(topology::Fabric first,
          std::uint32_t version = 0) {  // NOLINT(*-explicit-*): the usual case
    all_.push_back({OpSeq{}, std::move(first), version});
  }

  // The fabric of ops from `from` on, which is no less than those before.
  void add(OpSeq from, topology::Fabric fabric, std::uint32_t version) {
    if (all_.back().from == from) all_.pop_back();
    all_.push_back({from, std::move(fabric), version});
  }
  // Until the next add().
  const topology::Fabric& of(OpSeq op) const { return at(op).fabric; }
  std::uint32_t version_of(OpSeq op) const { return at(op).version; }
  // Tells the fabrics apart.
  std::size_t number_of(OpSeq op) const { return static_cast<std::size_t>(&at(op) - all_.data()); }
  const topology::Fabric& latest() const { return all_.back().fabric; }
  std::uint32_t latest_version() const { return all_.back().version; }

 private:
  struct FabricFrom {
    OpSeq from;
    topology::Fabric fabric;
    std::uint32_t version = 0;
  };
  const FabricFrom& at(OpSeq op) const {
    std::size_t i = all_.size() - 1;
    while (i > 0 && op < all_[i].from) --i;
    return all_[i];
  }

  std::vector<FabricFrom> all_;  // one at least
};

}  // namespace holdfast::comm

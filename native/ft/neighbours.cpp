#include "ft/neighbours.h"

#include <algorithm>

namespace holdfast::ft {
namespace {

// Whether two places of a ring of `size` are no more than kNearRanks apart.
bool is_near(std::size_t a, std::size_t b, std::size_t size) {
  const std::size_t apart = a > b ? a - b : b - a;
  return std::min(apart, size - apart) <= kNearRanks;
}

std::vector<MemberId> select(const std::vector<MemberId>& present, MemberId self, bool star) {
  const auto at = std::find(present.begin(), present.end(), self);
  if (self == kNobody || at == present.end()) return {};
  const auto own = static_cast<std::size_t>(at - present.begin());
  std::vector<MemberId> chosen;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const bool in_star = star && (own == 0 || i == 0);
    if (i != own && (in_star || is_near(own, i, present.size()))) chosen.push_back(present[i]);
  }
  return chosen;
}

}  // namespace

bool is_sparse(Mesh mesh, std::size_t ranks) {
  return mesh == Mesh::kSparse || (mesh == Mesh::kAuto && ranks > kMostFullRanks);
}

std::vector<MemberId> neighbours(const WorldView& view, MemberId self, bool led) {
  return select(view.present(), self, !led);
}

std::vector<MemberId> near_members(const std::vector<MemberId>& members, MemberId self) {
  std::vector<MemberId> present;
  for (const MemberId member : members) {
    if (member != kNobody) present.push_back(member);
  }
  return select(present, self, false);
}

}  // namespace holdfast::ft

#include "comm/schedule/places.h"

#include <algorithm>
#include <set>

namespace holdfast::comm {

Spread spread_of(const std::vector<int>& host_of) {
  std::set<int> hosts;
  Spread spread{0, 0};
  for (const int host : host_of) {
    if (host < 0) continue;
    ++spread.ranks;
    hosts.insert(host);
  }
  spread.hosts = static_cast<int>(hosts.size());
  return spread;
}

Places::Places(const BuildSpec& spec) {
  for (int r = 0; r < spec.size; ++r) {
    const std::size_t h = host_of(spec, r);
    if (h >= ranks.size()) ranks.resize(h + 1);
    if (r == spec.rank.value) {
      host = h;
      place = ranks[h].size();
    }
    ranks[h].push_back(r);
  }
}

std::size_t Places::host_of(const BuildSpec& spec, int rank) {
  return spec.hosts.empty() ? 0
                            : static_cast<std::size_t>(spec.hosts[static_cast<std::size_t>(rank)]);
}

std::size_t Places::place_of(int rank, std::size_t on) const {
  const auto& all = ranks[on];
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
}

std::size_t Places::smallest() const {
  std::size_t least = ranks[0].size();
  for (const auto& all : ranks) least = std::min(least, all.size());
  return least;
}

Slot fold(Builder& b, const std::vector<int>& peers, int self, int chunk, bool last) {
  const Slot own = Builder::input(chunk);
  Slot sum = own;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Slot operand = own;
    if (peers[i] != self) {
      operand = b.scratch(own);
      b.recv(peers[i], operand);
    }
    if (i == 0) {
      sum = operand;
    } else if (last && i + 1 == peers.size()) {
      b.reduce_final(Builder::output(chunk), sum, operand);
      sum = Builder::output(chunk);
    } else {
      const Slot next = b.scratch(own);
      b.reduce(next, sum, operand);
      sum = next;
    }
  }
  return sum;
}

}  // namespace holdfast::comm

// Contribution: the symbolic value of a chunk: which input chunks of which ranks have been reduced
// into it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::comm {

// One rank's input chunk.
struct Atom {
  std::uint32_t rank;
  std::uint32_t chunk;
  friend auto operator<=>(const Atom&, const Atom&) = default;
};

// A sorted set of atoms, without doubles: the verifier refuses to add an atom twice.
class Contribution {
 public:
  Contribution() = default;
  explicit Contribution(Atom atom) : atoms_{atom} {}

  bool empty() const { return atoms_.empty(); }
  const std::vector<Atom>& atoms() const { return atoms_; }
  friend bool operator==(const Contribution&, const Contribution&) = default;

  // An atom that both contributions have, or nullptr.
  static const Atom* common(const Contribution& a, const Contribution& b) {
    auto i = a.atoms_.begin();
    auto j = b.atoms_.begin();
    while (i != a.atoms_.end() && j != b.atoms_.end()) {
      if (*i == *j) return &*i;
      if (*i < *j)
        ++i;
      else
        ++j;
    }
    return nullptr;
  }

  static Contribution together(const Contribution& a, const Contribution& b) {
    Contribution sum;
    std::set_union(a.atoms_.begin(), a.atoms_.end(), b.atoms_.begin(), b.atoms_.end(),
                   std::back_inserter(sum.atoms_));
    return sum;
  }

 private:
  std::vector<Atom> atoms_;
};

}  // namespace holdfast::comm

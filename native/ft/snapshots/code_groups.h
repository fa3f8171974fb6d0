// Code groups: which ranks guard each other's snapshots with a Reed-Solomon code, such that no host
// (or whatever the domain is) has two parts of one group. Pure: the same on all ranks.
//
// Every rank is in one group. A group of n ranks with m parities has k = n - m data parts, and
// stands the loss of any m of its hosts. Groups that cannot be of k + m have fewer data parts, or
// more where even that cannot be, never fewer parities.
// Why: docs/decisions/0187-snapshots-commit-by-an-op-of-the-keepers.md
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace holdfast::ft {

// Cauchy matrices over GF(2^8) have so many rows and columns together.
inline constexpr int kMostCodeParts = 256;

struct CodeWanted {
  int data = 1;    // k
  int parity = 0;  // m; 0: no code
};

struct CodeGroup {
  std::vector<int> ranks;  // the n seats, in the order of hosts
  int parity = 0;
  int data() const { return static_cast<int>(ranks.size()) - parity; }
  friend bool operator==(const CodeGroup&, const CodeGroup&) = default;
};

struct CodePlan {
  std::vector<CodeGroup> groups;
  std::string said;  // what users should know of it; empty: nothing
};

// `domains` has each rank's host, or what else is lost as a whole.
Result<CodePlan> code_groups(std::span<const std::string> domains, const CodeWanted& wanted);

// The code for a job that goes on with fewer hosts: fewer data parts, never fewer parities.
Result<CodeWanted> code_for_hosts(int hosts, const CodeWanted& wanted);

}  // namespace holdfast::ft

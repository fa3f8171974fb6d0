// The cost model is the alpha-beta-gamma model: time = messages * alpha + bytes on the wire * beta
// + bytes reduced * gamma. Source: Hockney 1994; Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH", IJHPCA 2005, section 2. It is pure arithmetic;
// other code measures the constants.
#pragma once

namespace holdfast::topology {

struct LinkModel {
  double alpha_s;           // latency of one message
  double beta_s_per_byte;   // inverse bandwidth
  double gamma_s_per_byte;  // inverse rate of reduction
  friend constexpr bool operator==(const LinkModel&, const LinkModel&) = default;
};

struct CostTerms {
  double messages;       // on the critical path, one after the other
  double wire_bytes;     // sent by the busiest rank
  double reduced_bytes;  // by the busiest rank
};

constexpr double predict_seconds(const CostTerms& t, const LinkModel& link) {
  return t.messages * link.alpha_s + t.wire_bytes * link.beta_s_per_byte +
         t.reduced_bytes * link.gamma_s_per_byte;
}

// ceil(log2 count): rounds of doubling until `count` are reached.
constexpr double doublings(int count) {
  double rounds = 0;
  for (int reached = 1; reached < count; reached *= 2) ++rounds;
  return rounds;
}

// Defaults, measured on two-core loopback machines; `holdfast bench` replaces them by measured ones
// later.
inline constexpr LinkModel kShmLink{4e-6, 1.0 / 6e9, 1.0 / 12e9};
inline constexpr LinkModel kTcpLink{20e-6, 1.0 / 2.5e9, 1.0 / 12e9};

}  // namespace holdfast::topology

// The code of snapshots: systematic Reed-Solomon over GF(2^8). k data shards, one of each host of a
// group, have m parity shards, so that any k of the k + m give the others. Sans-IO: a plan says
// which shards are multiplied by what; whether one host adds them up (encode(), decode()) or many
// do, tile by tile in a reduce_scatter with xor, is the caller's business.
//
// The generator is the identity over a Cauchy matrix (Bloemer et al., "An XOR-based erasure-
// resilient coding scheme", 1995), of which every square part has an inverse. Scaling rows and
// columns keeps that, and makes the first row and the first column ones: m = 1 is xor, and k = 1
// mirrors.
// Why: docs/decisions/0185-snapshots-are-coded-by-cauchy-reed-solomon.md
#pragma once

#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "erasure/matrix.h"
#include "erasure/products.h"

namespace holdfast::erasure {

// Shards of a group, data and parity. The field would take 256; but whoever restores a shard reads
// k others, and a wider group loses more hosts at a time.
inline constexpr std::size_t kMostShards = 32;

// Shards by number: data first, then parity.
using ShardSet = std::bitset<kMostShards>;

std::string to_string(const ShardSet& shards);  // "0, 3 and 4"

struct CodeShape {
  int data = 0;
  int parity = 0;

  bool operator==(const CodeShape&) const = default;
};

// wanted[r] is the sum over i of coefficients.at(r, i) * sources[i].
struct DecodePlan {
  std::vector<std::size_t> sources;  // k shard numbers, ascending
  std::vector<std::size_t> wanted;   // ascending
  SymbolMatrix coefficients;
};

struct DecodeRequest {
  ShardSet present;
  ShardSet wanted;  // lost ones; one that is present is copied
};

class ErasureCode {
 public:
  // kConfigError where the shape is none.
  static Result<ErasureCode> make(CodeShape shape);

  CodeShape shape() const;
  std::size_t data() const { return generator_.columns(); }
  std::size_t parity() const { return generator_.rows() - generator_.columns(); }
  std::size_t shards() const { return generator_.rows(); }
  // By shard and data shard.
  const SymbolMatrix& generator() const { return generator_; }
  // The part below the identity, by parity shard and data shard: what a host multiplies its own
  // shard by.
  Symbol coefficient(std::size_t parity, std::size_t data) const {
    return generator_.at(generator_.columns() + parity, data);
  }

  // Writes all parity shards in one pass over the data. Shards have `bytes` bytes, may begin
  // anywhere, and do not overlap.
  void encode(std::span<const std::byte* const> data, std::span<std::byte* const> parity,
              std::size_t bytes, ProductLoop loop = best_product_loop()) const;

  // kConfigError where a set names no shard of this code, kPeerLost where too few are present.
  Result<DecodePlan> plan(const DecodeRequest& request) const;

 private:
  explicit ErasureCode(SymbolMatrix generator) : generator_(std::move(generator)) {}

  SymbolMatrix generator_;
};

// Writes what is wanted, from the sources of the plan, in its order.
void decode(const DecodePlan& plan, std::span<const std::byte* const> sources,
            std::span<std::byte* const> wanted, std::size_t bytes,
            ProductLoop loop = best_product_loop());

}  // namespace holdfast::erasure

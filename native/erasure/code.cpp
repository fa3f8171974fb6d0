#include "erasure/code.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace holdfast::erasure {
namespace {

// ISA-L's Cauchy matrix (gf_gen_cauchy1_matrix), scaled. Its element is the inverse of (k + row) ^
// column: sums of two disjoint sets of symbols. Columns are divided by the first row, then rows by
// what the first column has become.
SymbolMatrix scaled_cauchy(std::size_t data, std::size_t parity) {
  SymbolMatrix out(data + parity, data);
  for (std::size_t i = 0; i < data; ++i) out.at(i, i) = 1;
  const auto element = [&](std::size_t row, std::size_t column) {
    return inverse(static_cast<Symbol>((data + row) ^ column));
  };
  const auto column_scaled = [&](std::size_t row, std::size_t column) {
    return times(element(row, column), inverse(element(0, column)));
  };
  for (std::size_t row = 0; row < parity; ++row) {
    const Symbol scale = inverse(column_scaled(row, 0));
    for (std::size_t column = 0; column < data; ++column) {
      out.at(data + row, column) = times(column_scaled(row, column), scale);
    }
  }
  return out;
}

std::vector<std::size_t> numbers_of(const ShardSet& shards) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i]) out.push_back(i);
  }
  return out;
}

// Of a code of k + m.
std::string shape_text(std::size_t data, std::size_t parity) {
  return std::to_string(data) + "+" + std::to_string(parity);
}

std::string shard_text(const ShardSet& shards) {
  return (shards.count() == 1 ? "shard " : "shards ") + to_string(shards);
}

Status names_no_shard(const ErasureCode& code, const char* which, const ShardSet& odd) {
  return {Code::kConfigError, shard_text(odd) + " cannot be " + which + ": a code of " +
                                  shape_text(code.data(), code.parity()) + " has shards 0 to " +
                                  std::to_string(code.shards() - 1)};
}

}  // namespace

std::string to_string(const ShardSet& shards) {
  const std::vector<std::size_t> numbers = numbers_of(shards);
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out += i + 1 == numbers.size() ? " and " : ", ";
    out += std::to_string(numbers[i]);
  }
  return out;
}

Result<ErasureCode> ErasureCode::make(CodeShape shape) {
  const bool counts = shape.data >= 1 && shape.parity >= 1;
  const auto most = static_cast<int>(kMostShards);
  if (!counts || shape.data > most || shape.parity > most || shape.data + shape.parity > most) {
    return Status(Code::kConfigError,
                  "no code has " + std::to_string(shape.data) + " data and " +
                      std::to_string(shape.parity) +
                      " parity shards: give at least one of each, and at most " +
                      std::to_string(most) + " together");
  }
  return ErasureCode(
      scaled_cauchy(static_cast<std::size_t>(shape.data), static_cast<std::size_t>(shape.parity)));
}

CodeShape ErasureCode::shape() const {
  return {static_cast<int>(data()), static_cast<int>(parity())};
}

void ErasureCode::encode(std::span<const std::byte* const> data, std::span<std::byte* const> parity,
                         std::size_t bytes, ProductLoop loop) const {
  CHECK(data.size() == this->data() && parity.size() == this->parity());
  multiply_tiles({.inputs = data,
                  .outputs = parity,
                  .coefficients = generator_.symbols().subspan(data.size() * data.size()),
                  .bytes = bytes},
                 loop);
}

Result<DecodePlan> ErasureCode::plan(const DecodeRequest& request) const {
  const ShardSet odd = ~ShardSet{} << shards();
  if ((request.present & odd).any()) {
    return names_no_shard(*this, "present", request.present & odd);
  }
  if ((request.wanted & odd).any()) return names_no_shard(*this, "wanted", request.wanted & odd);
  if (request.present.count() < data()) {
    const ShardSet lost = ~request.present & ~odd;
    const std::string most =
        std::to_string(parity()) + (parity() == 1 ? " lost shard" : " lost shards");
    return Status(Code::kPeerLost, "a code of " + shape_text(data(), parity()) + " restores " +
                                       most + " at most, and " + shard_text(lost) + " are lost");
  }
  // Data shards first: they have zeros where others have coefficients.
  std::vector<std::size_t> sources = numbers_of(request.present);
  sources.resize(data());
  SymbolMatrix survivors(data(), data());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::ranges::copy(generator_.row(sources[i]), survivors.row(i).begin());
  }
  const std::optional<SymbolMatrix> data_of_sources = survivors.inverted();
  CHECK(data_of_sources.has_value());  // a Cauchy matrix has no other square parts
  const std::vector<std::size_t> wanted = numbers_of(request.wanted);
  SymbolMatrix rows(wanted.size(), data());
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    std::ranges::copy(generator_.row(wanted[r]), rows.row(r).begin());
  }
  return DecodePlan{std::move(sources), wanted, rows * *data_of_sources};
}

void decode(const DecodePlan& plan, std::span<const std::byte* const> sources,
            std::span<std::byte* const> wanted, std::size_t bytes, ProductLoop loop) {
  CHECK(sources.size() == plan.sources.size() && wanted.size() == plan.wanted.size());
  multiply_tiles({.inputs = sources,
                  .outputs = wanted,
                  .coefficients = plan.coefficients.symbols(),
                  .bytes = bytes},
                 loop);
}

}  // namespace holdfast::erasure

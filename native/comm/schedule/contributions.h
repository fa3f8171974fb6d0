// Contributions: the symbolic values of chunks: which input chunks of which ranks have been reduced
// into them. A value never changes once it is there, so that chunks refer to it by number and a
// copy costs nothing. Ranks are bits: what almost every value is, one chunk of many ranks, takes a
// word for 64 of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace holdfast::comm {

// One rank's input chunk.
struct Atom {
  std::uint32_t rank;
  std::uint32_t chunk;
  friend auto operator<=>(const Atom&, const Atom&) = default;
};

class Contributions {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0;

  // `ranks`: all atoms' ranks are less.
  explicit Contributions(std::size_t ranks);

  Id one(Atom atom);
  // The chunk of the ranks below `count`.
  Id first_ranks(std::uint32_t count, std::uint32_t chunk);
  // What is in either of them.
  Id together(Id a, Id b);

  bool equal(Id a, Id b) const;
  // The least atom that both have.
  std::optional<Atom> common(Id a, Id b) const;

 private:
  // Parts of one value lie side by side, by rising chunk; none is empty.
  struct Value {
    std::uint32_t first;
    std::uint32_t parts;
  };

  std::uint64_t* bits(std::size_t part) { return &bits_[part * words_]; }
  const std::uint64_t* bits(std::size_t part) const { return &bits_[part * words_]; }
  void add_part(std::uint32_t chunk);
  Id add_value(std::uint32_t parts);

  std::size_t words_;
  std::vector<Value> values_;
  std::vector<std::uint32_t> chunk_of_;  // by part
  std::vector<std::uint64_t> bits_;      // by part, words_ of them
};

}  // namespace holdfast::comm

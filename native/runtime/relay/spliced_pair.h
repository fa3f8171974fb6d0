// Spliced pair: two connections, of which each gets what comes from the other, as it is. What one
// of them does not take yet lies here, and is bounded; the other one is not read meanwhile, so that
// TCP slows it down.
//
// Thread: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::runtime {

class SplicedPair {
 public:
  // What is read at once. A read is passed on by one write in most cases, and costs little beside
  // TCP's own work then.
  static constexpr std::size_t kReadBytes = std::size_t{64} << 10;
  // Each way, until others have had their turn.
  static constexpr std::size_t kBudget = std::size_t{256} << 10;

  // Owns both descriptors.
  SplicedPair(int one, int other) : ways_{PairWay{one, other}, PairWay{other, one}} {}
  ~SplicedPair();
  SplicedPair(const SplicedPair&) = delete;
  SplicedPair& operator=(const SplicedPair&) = delete;

  enum class PairTurn : std::uint8_t {
    kWaits,  // until a descriptor is ready
    kMore,   // the budget was used up
    kEnded,
  };
  // `scratch`: kReadBytes, of whoever turns pairs one after the other.
  PairTurn turn(std::span<std::byte> scratch);
  std::uint64_t passed() const { return passed_; }

 private:
  struct PairWay {
    int from;
    int to;
    std::vector<std::byte> held{};  // from `begun` on; empty in most turns
    std::size_t begun = 0;
    bool ended = false;  // nothing more comes
    bool told = false;   // and the other side knows
  };
  PairTurn move(PairWay& way, std::span<std::byte> scratch);
  bool give(PairWay& way, std::span<const std::byte> bytes);
  bool flush(PairWay& way);

  std::array<PairWay, 2> ways_;
  std::uint64_t passed_ = 0;
};

}  // namespace holdfast::runtime

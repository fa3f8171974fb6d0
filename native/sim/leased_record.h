// Leased record: what one of several coordinators has of the record that they share. It may use it
// until another one is elected, and the record's store may be slow: an answer takes its time, says
// that nothing was done, or is lost after the change was made.
#pragma once

#include <cstdint>
#include <functional>

#include "base/planted.h"
#include "sim/memory_record.h"

namespace holdfast::sim {

enum class StoreMood : std::uint8_t { kAnswers, kFails, kAnswerIsLost };

// What all coordinators of a world share.
struct SharedStore {
  MemoryRecord record;
  std::uint64_t term = 0;                // of the coordinator that was elected last
  std::uint64_t stale = 0;               // changes by coordinators that led no more
  std::function<StoreMood()> mood = {};  // called at each access
};

class LeasedRecord final : public ft::Record {
 public:
  // `store` outlives this.
  LeasedRecord(SharedStore& store, std::uint64_t term) : store_(store), term_(term) {}

  Result<std::optional<ft::WorldRecord>> load(const std::string& name) override {
    if (mood() != StoreMood::kAnswers) return out_of_reach();
    if (!leads()) return deposed();
    return store_.record.load(name);
  }

  Result<bool> compare_and_set(const std::string& name,
                               const std::optional<ft::WorldRecord>& expected,
                               const std::optional<ft::WorldRecord>& next) override {
    const StoreMood mood = this->mood();
    if (mood == StoreMood::kFails) return out_of_reach();
    if (!leads()) return deposed();
    auto done = store_.record.compare_and_set(name, expected, next);
    if (done.is_ok() && done.value() && term_ != store_.term) ++store_.stale;
    if (mood == StoreMood::kAnswerIsLost) return out_of_reach();
    return done;
  }

 private:
  StoreMood mood() const { return store_.mood ? store_.mood() : StoreMood::kAnswers; }
  bool leads() const { return term_ == store_.term || is_planted(Planted::kStaleTerm); }
  static Status out_of_reach() { return {Code::kSystem, "out of reach"}; }
  static Status deposed() { return {Code::kNotMember, "this coordinator leads no more"}; }

  SharedStore& store_;
  std::uint64_t term_;
};

}  // namespace holdfast::sim

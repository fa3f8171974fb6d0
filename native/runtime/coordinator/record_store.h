// Record store: a coordinator's decisions in a key-value store that outlives it, as c10d's TCPStore
// does. Coordinators that share the store agree by its compare-and-set.
#pragma once

#include "base/store.h"
#include "ft/record.h"

namespace holdfast::runtime {

class RecordStore final : public ft::Record {
 public:
  // `store` outlives this.
  explicit RecordStore(Store& store) : store_(store) {}
  Result<std::optional<ft::WorldRecord>> load(const std::string& name) override;
  Result<bool> compare_and_set(const std::string& name,
                               const std::optional<ft::WorldRecord>& expected,
                               const std::optional<ft::WorldRecord>& next) override;

 private:
  // The text of the world's record; empty: the store has none.
  Result<std::string> load_text(const std::string& name);

  Store& store_;
};

}  // namespace holdfast::runtime

#include "mpi/types/fortran_types.h"

#include "mpi/core/constants.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi {

Datatype* FortranTypes::find(int combiner, int precision, int range, const BasicType& row) {
  const std::lock_guard lock(mutex_);
  const auto at = types_.find({combiner, precision, range});
  if (at != types_.end()) return at->second;
  if (types_.size() == kMostTypes) return nullptr;
  Contents contents{.combiner = combiner};
  if (combiner != kCombinerF90Integer) contents.integers.push_back(precision);
  contents.integers.push_back(range);
  auto* made = registry().make<Datatype>(row, std::move(contents));
  if (made == nullptr) return nullptr;
  made->predefined = true;
  types_[{combiner, precision, range}] = made;
  return made;
}

}  // namespace holdfast::mpi

// Packer: packs and unpacks `count` elements of a layout, an extent apart: any range of bytes of
// the packed form, so that messages can go in pieces, and arrive in part. Beginning anywhere costs
// a division or a search per level of the layout, not a walk.
//
// What kernels move the bytes is chosen once, where a packer is made (pack/step.h); packers of the
// same layout for other counts share that choice, and making them allocates nothing. A packer is a
// value: it is never changed, and any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/cpu.h"
#include "base/result.h"
#include "datatype/layout.h"

namespace holdfast::datatype {

struct PackKernels;
struct PackPlan;

class Packer {
 public:
  // Returns kConfigError for a negative count, and where the bytes of all elements leave 63 bits or
  // their places 64.
  static Result<Packer> make(const TypeLayout& layout, std::int64_t count = 1,
                             CpuLevel level = best_cpu_level());
  // With given kernels, for tests of one or the other.
  static Result<Packer> make(const TypeLayout& layout, std::int64_t count,
                             const PackKernels& kernels);
  Result<Packer> times(std::int64_t count) const;

  const TypeLayout& layout() const;
  std::int64_t count() const { return count_; }
  // Of the packed form of all elements.
  std::uint64_t bytes() const { return bytes_; }

  // Bytes [offset, offset + out.size()) of the packed form, which must lie within it. `base` is
  // where the caller's buffer begins, as MPI has it: the typemap's displacement zero. Nothing but
  // the bytes of these ranges is written. The two memories may not overlap.
  void pack(const std::byte* base, std::uint64_t offset, std::span<std::byte> out) const;
  void unpack(std::span<const std::byte> in, std::uint64_t offset, std::byte* base) const;

 private:
  // Owned by all packers of the layout that were made from one another.
  std::shared_ptr<const PackPlan> plan_;
  std::int64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace holdfast::datatype

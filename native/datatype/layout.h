// TypeLayout: what memory a derived datatype names, byte for byte and in its order, as MPI's
// constructors build it. It knows no kinds of elements (signature.h) and moves no bytes (packer.h).
//
// A layout is a value: it is never changed, and copies share what they are made of. Its bytes are a
// normal form (typemap/node.h) whose order is the typemap's: it is never sorted, because order is
// what packing means. Its bounds are kept apart from its bytes, as the standard has them (MPI-4.1,
// 5.1.7): marks that resized() sets are inherited, and a part without elements has no effect.
//
// Why: docs/decisions/0135-layouts-in-typemap-order.md
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "datatype/typemap/bounds.h"
#include "datatype/typemap/node.h"

namespace holdfast::datatype {

class TypeLayout {
 public:
  // Nothing: no bytes, bounds of zero.
  TypeLayout() = default;

  // `n` bytes without gaps, such as an element of the language, whose alignment then decides how
  // the extent of a structure is rounded. At most 2^63 - 1.
  static TypeLayout bytes(std::uint64_t n, std::uint32_t alignment = 1);

  // The constructors of MPI; displacements, strides and bounds are bytes. A negative count, lists
  // of different lengths, and numbers that leave 64 bits are kConfigError.
  static Result<TypeLayout> contiguous(std::int64_t count, const TypeLayout& t);
  static Result<TypeLayout> hvector(std::int64_t count, std::int64_t blocklength,
                                    std::int64_t stride, const TypeLayout& t);
  static Result<TypeLayout> hindexed(std::span<const std::int64_t> blocklengths,
                                     std::span<const std::int64_t> displacements,
                                     const TypeLayout& t);
  static Result<TypeLayout> hindexed_block(std::int64_t blocklength,
                                           std::span<const std::int64_t> displacements,
                                           const TypeLayout& t);
  static Result<TypeLayout> structure(std::span<const std::int64_t> blocklengths,
                                      std::span<const std::int64_t> displacements,
                                      std::span<const TypeLayout> types);
  static Result<TypeLayout> resized(const TypeLayout& t, std::int64_t lb, std::int64_t extent);

  // Bytes of the packed form.
  std::uint64_t size() const { return node_ ? node_->size : 0; }
  std::int64_t lb() const { return bounds_.lb(); }
  std::int64_t ub() const { return bounds_.ub(); }
  std::int64_t extent() const { return bounds_.ub() - bounds_.lb(); }
  std::int64_t true_lb() const { return bounds_.true_lb; }
  std::int64_t true_ub() const { return bounds_.true_ub; }
  std::int64_t true_extent() const { return bounds_.true_ub - bounds_.true_lb; }

  // Whether `count` of them, an extent apart, are one run of bytes in ascending order (which begins
  // at true_lb()), or nothing.
  bool is_dense(std::int64_t count = 1) const;

  // Whether `count` of them name a byte twice, which no receive may. The answer is exact where the
  // layout has at most kMostSorted blocks, or is one list of blocks; of larger ones it says no only
  // where nested strides prove it, and yes otherwise.
  bool may_overlap(std::int64_t count = 1) const;
  static constexpr std::uint64_t kMostSorted = 65536;  // about 5 ms of sorting

  // Whether they name the same bytes in the same order, however they were built. Bounds are
  // another question: see same_bounds(). Where normal forms differ, blocks are compared one by one.
  friend bool operator==(const TypeLayout& a, const TypeLayout& b);
  friend bool same_bounds(const TypeLayout& a, const TypeLayout& b) {
    return a.lb() == b.lb() && a.ub() == b.ub();
  }

  // What packer.h walks: the normal form, nullptr without bytes, and where its first byte is.
  const NodeRef& node() const { return node_; }
  std::int64_t origin() const { return origin_; }
  const TypeBounds& bounds() const { return bounds_; }

 private:
  TypeLayout(std::int64_t origin, NodeRef node, const TypeBounds& bounds)
      : node_(std::move(node)), origin_(origin), bounds_(bounds) {}

  NodeRef node_;
  std::int64_t origin_ = 0;  // of the first byte in the order of the typemap
  TypeBounds bounds_;
};

// For people: "hvector 3 x 16 of 8 bytes"-like nests, cut after a few parts.
std::string text(const TypeLayout& layout);

}  // namespace holdfast::datatype

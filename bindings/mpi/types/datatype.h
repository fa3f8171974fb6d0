// Datatype: what a program's elements are: where their bytes lie (a layout), what they are (their
// basic elements), and how the program built the type (its contents).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "datatype/layout.h"
#include "datatype/packer.h"
#include "mpi/core/attributes.h"
#include "mpi/core/object.h"
#include "mpi/types/basic_types.h"
#include "mpi/types/device_form.h"
#include "mpi/types/elements.h"

namespace holdfast::mpi {

struct Datatype;

// Of types within one of these: 0 where there are none.
std::uint32_t depth_of(const std::vector<Datatype*>& types);

// The arguments of a type's constructor, in the order in which MPI_Type_get_contents gives them.
struct Contents {
  int combiner = 0;
  bool wide = false;  // made by a function for large counts
  std::vector<int> integers{};
  std::vector<std::int64_t> addresses{};
  std::vector<std::int64_t> counts{};
  std::vector<Datatype*> types{};
};

struct Datatype : Object {
  static constexpr Kind kKind = Kind::kType;
  // Types within types, at most: the last use of the outermost ends all, one within the other.
  static constexpr std::uint32_t kMostNested = 4096;

  // Of MPI's own. Pairs know the rows of their value and their index.
  explicit Datatype(const BasicType& row);
  explicit Datatype(const PairType& row);
  // Of Fortran, by precision and range.
  Datatype(const BasicType& row, Contents contents);
  // Made by a program. Takes a use of each type of the contents.
  Datatype(datatype::TypeLayout layout, ElementList elements, Contents contents);
  ~Datatype();

  // Packed bytes of `count` elements, of which fits() is true.
  std::uint64_t bytes_of(std::int64_t count) const {
    return layout.size() * static_cast<std::uint64_t>(count);
  }
  // Whether the bytes and the places of so many elements fit 63 bits; false of negative counts too.
  bool fits(std::int64_t count) const;
  // Packs and unpacks `count` elements, of which fits() is true. Any thread; its kernels are chosen
  // when the type is committed, or at the first call.
  datatype::Packer packer(std::int64_t count) const;
  // Whether `count` elements name a byte twice, as no receive may.
  bool overlaps(std::int64_t count) const;

  std::string name() const;
  void set_name(std::string text);

  const datatype::TypeLayout layout;
  const ElementList elements;  // null: none
  const Contents contents;
  const std::uint32_t depth = 0;           // of types within it
  const BasicType* const basic = nullptr;  // null: derived, or a pair
  const PairType* const pair = nullptr;    // null: no predefined pair
  std::atomic<bool> committed = false;     // release by MPI_Type_commit
  Attributes attributes;
  mutable DeviceForm on_device;

 private:
  mutable std::once_flag chosen_;
  mutable std::optional<datatype::Packer> packer_;  // written once, by chosen_
  // Up to so many elements do not overlap, and from so many on they do. Relaxed: each is true.
  mutable std::atomic<std::int64_t> apart_{layout.is_dense(2) ? INT64_MAX : 0};
  mutable std::atomic<std::int64_t> overlapping_{INT64_MAX};
  mutable std::mutex mutex_;  // guards name_
  std::string name_;
};

// For errors: its name, or "a datatype without a name".
std::string text_of(const Datatype& type);

}  // namespace holdfast::mpi

#include "mpi/types/datatype.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "mpi/core/constants.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi {

namespace {

datatype::TypeLayout layout_of(const BasicType& row) {
  return datatype::TypeLayout::bytes(row.bytes, row.alignment);
}

const BasicType& row_of(std::int32_t number) {
  const BasicType* row = basic_type(number);
  CHECK(row != nullptr);
  return *row;
}

// As C lays out a struct of both.
datatype::TypeLayout layout_of(const PairType& row) {
  const BasicType& value = row_of(row.value);
  const BasicType& index = row_of(row.index);
  const std::int64_t place =
      (value.bytes + index.alignment - 1) / index.alignment * index.alignment;
  const std::array<std::int64_t, 2> lengths{1, 1};
  const std::array<std::int64_t, 2> places{0, place};
  const std::array<datatype::TypeLayout, 2> parts{layout_of(value), layout_of(index)};
  return datatype::TypeLayout::structure(lengths, places, parts).value();
}

}  // namespace

std::uint32_t depth_of(const std::vector<Datatype*>& types) {
  std::uint32_t depth = 0;
  for (const Datatype* type : types) depth = std::max(depth, type->depth + 1);
  return depth;
}

Datatype::Datatype(const BasicType& row)
    : Object(kKind),
      layout(layout_of(row)),
      elements(elements_of(row)),
      contents{.combiner = kCombinerNamed},
      basic(&row),
      committed(true),
      name_(row.name) {}

Datatype::Datatype(const BasicType& row, Contents from)
    : Object(kKind),
      layout(layout_of(row)),
      elements(elements_of(row)),
      contents(std::move(from)),
      basic(&row),
      committed(true) {}

Datatype::Datatype(const PairType& row)
    : Object(kKind),
      layout(layout_of(row)),
      elements(joined({elements_of(row_of(row.value)), elements_of(row_of(row.index))})),
      contents{.combiner = kCombinerNamed},
      pair(&row),
      committed(true),
      name_(row.name) {}

Datatype::Datatype(datatype::TypeLayout made, ElementList of, Contents from)
    : Object(kKind),
      layout(std::move(made)),
      elements(std::move(of)),
      contents(std::move(from)),
      depth(depth_of(contents.types)) {
  for (Datatype* type : contents.types) Registry::use(type);
}

Datatype::~Datatype() {
  for (Datatype* type : contents.types) registry().drop(type);
}

bool Datatype::fits(std::int64_t count) const {
  if (count < 0) return false;
  if (count <= 1) return true;
  std::int64_t bytes = 0;
  std::int64_t last = 0;
  std::int64_t end = 0;
  return !__builtin_mul_overflow(static_cast<std::int64_t>(layout.size()), count, &bytes) &&
         !__builtin_mul_overflow(layout.extent(), count - 1, &last) &&
         !__builtin_add_overflow(layout.true_ub(), last, &end) &&
         !__builtin_add_overflow(layout.true_lb(), last, &end);
}

datatype::Packer Datatype::packer(std::int64_t count) const {
  std::call_once(chosen_, [this] { packer_ = datatype::Packer::make(layout, 1).value(); });
  return packer_->times(count).value();
}

bool Datatype::overlaps(std::int64_t count) const {
  if (count <= apart_.load(std::memory_order_relaxed)) return false;
  if (count >= overlapping_.load(std::memory_order_relaxed)) return true;
  // Others may look at the same time; what they write is as true.
  const bool overlap = layout.may_overlap(count);
  (overlap ? overlapping_ : apart_).store(count, std::memory_order_relaxed);
  return overlap;
}

std::string Datatype::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void Datatype::set_name(std::string text) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(text);
}

std::string text_of(const Datatype& type) {
  const std::string name = type.name();
  return name.empty() ? "a datatype without a name" : name;
}

void predefine_types(Registry& registry) {
  for (const BasicType& row : basic_types()) registry.predefine<Datatype>(row.number, row);
  for (const PairType& row : pair_types()) registry.predefine<Datatype>(row.number, row);
}

}  // namespace holdfast::mpi

// Constructors of datatypes, but those of arrays: MPI-4.1, 5.1.2, 5.1.7 and 5.1.10.
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/calls/type_maker.h"
#include "mpi/core/process.h"
#include "mpi/types/basic_types.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

namespace {

using datatype::TypeLayout;
using Numbers = std::vector<std::int64_t>;

std::uint64_t sum(const Numbers& values) {
  std::uint64_t sum = 0;
  for (const std::int64_t value : values) sum += static_cast<std::uint64_t>(value);
  return sum;
}

std::uint64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
}

int check_vector(Call& call, std::int64_t count, std::int64_t blocklength) {
  const int code = refuse_negative(call, kErrCount, "count", count);
  return code != kSuccess ? code : refuse_negative(call, kErrArg, "blocklength", blocklength);
}

// Blocks of several lengths; `in_bytes`: so displacements are, and not in extents. Arguments are
// noted as they were given.
int make_indexed(Call& call, TypeMaker& maker, std::int64_t count, const IntArray& blocklengths,
                 const IntArray& displacements, bool in_bytes, Datatype* oldtype,
                 Datatype*& newtype) {
  int code = refuse_negative(call, kErrCount, "count", count);
  Numbers lengths;
  Numbers places;
  if (code == kSuccess) {
    code = take_lengths(call, "array_of_blocklengths", blocklengths, count, lengths);
  }
  if (code == kSuccess) code = take(call, "array_of_displacements", displacements, count, places);
  if (code != kSuccess) return code;
  maker.count(count);
  maker.counts(lengths);
  if (in_bytes) {
    maker.displacements(places);
  } else {
    maker.counts(places);
    code = scale(call, "array_of_displacements", oldtype->layout.extent(), places);
    if (code != kSuccess) return code;
  }
  maker.type(oldtype);
  return maker.finish(TypeLayout::hindexed(lengths, places, oldtype->layout),
                      repeated(sum(lengths), oldtype->elements), newtype);
}

// As above, with blocks of one length.
int make_indexed_block(Call& call, TypeMaker& maker, std::int64_t count, std::int64_t blocklength,
                       const IntArray& displacements, bool in_bytes, Datatype* oldtype,
                       Datatype*& newtype) {
  int code = check_vector(call, count, blocklength);
  Numbers places;
  if (code == kSuccess) code = take(call, "array_of_displacements", displacements, count, places);
  if (code != kSuccess) return code;
  maker.count(count);
  maker.count(blocklength);
  if (in_bytes) {
    maker.displacements(places);
  } else {
    maker.counts(places);
    code = scale(call, "array_of_displacements", oldtype->layout.extent(), places);
    if (code != kSuccess) return code;
  }
  maker.type(oldtype);
  return maker.finish(TypeLayout::hindexed_block(blocklength, places, oldtype->layout),
                      repeated(product(count, blocklength), oldtype->elements), newtype);
}

int take_types(Call& call, const Handles<Datatype>& array, std::size_t n,
               std::vector<Datatype*>& types) {
  if (n > 0 && array.is_null()) {
    return call.fail(kErrArg, "array_of_types is a null pointer, accepted are arrays of " +
                                  std::to_string(n) + " datatypes");
  }
  for (std::size_t i = 0; i < n; ++i) {
    bool valid = false;
    Datatype* type = array.get(i, &valid);
    if (type == nullptr || !valid) {
      return call.fail(kErrType, "array_of_types[" + std::to_string(i) + "] is " +
                                     (valid ? "MPI_DATATYPE_NULL" : "no datatype, or a freed one") +
                                     ", accepted are datatypes");
    }
    types.push_back(type);
  }
  return kSuccess;
}

}  // namespace

namespace body {

int Type_contiguous(Call& call, std::int64_t count, Datatype* oldtype, Datatype*& newtype) {
  const int code = refuse_negative(call, kErrCount, "count", count);
  if (code != kSuccess) return code;
  TypeMaker maker(call, kCombinerContiguous);
  maker.count(count);
  maker.type(oldtype);
  return maker.finish(TypeLayout::contiguous(count, oldtype->layout),
                      repeated(static_cast<std::uint64_t>(count), oldtype->elements), newtype);
}

int Type_vector(Call& call, std::int64_t count, std::int64_t blocklength, std::int64_t stride,
                Datatype* oldtype, Datatype*& newtype) {
  int code = check_vector(call, count, blocklength);
  Numbers bytes{stride};
  if (code == kSuccess) code = scale(call, "stride", oldtype->layout.extent(), bytes);
  if (code != kSuccess) return code;
  TypeMaker maker(call, kCombinerVector);
  maker.count(count);
  maker.count(blocklength);
  maker.count(stride);
  maker.type(oldtype);
  return maker.finish(TypeLayout::hvector(count, blocklength, bytes[0], oldtype->layout),
                      repeated(product(count, blocklength), oldtype->elements), newtype);
}

int Type_create_hvector(Call& call, std::int64_t count, std::int64_t blocklength,
                        std::int64_t stride, Datatype* oldtype, Datatype*& newtype) {
  const int code = check_vector(call, count, blocklength);
  if (code != kSuccess) return code;
  TypeMaker maker(call, kCombinerHvector);
  maker.count(count);
  maker.count(blocklength);
  maker.displacement(stride);
  maker.type(oldtype);
  return maker.finish(TypeLayout::hvector(count, blocklength, stride, oldtype->layout),
                      repeated(product(count, blocklength), oldtype->elements), newtype);
}

int Type_indexed(Call& call, std::int64_t count, const IntArray& array_of_blocklengths,
                 const IntArray& array_of_displacements, Datatype* oldtype, Datatype*& newtype) {
  TypeMaker maker(call, kCombinerIndexed);
  return make_indexed(call, maker, count, array_of_blocklengths, array_of_displacements, false,
                      oldtype, newtype);
}

int Type_create_hindexed(Call& call, std::int64_t count, const IntArray& array_of_blocklengths,
                         const IntArray& array_of_displacements, Datatype* oldtype,
                         Datatype*& newtype) {
  TypeMaker maker(call, kCombinerHindexed);
  return make_indexed(call, maker, count, array_of_blocklengths, array_of_displacements, true,
                      oldtype, newtype);
}

int Type_create_indexed_block(Call& call, std::int64_t count, std::int64_t blocklength,
                              const IntArray& array_of_displacements, Datatype* oldtype,
                              Datatype*& newtype) {
  TypeMaker maker(call, kCombinerIndexedBlock);
  return make_indexed_block(call, maker, count, blocklength, array_of_displacements, false, oldtype,
                            newtype);
}

int Type_create_hindexed_block(Call& call, std::int64_t count, std::int64_t blocklength,
                               const IntArray& array_of_displacements, Datatype* oldtype,
                               Datatype*& newtype) {
  TypeMaker maker(call, kCombinerHindexedBlock);
  return make_indexed_block(call, maker, count, blocklength, array_of_displacements, true, oldtype,
                            newtype);
}

int Type_create_struct(Call& call, std::int64_t count, const IntArray& array_of_blocklengths,
                       const IntArray& array_of_displacements,
                       const Handles<Datatype>& array_of_types, Datatype*& newtype) {
  int code = refuse_negative(call, kErrCount, "count", count);
  Numbers lengths;
  Numbers places;
  std::vector<Datatype*> types;
  if (code == kSuccess) {
    code = take_lengths(call, "array_of_blocklengths", array_of_blocklengths, count, lengths);
  }
  if (code == kSuccess) {
    code = take(call, "array_of_displacements", array_of_displacements, count, places);
  }
  if (code == kSuccess) {
    code = take_types(call, array_of_types, static_cast<std::size_t>(count), types);
  }
  if (code != kSuccess) return code;
  TypeMaker maker(call, kCombinerStruct);
  maker.count(count);
  maker.counts(lengths);
  maker.displacements(places);
  std::vector<TypeLayout> layouts;
  std::vector<ElementList> elements;
  for (std::size_t i = 0; i < types.size(); ++i) {
    maker.type(types[i]);
    layouts.push_back(types[i]->layout);
    elements.push_back(repeated(static_cast<std::uint64_t>(lengths[i]), types[i]->elements));
  }
  auto layout = TypeLayout::structure(lengths, places, layouts);
  const bool fits = layout.is_ok();
  return maker.finish(std::move(layout), fits ? joined(elements) : nullptr, newtype);
}

int Type_create_resized(Call& call, Datatype* oldtype, std::int64_t lb, std::int64_t extent,
                        Datatype*& newtype) {
  TypeMaker maker(call, kCombinerResized);
  maker.displacement(lb);
  maker.displacement(extent);
  maker.type(oldtype);
  return maker.finish(TypeLayout::resized(oldtype->layout, lb, extent), oldtype->elements, newtype);
}

int Type_dup(Call& call, Datatype* oldtype, Datatype*& newtype) {
  TypeMaker maker(call, kCombinerDup);
  maker.type(oldtype);
  Datatype* made = nullptr;
  int code = maker.finish(oldtype->layout, oldtype->elements, made);
  if (code != kSuccess) return code;
  made->committed.store(oldtype->committed.load(std::memory_order_acquire),
                        std::memory_order_release);
  code = copy_attributes(call, *oldtype, oldtype->attributes, *made, made->attributes);
  if (code != kSuccess) {
    process().registry.drop(made);
    return code;
  }
  newtype = made;
  return kSuccess;
}

int Type_get_value_index(Call&, Datatype* value_type, Datatype* index_type, Datatype*& pair_type) {
  // Other pairs than the named ones MPI allows not to have.
  pair_type = nullptr;
  for (const PairType& row : pair_types()) {
    if (value_type->number == row.value && index_type->number == row.index) {
      pair_type = by_number<Datatype>(row.number);
    }
  }
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi

// TypeSignature: which elements a datatype is made of, in order, whatever their places are: what
// tells how many elements a short message brought, converts them one by one, and says whether two
// ends mean the same. It is built beside a layout, and has as many bytes.
//
// A signature is a value: it is never changed, and copies share what they are made of. Equal runs
// are counted, and repetition is a loop, so that a large type has a small one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "datatype/element.h"

namespace holdfast::datatype {

struct SignatureNode;
// Its owners are the signatures and nodes above it. Nodes are never changed.
using SignatureRef = std::shared_ptr<const SignatureNode>;

struct ElementRun {
  ElementKind kind = ElementKind::kByte;
  std::uint64_t count = 0;

  bool operator==(const ElementRun&) const = default;
};

class TypeSignature {
 public:
  // Nothing.
  TypeSignature() = default;

  static TypeSignature element(ElementKind kind);
  static TypeSignature pair(PairKind kind);
  // Of contiguous types and vectors, and of indexed types with all their blocks together. The bytes
  // of all must fit into 63 bits, which the layout of the same type has checked.
  static TypeSignature repeated(std::uint64_t count, const TypeSignature& of);
  // Of structures: each part as often as its blocklength says.
  static TypeSignature structure(std::span<const std::uint64_t> counts,
                                 std::span<const TypeSignature> parts);

  std::uint64_t bytes() const;
  std::uint64_t elements() const;
  // How many elements so many packed bytes of any number of these types hold; nullopt where they
  // end within an element, or there are bytes where the type has none.
  std::optional<std::uint64_t> elements_in(std::uint64_t packed_bytes) const;
  // The kind, where it is one.
  std::optional<ElementKind> only_kind() const;

  // Whether the elements are the same, however the signatures were built; a walk of runs where they
  // were built differently.
  friend bool operator==(const TypeSignature& a, const TypeSignature& b);

  const SignatureRef& node() const { return node_; }

 private:
  explicit TypeSignature(SignatureRef node) : node_(std::move(node)) {}

  SignatureRef node_;
};

// Walks the runs of one type in order; neighbours are of different kinds. The signature outlives
// it.
class SignatureCursor {
 public:
  explicit SignatureCursor(const TypeSignature& signature);
  bool next(ElementRun& out);

 private:
  bool next_part(ElementRun& out);

  struct Visited {
    const SignatureNode* node;
    std::uint64_t index;
  };
  std::vector<Visited> nodes_;
  ElementRun ahead_;
  bool has_ahead_ = false;
};

}  // namespace holdfast::datatype

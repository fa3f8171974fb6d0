#include "datatype/signature.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace holdfast::datatype {

// A run of elements, a loop over the only part, or a list of parts.
struct SignatureNode {
  ElementKind kind = ElementKind::kByte;
  std::uint64_t count = 1;  // of elements of a run, of a loop's turns
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
  std::uint32_t depth = 0;
  std::vector<SignatureRef> parts{};
  // Of a list: what is before each part.
  std::vector<std::uint64_t> bytes_before{};
  std::vector<std::uint64_t> elements_before{};

  bool is_run() const { return parts.empty(); }
  bool is_loop() const { return parts.size() == 1; }
};

namespace {

// Lists within lists are taken apart up to so many parts, and all of them where trees are deep, so
// that they never get deeper than loops make them.
constexpr std::size_t kMostListed = 256;
constexpr std::uint32_t kMostNested = 32;

SignatureRef run_node(ElementKind kind, std::uint64_t count) {
  return std::make_shared<const SignatureNode>(SignatureNode{
      .kind = kind, .count = count, .bytes = count * element_bytes(kind), .elements = count});
}

SignatureRef loop_node(std::uint64_t count, const SignatureRef& body) {
  if (count == 0 || !body) return nullptr;
  std::uint64_t bytes = 0;
  CHECK(!__builtin_mul_overflow(count, body->bytes, &bytes) &&
        bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (count == 1) return body;
  if (body->is_run()) return run_node(body->kind, count * body->count);
  if (body->is_loop()) return loop_node(count * body->count, body->parts.front());
  SignatureNode node{
      .count = count, .bytes = bytes, .elements = count * body->elements, .depth = body->depth + 1};
  node.parts = {body};
  return std::make_shared<const SignatureNode>(std::move(node));
}

// Appends a part, joined to the one before where both are runs of one kind.
void append(std::vector<SignatureRef>& parts, const SignatureRef& part) {
  if (!parts.empty() && part->is_run() && parts.back()->is_run() &&
      parts.back()->kind == part->kind) {
    parts.back() = run_node(part->kind, parts.back()->count + part->count);
  } else {
    parts.push_back(part);
  }
}

SignatureRef list_node(const std::vector<SignatureRef>& given) {
  std::vector<SignatureRef> parts;
  for (const SignatureRef& part : given) {
    const bool is_list = part->parts.size() > 1;
    if (is_list && (part->parts.size() <= kMostListed || part->depth >= kMostNested)) {
      for (const SignatureRef& inner : part->parts) append(parts, inner);
    } else {
      append(parts, part);
    }
  }
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return parts.front();
  SignatureNode node;
  for (const SignatureRef& part : parts) {
    node.bytes_before.push_back(node.bytes);
    node.elements_before.push_back(node.elements);
    node.bytes += part->bytes;
    node.elements += part->elements;
    node.depth = std::max(node.depth, part->depth + 1);
  }
  node.parts = std::move(parts);
  return std::make_shared<const SignatureNode>(std::move(node));
}

bool same_form(const SignatureRef& a, const SignatureRef& b) {
  if (a == b) return true;
  if (!a || !b || a->bytes != b->bytes || a->count != b->count || a->kind != b->kind ||
      a->parts.size() != b->parts.size()) {
    return false;
  }
  return std::ranges::equal(a->parts, b->parts, same_form);
}

}  // namespace

TypeSignature TypeSignature::element(ElementKind kind) { return TypeSignature(run_node(kind, 1)); }

TypeSignature TypeSignature::pair(PairKind kind) {
  return TypeSignature(
      list_node({run_node(pair_value(kind), 1), run_node(ElementKind::kInt32, 1)}));
}

TypeSignature TypeSignature::repeated(std::uint64_t count, const TypeSignature& of) {
  return TypeSignature(loop_node(count, of.node_));
}

TypeSignature TypeSignature::structure(std::span<const std::uint64_t> counts,
                                       std::span<const TypeSignature> parts) {
  CHECK(counts.size() == parts.size());
  std::vector<SignatureRef> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (SignatureRef part = loop_node(counts[i], parts[i].node_)) all.push_back(std::move(part));
  }
  return TypeSignature(list_node(all));
}

std::uint64_t TypeSignature::bytes() const { return node_ ? node_->bytes : 0; }
std::uint64_t TypeSignature::elements() const { return node_ ? node_->elements : 0; }

std::optional<std::uint64_t> TypeSignature::elements_in(std::uint64_t packed_bytes) const {
  if (packed_bytes == 0) return 0;
  if (!node_) return std::nullopt;
  const SignatureNode* node = node_.get();
  std::uint64_t found = packed_bytes / node->bytes * node->elements;
  std::uint64_t rest = packed_bytes % node->bytes;
  // What is left ends within the node.
  while (rest != 0) {
    if (node->is_run()) {
      const std::uint64_t element = element_bytes(node->kind);
      if (rest % element != 0) return std::nullopt;
      return found + rest / element;
    }
    if (node->is_loop()) {
      node = node->parts.front().get();
      found += rest / node->bytes * node->elements;
      rest %= node->bytes;
      continue;
    }
    const auto& before = node->bytes_before;
    const auto after = std::upper_bound(before.begin(), before.end(), rest);
    const auto i = static_cast<std::size_t>(after - before.begin()) - 1;
    found += node->elements_before[i];
    rest -= before[i];
    node = node->parts[i].get();
  }
  return found;
}

std::optional<ElementKind> TypeSignature::only_kind() const {
  // Runs are joined and loops over runs are runs, so that one kind is one run.
  if (!node_ || !node_->is_run()) return std::nullopt;
  return node_->kind;
}

bool operator==(const TypeSignature& a, const TypeSignature& b) {
  if (a.bytes() != b.bytes() || a.elements() != b.elements()) return false;
  if (same_form(a.node_, b.node_)) return true;
  SignatureCursor one(a);
  SignatureCursor other(b);
  ElementRun x;
  ElementRun y;
  while (one.next(x)) {
    if (!other.next(y) || !(x == y)) return false;
  }
  return true;
}

SignatureCursor::SignatureCursor(const TypeSignature& signature) {
  if (signature.node()) nodes_.push_back({signature.node().get(), 0});
}

bool SignatureCursor::next_part(ElementRun& out) {
  while (!nodes_.empty()) {
    Visited& top = nodes_.back();
    const SignatureNode& node = *top.node;
    const std::uint64_t i = top.index++;
    if (node.is_run()) {
      out = {node.kind, node.count};
      nodes_.pop_back();
      return true;
    }
    const std::uint64_t turns = node.is_loop() ? node.count : node.parts.size();
    if (i == turns) {
      nodes_.pop_back();
    } else {
      nodes_.push_back({node.parts[node.is_loop() ? 0 : i].get(), 0});
    }
  }
  return false;
}

bool SignatureCursor::next(ElementRun& out) {
  if (!has_ahead_ && !next_part(ahead_)) return false;
  out = ahead_;
  while ((has_ahead_ = next_part(ahead_)) && ahead_.kind == out.kind) out.count += ahead_.count;
  return true;
}

}  // namespace holdfast::datatype

// Signatures against lists of elements, one by one.
#include <doctest/doctest.h>

#include <random>

#include "datatype/signature.h"

namespace holdfast::datatype {
namespace {

using Elements = std::vector<ElementKind>;

struct JudgedSignature {
  TypeSignature signature;
  Elements elements;
};

class RandomSignatures {
 public:
  explicit RandomSignatures(std::uint64_t seed) : random_(seed) {}

  std::uint64_t upto(std::uint64_t most) { return random_() % (most + 1); }

  JudgedSignature next(int depth) {
    if (depth == 0) {
      const auto kind = static_cast<ElementKind>(upto(kElementKindCount - 1));
      return {TypeSignature::element(kind), {kind}};
    }
    JudgedSignature out;
    if (upto(2) == 0) {
      const JudgedSignature body = next(depth - 1);
      const std::uint64_t count = upto(4);
      for (std::uint64_t i = 0; i < count; ++i) append(out.elements, body.elements);
      out.signature = TypeSignature::repeated(count, body.signature);
      return out;
    }
    std::vector<std::uint64_t> counts;
    std::vector<TypeSignature> parts;
    for (std::uint64_t i = upto(4); i > 0; --i) {
      const JudgedSignature part = next(static_cast<int>(upto(static_cast<unsigned>(depth - 1))));
      counts.push_back(upto(3));
      parts.push_back(part.signature);
      for (std::uint64_t n = 0; n < counts.back(); ++n) append(out.elements, part.elements);
    }
    out.signature = TypeSignature::structure(counts, parts);
    return out;
  }

  static void append(Elements& to, const Elements& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

 private:
  std::mt19937_64 random_;
};

std::uint64_t bytes_of(const Elements& elements) {
  std::uint64_t sum = 0;
  for (const ElementKind kind : elements) sum += element_bytes(kind);
  return sum;
}

Elements walked(const TypeSignature& signature) {
  Elements out;
  SignatureCursor cursor(signature);
  for (ElementRun run; cursor.next(run);) {
    CHECK((out.empty() || out.back() != run.kind));
    out.insert(out.end(), run.count, run.kind);
  }
  return out;
}

// By the definition: element after element, of as many types as it takes.
std::optional<std::uint64_t> counted(const Elements& elements, std::uint64_t bytes) {
  std::uint64_t n = 0;
  for (; bytes > 0; ++n) {
    if (elements.empty()) return std::nullopt;
    const std::uint64_t one = element_bytes(elements[n % elements.size()]);
    if (one > bytes) return std::nullopt;
    bytes -= one;
  }
  return n;
}

TEST_CASE("random signatures are the elements they were made of, and count them") {
  RandomSignatures random(5);
  std::uint64_t partial = 0;
  for (int n = 0; n < 3000; ++n) {
    CAPTURE(n);
    const JudgedSignature judged = random.next(n % 5);
    REQUIRE(judged.signature.elements() == judged.elements.size());
    REQUIRE(judged.signature.bytes() == bytes_of(judged.elements));
    REQUIRE(walked(judged.signature) == judged.elements);
    for (int cut = 0; cut < 10; ++cut) {
      const std::uint64_t bytes = random.upto(2 * judged.signature.bytes() + 3);
      const auto expected = counted(judged.elements, bytes);
      REQUIRE(judged.signature.elements_in(bytes) == expected);
      partial +=
          expected.has_value() && *expected % std::max<std::size_t>(1, judged.elements.size()) != 0
              ? 1U
              : 0U;
    }
    // One by one, they are equal; with one of another kind, they are not.
    Elements other = judged.elements;
    const auto listed = [](const Elements& elements) {
      std::vector<TypeSignature> parts;
      for (const ElementKind kind : elements) parts.push_back(TypeSignature::element(kind));
      return TypeSignature::structure(std::vector<std::uint64_t>(parts.size(), 1), parts);
    };
    REQUIRE(listed(other) == judged.signature);
    if (other.empty()) continue;
    ElementKind& changed = other[random.upto(other.size() - 1)];
    changed = changed == ElementKind::kInt32 ? ElementKind::kFloat : ElementKind::kInt32;
    REQUIRE(!(listed(other) == judged.signature));
  }
  CHECK(partial > 1000);
}

TEST_CASE("a large type has a small signature") {
  const TypeSignature doubles =
      TypeSignature::repeated(1 << 20, TypeSignature::element(ElementKind::kDouble));
  CHECK(doubles.only_kind() == ElementKind::kDouble);
  const TypeSignature pairs =
      TypeSignature::repeated(std::uint64_t{1} << 50, TypeSignature::pair(PairKind::kDoubleInt));
  CHECK(pairs.elements() == std::uint64_t{1} << 51);
  CHECK(!pairs.only_kind().has_value());
  CHECK(pairs.elements_in(12 * 1000 + 8) == 2001);
  CHECK(!pairs.elements_in(12 * 1000 + 9).has_value());
  CHECK(!TypeSignature().elements_in(1).has_value());
  CHECK(TypeSignature().elements_in(0) == 0);
}

TEST_CASE("elements and pairs are laid out as in C") {
  for (int kind = 0; kind < kElementKindCount; ++kind) {
    const auto element = static_cast<ElementKind>(kind);
    CHECK(element_layout(element).extent() == static_cast<std::int64_t>(element_bytes(element)));
    CHECK(TypeSignature::element(element).bytes() == element_layout(element).size());
  }
  struct LongDoubleInt {
    long double value;
    int index;
  };
  struct ShortInt {
    short value;
    int index;
  };
  CHECK(pair_layout(PairKind::kFloatInt).extent() == 8);
  CHECK(pair_layout(PairKind::kDoubleInt).extent() == 16);
  CHECK(pair_layout(PairKind::kDoubleInt).size() == 12);
  CHECK(pair_layout(PairKind::kTwoInt).is_dense(2));
  CHECK(pair_layout(PairKind::kShortInt).size() == 6);
  CHECK(pair_layout(PairKind::kShortInt).extent() == sizeof(ShortInt));
  CHECK(pair_layout(PairKind::kLongDoubleInt).extent() == sizeof(LongDoubleInt));
  for (int kind = 0; kind < kPairKindCount; ++kind) {
    const auto pair = static_cast<PairKind>(kind);
    CHECK(TypeSignature::pair(pair).bytes() == pair_layout(pair).size());
    CHECK(TypeSignature::pair(pair).elements() == 2);
  }
}

}  // namespace
}  // namespace holdfast::datatype

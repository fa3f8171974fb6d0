#include "mpi/types/elements.h"

#include <algorithm>
#include <iterator>

namespace holdfast::mpi {

namespace {

// Lists within lists become one up to so many parts, and beyond this depth whatever their number:
// walks by recursion then end, since each repetition that is left doubles the bytes.
constexpr std::size_t kMostSpliced = 4096;
constexpr std::uint32_t kMostDepth = 64;

ElementList run_of(const BasicType& basic, std::uint64_t repeat) {
  return std::make_shared<const ElementNode>(ElementNode{.repeat = repeat,
                                                         .basic = &basic,
                                                         .count = repeat,
                                                         .bytes = repeat * basic.bytes,
                                                         .external = repeat * basic.external});
}

ElementList list_of(std::vector<ElementList> parts, std::uint64_t repeat) {
  ElementNode node{.repeat = repeat, .parts = std::move(parts)};
  for (const ElementList& part : node.parts) {
    node.depth = std::max(node.depth, part->depth + 1);
    node.count += repeat * part->count;
    node.bytes += repeat * part->bytes;
    node.external += repeat * part->external;
  }
  return std::make_shared<const ElementNode>(std::move(node));
}

void append(std::vector<ElementList>& list, const ElementList& part) {
  const bool extends = !list.empty() && part->basic != nullptr && list.back()->basic == part->basic;
  if (extends) {
    list.back() = run_of(*part->basic, list.back()->repeat + part->repeat);
  } else {
    list.push_back(part);
  }
}

bool same(const std::vector<ElementList>& a, const std::vector<ElementList>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ElementList& x, const ElementList& y) { return x == y || *x == *y; });
}

// Bytes, or elements, of one repetition.
std::uint64_t bytes_of_one(const ElementNode& node) { return node.bytes / node.repeat; }
std::uint64_t count_of_one(const ElementNode& node) { return node.count / node.repeat; }

void walk(const ElementNode& node, const EachRun& each) {
  if (node.basic != nullptr) return each(*node.basic, node.repeat);
  for (std::uint64_t i = 0; i < node.repeat; ++i) {
    for (const ElementList& part : node.parts) walk(*part, each);
  }
}

}  // namespace

ElementList elements_of(const BasicType& basic) { return run_of(basic, 1); }

ElementList repeated(std::uint64_t times, const ElementList& elements) {
  if (times == 0 || elements == nullptr) return nullptr;
  if (times == 1) return elements;
  if (elements->basic != nullptr) return run_of(*elements->basic, times * elements->repeat);
  return list_of(elements->parts, times * elements->repeat);
}

ElementList joined(const std::vector<ElementList>& parts) {
  std::vector<ElementList> list;
  for (const ElementList& part : parts) {
    if (part == nullptr) continue;
    const bool spliced = part->basic == nullptr && part->repeat == 1 &&
                         (part->parts.size() <= kMostSpliced || part->depth >= kMostDepth);
    if (!spliced) {
      append(list, part);
      continue;
    }
    for (const ElementList& inner : part->parts) append(list, inner);
  }
  if (list.empty()) return nullptr;
  if (list.size() == 1) return list[0];
  return list_of(std::move(list), 1);
}

bool operator==(const ElementNode& a, const ElementNode& b) {
  return a.repeat == b.repeat && a.basic == b.basic && a.count == b.count && same(a.parts, b.parts);
}

bool count_in(const ElementList& elements, std::uint64_t bytes, std::uint64_t* count) {
  *count = 0;
  const ElementNode* node = elements.get();
  while (node != nullptr && bytes != 0) {
    if (node->basic != nullptr) {
      *count += bytes / node->basic->bytes;
      return bytes % node->basic->bytes == 0;
    }
    *count += bytes / bytes_of_one(*node) * count_of_one(*node);
    bytes %= bytes_of_one(*node);
    const ElementNode* cut = nullptr;
    for (const ElementList& part : node->parts) {
      if (bytes < part->bytes) {
        cut = part.get();
        break;
      }
      *count += part->count;
      bytes -= part->bytes;
    }
    node = cut;
  }
  return bytes == 0;
}

std::uint64_t bytes_of_first(const ElementList& elements, std::uint64_t count) {
  std::uint64_t bytes = 0;
  const ElementNode* node = elements.get();
  while (node != nullptr && count != 0) {
    if (node->basic != nullptr) return bytes + count * node->basic->bytes;
    bytes += count / count_of_one(*node) * bytes_of_one(*node);
    count %= count_of_one(*node);
    const ElementNode* cut = nullptr;
    for (const ElementList& part : node->parts) {
      if (count < part->count) {
        cut = part.get();
        break;
      }
      bytes += part->bytes;
      count -= part->count;
    }
    node = cut;
  }
  return bytes;
}

void for_each_run(const ElementList& elements, const EachRun& each) {
  if (elements != nullptr) walk(*elements, each);
}

}  // namespace holdfast::mpi

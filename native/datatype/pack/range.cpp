// Walks the steps of a plan for a range of packed bytes: whole turns, blocks and parts go to
// kernels, and what the range cuts at its ends is walked down to its bytes.
#include <algorithm>
#include <type_traits>

#include "base/copy.h"
#include "datatype/pack/step.h"

namespace holdfast::datatype {
namespace {

template <bool kPack>
struct Walk {
  using StridedByte = std::conditional_t<kPack, const std::byte, std::byte>;
  using PackedByte = std::conditional_t<kPack, std::byte, const std::byte>;

  static const std::byte* from(StridedByte* strided, PackedByte* packed) {
    if constexpr (kPack) return strided;
    if constexpr (!kPack) return packed;
  }
  static std::byte* to(StridedByte* strided, PackedByte* packed) {
    if constexpr (kPack) return packed;
    if constexpr (!kPack) return strided;
  }

  static void range(const PackStep& step, StridedByte* strided, std::uint64_t begin,
                    std::uint64_t end, PackedByte* packed) {
    if (begin == end) return;
    switch (step.kind) {
      case PackKind::kCopy:
        copy_bytes(to(strided + begin, packed), from(strided + begin, packed), end - begin);
        return;
      case PackKind::kVector:
      case PackKind::kLoop: return loop_range(step, strided, begin, end, packed);
      default: return list_range(step, strided, begin, end, packed);
    }
  }

  static void loop_range(const PackStep& step, StridedByte* strided, std::uint64_t begin,
                         std::uint64_t end, PackedByte* packed) {
    const PackStep& body = *step.children.front();
    const std::int64_t stride = step.node->stride;
    std::uint64_t turn = begin / step.item;
    const auto at = [&] { return strided + static_cast<std::int64_t>(turn) * stride; };
    if (const std::uint64_t cut = begin % step.item; cut != 0) {
      const std::uint64_t until = std::min(step.item, cut + (end - begin));
      range(body, at(), cut, until, packed);
      packed += until - cut;
      begin += until - cut;
      ++turn;
    }
    if (const std::uint64_t turns = (end - begin) / step.item; turns != 0) {
      loop_turns(step, at(), turns, packed);
      packed += turns * step.item;
      begin += turns * step.item;
      turn += turns;
    }
    if (begin != end) range(body, at(), 0, end - begin, packed);
  }

  static void loop_turns(const PackStep& step, StridedByte* strided, std::uint64_t turns,
                         PackedByte* packed) {
    const LayoutNode& node = *step.node;
    if (step.kind == PackKind::kLoop) {
      const PackStep& body = *step.children.front();
      for (std::uint64_t i = 0; i < turns; ++i) {
        range(body, strided + static_cast<std::int64_t>(i) * node.stride, 0, step.item,
              packed + i * step.item);
      }
      return;
    }
    VectorRun run{from(strided, packed), to(strided, packed), step.item, turns, node.stride, 1, 0};
    if (step.has_rows) {
      const LayoutNode& row = *node.child;
      run.block = row.child->size;
      run.count = row.count;
      run.stride = row.stride;
      run.rows = turns;
      run.row_stride = node.stride;
    }
    (kPack ? step.pack_vector : step.unpack_vector)(run);
  }

  // The part that holds a packed byte of a list.
  static std::size_t part_at(const LayoutNode& node, std::uint64_t byte) {
    if (node.block != 0) return byte / node.block;
    const auto after = std::upper_bound(node.before.begin(), node.before.end(), byte);
    return static_cast<std::size_t>(after - node.before.begin()) - 1;
  }

  static void list_range(const PackStep& step, StridedByte* strided, std::uint64_t begin,
                         std::uint64_t end, PackedByte* packed) {
    const LayoutNode& node = *step.node;
    std::size_t i = part_at(node, begin);
    if (const std::uint64_t cut = begin - node.packed_at(i); cut != 0) {
      const std::uint64_t until = std::min(node.length(i), cut + (end - begin));
      part_range(step, i, strided, cut, until, packed);
      packed += until - cut;
      begin += until - cut;
      ++i;
    }
    if (begin == end) return;
    const std::size_t cut_part = end == node.size ? node.offsets.size() : part_at(node, end);
    if (cut_part > i) {
      list_parts(step, i, cut_part - i, strided, packed);
      packed += node.packed_at(cut_part) - begin;
      begin = node.packed_at(cut_part);
    }
    if (begin != end) part_range(step, cut_part, strided, 0, end - begin, packed);
  }

  static void part_range(const PackStep& step, std::size_t i, StridedByte* strided,
                         std::uint64_t begin, std::uint64_t end, PackedByte* packed) {
    StridedByte* const part = strided + step.node->offsets[i];
    if (step.kind == PackKind::kParts) return range(*step.children[i], part, begin, end, packed);
    copy_bytes(to(part + begin, packed), from(part + begin, packed), end - begin);
  }

  static void list_parts(const PackStep& step, std::size_t first, std::size_t count,
                         StridedByte* strided, PackedByte* packed) {
    const LayoutNode& node = *step.node;
    if (step.kind == PackKind::kList) {
      const ListRun run{from(strided, packed),
                        to(strided, packed),
                        node.block,
                        count,
                        step.near.empty() ? nullptr : step.near.data() + first,
                        node.offsets.data() + first};
      return (kPack ? step.pack_list : step.unpack_list)(run);
    }
    if (step.kind == PackKind::kMixed) {
      const MixedRun run{from(strided, packed), to(strided, packed), count,
                         node.offsets.data() + first, node.before.data() + first};
      return (kPack ? step.pack_mixed : step.unpack_mixed)(run);
    }
    for (std::size_t i = first; i < first + count; ++i) {
      part_range(step, i, strided, 0, node.length(i), packed);
      packed += node.length(i);
    }
  }
};

}  // namespace

void pack_range(const PackStep& step, const std::byte* strided, std::uint64_t begin,
                std::uint64_t end, std::byte* packed) {
  Walk<true>::range(step, strided, begin, end, packed);
}

void unpack_range(const PackStep& step, std::byte* strided, std::uint64_t begin, std::uint64_t end,
                  const std::byte* packed) {
  Walk<false>::range(step, strided, begin, end, packed);
}

}  // namespace holdfast::datatype

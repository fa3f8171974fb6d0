// Walks the steps of a plan for a range of packed bytes: whole turns, blocks and parts go to
// kernels, and what the range cuts at its ends is walked down to its bytes.
#include <algorithm>
#include <type_traits>

#include "base/copy.h"
#include "datatype/pack/step.h"

namespace holdfast::datatype {
namespace {

// Records whose blocks are moved one after the other: they stay in the first cache.
constexpr std::uint64_t kTile = 32;

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
      case PackKind::kRecords:
      case PackKind::kRows:
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
    if (step.kind == PackKind::kRecords) return records(step, strided, turns, packed);
    const LayoutNode& node = *step.node;
    if (step.kind == PackKind::kRows) {
      return rows(step, strided, 0, turns, packed);
    }
    const PackStep& body = *step.children.front();
    for (std::uint64_t i = 0; i < turns; ++i) {
      range(body, strided + static_cast<std::int64_t>(i) * node.stride, 0, step.item,
            packed + i * step.item);
    }
  }

  static const RecordLoops& loops(const PackStep& step) {
    return kPack ? step.pack_record : step.unpack_record;
  }

  static void records(const PackStep& step, StridedByte* strided, std::uint64_t count,
                      PackedByte* packed) {
    ShuffledRecords done;
    if (const ShufflePlan* const plan = loops(step).shuffles.get(); plan != nullptr) {
      done = shuffle_records(*plan, step.record, kPack, count, from(strided, packed),
                             to(strided, packed));
    }
    // Afterwards, because shuffles may write ahead of what they pack.
    const auto rest = step.node->child->kind == NodeKind::kLoop ? rows : by_blocks;
    rest(step, strided, 0, done.first, packed);
    rest(step, strided, done.first + done.count, count, packed);
  }

  // Turns [first, end) of a loop over a loop over a block.
  static void rows(const PackStep& step, StridedByte* strided, std::uint64_t first,
                   std::uint64_t end, PackedByte* packed) {
    const LayoutNode& row = *step.node->child;
    const std::uint64_t block = row.child->size;
    StridedByte* const here = strided + static_cast<std::int64_t>(first) * step.node->stride;
    PackedByte* const there = packed + first * step.item;
    loops(step).blocks.front()({from(here, there), to(here, there), block, row.count, row.stride,
                                block, end - first, step.node->stride});
  }

  // Records [first, end), block by block of a few records.
  static void by_blocks(const PackStep& step, StridedByte* strided, std::uint64_t first,
                        std::uint64_t end, PackedByte* packed) {
    const PackRecord& record = step.record;
    const std::uint64_t tile = record.blocks.size() == 1 ? end - first : kTile;
    while (first < end) {
      const std::uint64_t some = std::min(tile, end - first);
      StridedByte* const here = strided + static_cast<std::int64_t>(first) * record.stride;
      PackedByte* there = packed + first * record.size;
      for (std::size_t b = 0; b < record.blocks.size(); ++b) {
        const ByteBlock& block = record.blocks[b];
        loops(step).blocks[b]({from(here + block.offset, there), to(here + block.offset, there),
                               block.length, some, record.stride, record.size, 1, 0});
        there += block.length;
      }
      first += some;
    }
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
    if (step.element != 0) {
      const std::uint64_t at = node.packed_at(first) / step.element;
      const ListRun run{from(strided, packed),
                        to(strided, packed),
                        step.element,
                        (node.packed_at(first + count) / step.element) - at,
                        step.near.empty() ? nullptr : step.near.data() + at,
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

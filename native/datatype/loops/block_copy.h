// How one block is copied, as a type that the loops are made with. Nothing outside the block is
// read or written: what is no power of two takes two copies that overlap within it.
//
// Everything has internal linkage, and nothing of the standard library is called that could have
// external: the linker could keep a copy of it that was compiled for a newer processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::datatype {
namespace {

// Exactly kBytes.
template <std::size_t kBytes>
struct CopyExact {
  static void copy(std::byte* to, const std::byte* from, std::uint64_t /*bytes*/) {
    std::memcpy(to, from, kBytes);
  }
};

// From kBytes to 2 * kBytes.
template <std::size_t kBytes>
struct CopyTwice {
  static void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    std::byte head[kBytes];
    std::byte tail[kBytes];
    std::memcpy(head, from, kBytes);
    std::memcpy(tail, from + bytes - kBytes, kBytes);
    std::memcpy(to, head, kBytes);
    std::memcpy(to + bytes - kBytes, tail, kBytes);
  }
};

// More than 64, in a loop that a call of memcpy would cost as much as.
struct CopyLong {
  static void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    std::uint64_t i = 0;
    for (; i + 128 < bytes; i += 128) CopyExact<128>::copy(to + i, from + i, 128);
    if (bytes - i > 64) CopyExact<64>::copy(to + i, from + i, 64);
    CopyExact<64>::copy(to + bytes - 64, from + bytes - 64, 64);
  }
};

struct CopyAny {
  static void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (bytes > 64) {
      std::memcpy(to, from, bytes);
    } else if (bytes >= 32) {
      CopyTwice<32>::copy(to, from, bytes);
    } else if (bytes >= 16) {
      CopyTwice<16>::copy(to, from, bytes);
    } else if (bytes >= 8) {
      CopyTwice<8>::copy(to, from, bytes);
    } else if (bytes >= 4) {
      CopyTwice<4>::copy(to, from, bytes);
    } else if (bytes >= 2) {
      CopyTwice<2>::copy(to, from, bytes);
    } else {
      *to = *from;
    }
  }
};

// What Maker<Copy>::loop makes of the copy that suits a length.
template <template <class> class Maker>
auto loop_for(std::uint64_t block) {
  switch (block) {
    case 1: return Maker<CopyExact<1>>::loop;
    case 2: return Maker<CopyExact<2>>::loop;
    case 4: return Maker<CopyExact<4>>::loop;
    case 8: return Maker<CopyExact<8>>::loop;
    case 12: return Maker<CopyExact<12>>::loop;
    case 16: return Maker<CopyExact<16>>::loop;
    case 24: return Maker<CopyExact<24>>::loop;
    case 32: return Maker<CopyExact<32>>::loop;
    case 64: return Maker<CopyExact<64>>::loop;
    case 128: return Maker<CopyExact<128>>::loop;
    case 256: return Maker<CopyExact<256>>::loop;
    default: break;
  }
  if (block > 128) return Maker<CopyLong>::loop;
  if (block > 64) return Maker<CopyTwice<64>>::loop;
  if (block > 32) return Maker<CopyTwice<32>>::loop;
  if (block > 16) return Maker<CopyTwice<16>>::loop;
  if (block > 8) return Maker<CopyTwice<8>>::loop;
  return block > 4 ? Maker<CopyTwice<4>>::loop : Maker<CopyTwice<2>>::loop;
}

}  // namespace
}  // namespace holdfast::datatype

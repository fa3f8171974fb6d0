// Rates of packing and unpacking on one core, of ours, of a loop by hand, of memcpy and of MPI
// libraries: JSON lines, one to shape, payload and direction.
//
//   packing_rates PAYLOAD_BYTES [SHAPE|all|levels [libmpi.so]]
//
// Contestants take turns. A ratio is the median over the turns of the other's time by ours in the
// same turn (above 1: ours is faster); the rate is that of the best turn, since others on the
// machine only ever take time. Rates count bytes of the packed form. Every contestant must give
// the same bytes. With "levels" all shapes are measured at every instruction level, too.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>

#include "datatype/packer.h"
#include "mpi_library.h"

namespace holdfast::bench {
namespace {

using datatype::Packer;
using datatype::TypeLayout;
using List = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

constexpr int kTurns = 15;
constexpr double kTurnSeconds = 0.004;

// Hand-written loops know a shape's numbers when they are compiled, as a programmer would.
using Hand = std::function<void(std::byte* strided, std::byte* packed)>;

struct Shape {
  std::string name;
  TypeLayout layout;
  std::int64_t count;
  std::function<MpiLibrary::Type(MpiLibrary&)> mpi;
  Hand pack;
  Hand unpack;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <std::int64_t kBlock, std::int64_t kStride>
Shape vector_shape(std::int64_t payload) {
  const std::int64_t n = payload / kBlock;
  const auto loop = [n](auto copy) {
    for (std::int64_t i = 0; i < n; ++i) copy(i * kStride, i * kBlock);
  };
  return {"vector " + std::to_string(kBlock) + " of " + std::to_string(kStride),
          TypeLayout::hvector(n, kBlock, kStride, TypeLayout::bytes(1)).value(),
          1,
          [n](MpiLibrary& mpi) {
            return kBlock % 4 == 0
                       ? mpi.hvector(static_cast<int>(n), kBlock / 4, kStride, mpi.single())
                       : mpi.hvector(static_cast<int>(n), kBlock, kStride, mpi.byte());
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) { std::memcpy(packed + p, strided + s, kBlock); });
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) { std::memcpy(strided + s, packed + p, kBlock); });
          }};
}

// {double, float, short, char} with a gap before the short, at 32 bytes.
Shape record_shape(std::int64_t payload) {
  const std::int64_t n = payload / 15;
  const List lengths{8, 4, 2, 1};
  const List at{0, 8, 16, 24};
  const TypeLayout record = TypeLayout::hindexed(lengths, at, TypeLayout::bytes(1)).value();
  const auto loop = [n](auto copy) {
    for (std::int64_t i = 0; i < n; ++i) copy(i * 32, i * 15);
  };
  return {"record 15 of 32",
          TypeLayout::resized(record, 0, 32).value(),
          n,
          [](MpiLibrary& mpi) {
            return mpi.resized(mpi.hindexed({8, 4, 2, 1}, {0, 8, 16, 24}, mpi.byte()), 0, 32);
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) {
              std::memcpy(packed + p, strided + s, 12);
              std::memcpy(packed + p + 12, strided + s + 16, 2);
              packed[p + 14] = strided[s + 24];
            });
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) {
              std::memcpy(strided + s, packed + p, 12);
              std::memcpy(strided + s + 16, packed + p + 12, 2);
              strided[s + 24] = packed[p + 14];
            });
          }};
}

std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

// Single floats, in ascending order, a few apart at random.
Shape gather_shape(std::int64_t payload) {
  const std::int64_t n = payload / 4;
  const auto at = std::make_shared<List>();
  std::uint64_t state = 1;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    at->push_back(next * 4);
    next += 2 + static_cast<std::int64_t>(next_random(state) % 6);
  }
  return {"floats of a list",
          TypeLayout::hindexed_block(4, *at, TypeLayout::bytes(1)).value(),
          1,
          [at](MpiLibrary& mpi) {
            return mpi.hindexed(std::vector<int>(at->size(), 1), {at->begin(), at->end()},
                                mpi.single());
          },
          [at, n](std::byte* strided, std::byte* packed) {
            const std::int64_t* const list = at->data();
            for (std::int64_t i = 0; i < n; ++i) std::memcpy(packed + 4 * i, strided + list[i], 4);
          },
          [at, n](std::byte* strided, std::byte* packed) {
            const std::int64_t* const list = at->data();
            for (std::int64_t i = 0; i < n; ++i) std::memcpy(strided + list[i], packed + 4 * i, 4);
          }};
}

// 1 to 16 floats each.
Shape indexed_shape(std::int64_t payload) {
  const auto at = std::make_shared<List>();
  const auto lengths = std::make_shared<List>();
  std::uint64_t state = 1;
  std::int64_t next = 0;
  for (std::int64_t left = payload / 4; left > 0; left -= lengths->back()) {
    lengths->push_back(std::min<std::int64_t>(left, 1 + next_random(state) % 16));
    at->push_back(next * 4);
    next += lengths->back() + 1 + static_cast<std::int64_t>(next_random(state) % 16);
  }
  const auto loop = [at, lengths](auto copy) {
    std::int64_t packed = 0;
    for (std::size_t i = 0; i < at->size(); ++i) {
      const std::int64_t bytes = (*lengths)[i] * 4;
      copy((*at)[i], packed, static_cast<std::size_t>(bytes));
      packed += bytes;
    }
  };
  return {"blocks of a list",
          TypeLayout::hindexed(*lengths, *at, TypeLayout::bytes(4)).value(),
          1,
          [at, lengths](MpiLibrary& mpi) {
            return mpi.hindexed({lengths->begin(), lengths->end()}, {at->begin(), at->end()},
                                mpi.single());
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p, auto n) { std::memcpy(packed + p, strided + s, n); });
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p, auto n) { std::memcpy(strided + s, packed + p, n); });
          }};
}

// The face of a cube of doubles: `rows` rows of `count` blocks of kBlock bytes.
template <std::int64_t kBlock>
Shape nest_shape(const std::string& name, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t count, std::int64_t stride) {
  const auto loop = [=](auto copy) {
    std::int64_t packed = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < count; ++i, packed += kBlock) {
        copy(r * row_stride + i * stride, packed);
      }
    }
  };
  const TypeLayout row = TypeLayout::hvector(count, kBlock, stride, TypeLayout::bytes(1)).value();
  return {name,
          TypeLayout::hvector(rows, 1, row_stride, row).value(),
          1,
          [=](MpiLibrary& mpi) {
            const auto inner =
                mpi.hvector(static_cast<int>(count), kBlock / 4, stride, mpi.single());
            return mpi.hvector(static_cast<int>(rows), 1, row_stride, inner);
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) { std::memcpy(packed + p, strided + s, kBlock); });
          },
          [loop](std::byte* strided, std::byte* packed) {
            loop([=](auto s, auto p) { std::memcpy(strided + s, packed + p, kBlock); });
          }};
}

std::int64_t side_of(std::int64_t doubles) {
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= doubles) ++side;
  return side;
}

std::vector<Shape> shapes(std::int64_t payload) {
  const std::int64_t n = side_of(payload / 8);
  std::vector<Shape> all;
  all.push_back(vector_shape<1, 2>(payload));
  all.push_back(vector_shape<1, 3>(payload));
  all.push_back(vector_shape<2, 8>(payload));
  all.push_back(vector_shape<4, 8>(payload));
  all.push_back(vector_shape<4, 16>(payload));
  all.push_back(vector_shape<4, 64>(payload));
  all.push_back(vector_shape<8, 16>(payload));
  all.push_back(vector_shape<8, 512>(payload));
  all.push_back(vector_shape<12, 16>(payload));
  all.push_back(vector_shape<16, 32>(payload));
  all.push_back(vector_shape<20, 48>(payload));
  all.push_back(vector_shape<32, 64>(payload));
  all.push_back(vector_shape<64, 128>(payload));
  all.push_back(vector_shape<256, 512>(payload));
  all.push_back(vector_shape<4096, 8192>(payload));
  all.push_back(record_shape(payload));
  all.push_back(gather_shape(payload));
  all.push_back(indexed_shape(payload));
  all.push_back(nest_shape<8>("face, far", n, 8 * n * 4, n, 32));
  all.push_back(nest_shape<8>("transposed", n, 8, n, 8 * n));
  all.push_back(nest_shape<8>("pairs of rows", payload / 16, 64, 2, 24));
  all.push_back(nest_shape<8>("fives of rows", payload / 40, 160, 5, 24));
  return all;
}

struct Contestant {
  std::string name;
  std::function<void()> once;
  std::vector<double> seconds{};
};

void take_turns(std::vector<Contestant>& all) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Contestant& each : all) {
      each.once();
      int times = 0;
      const double start = now();
      do {
        each.once();
        ++times;
      } while (now() - start < kTurnSeconds);
      each.seconds.push_back((now() - start) / times);
    }
  }
}

double ratio(const Contestant& ours, const Contestant& other) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.seconds.size(); ++i) {
    ratios.push_back(other.seconds[i] / ours.seconds[i]);
  }
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

void report(const Shape& shape, const char* what, std::size_t bytes,
            std::vector<Contestant>& contestants) {
  take_turns(contestants);
  const Contestant& ours = contestants.front();
  const double best = *std::ranges::min_element(ours.seconds);
  std::printf("{\"shape\": \"%s\", \"what\": \"%s\", \"bytes\": %zu, \"gb_per_s\": %.2f",
              shape.name.c_str(), what, bytes, static_cast<double>(bytes) / best / 1e9);
  for (std::size_t i = 1; i < contestants.size(); ++i) {
    std::printf(", \"to_%s\": %.3f", contestants[i].name.c_str(), ratio(ours, contestants[i]));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void must_be(bool holds, const Shape& shape, const char* who) {
  if (holds) return;
  std::fprintf(stderr, "packing_rates: %s: %s gave other bytes\n", shape.name.c_str(), who);
  std::exit(1);
}

void measure(const Shape& shape, MpiLibrary* mpi, bool levels) {
  const Packer packer = Packer::make(shape.layout, shape.count).value();
  const auto all = TypeLayout::contiguous(shape.count, shape.layout).value();
  const std::size_t bytes = packer.bytes();
  Bytes strided(static_cast<std::size_t>(all.true_ub()) + 64);
  for (std::size_t i = 0; i < strided.size(); ++i) strided[i] = static_cast<std::byte>(i * 7 >> 3);
  Bytes packed(bytes);
  Bytes by_others(bytes);
  const MpiLibrary::Type type = mpi != nullptr ? mpi->commit(shape.mpi(*mpi)) : 0;
  const auto count = static_cast<int>(shape.count);

  std::vector<Contestant> packing{{"ours", [&] { packer.pack(strided.data(), 0, packed); }}};
  packing.push_back({"memcpy", [&] { std::memcpy(by_others.data(), strided.data(), bytes); }});
  packing.push_back({"hand", [&] { shape.pack(strided.data(), by_others.data()); }});
  std::vector<Contestant> unpacking{{"ours", [&] { packer.unpack(packed, 0, strided.data()); }}};
  unpacking.push_back({"memcpy", [&] { std::memcpy(strided.data(), packed.data(), bytes); }});
  unpacking.push_back({"hand", [&] { shape.unpack(strided.data(), packed.data()); }});
  if (mpi != nullptr) {
    packing.push_back(
        {"mpi", [&] { mpi->pack(strided.data(), count, type, by_others.data(), bytes); }});
    unpacking.push_back(
        {"mpi", [&] { mpi->unpack(packed.data(), bytes, strided.data(), count, type); }});
  }
  std::vector<Packer> of_levels;
  for (const CpuLevel level : cpu_levels()) {
    of_levels.push_back(Packer::make(shape.layout, shape.count, level).value());
  }
  for (std::size_t i = 0; levels && i < of_levels.size(); ++i) {
    const std::string name(cpu_level_name(cpu_levels()[i]));
    packing.push_back({name, [&, i] { of_levels[i].pack(strided.data(), 0, packed); }});
    unpacking.push_back({name, [&, i] { of_levels[i].unpack(packed, 0, strided.data()); }});
  }
  packing.front().once();
  for (std::size_t i = 2; i < packing.size(); ++i) {
    by_others.assign(bytes, std::byte{0x5a});
    packing[i].once();
    must_be(levels && i > (mpi != nullptr ? 3u : 2u) ? true : by_others == packed, shape,
            packing[i].name.c_str());
  }
  report(shape, "pack", bytes, packing);
  packing.front().once();
  report(shape, "unpack", bytes, unpacking);
}

}  // namespace
}  // namespace holdfast::bench

int main(int count, char** words) {
  using namespace holdfast::bench;
  if (count < 2) {
    std::fprintf(stderr, "packing_rates PAYLOAD_BYTES [SHAPE|all|levels [libmpi.so]]\n");
    return 2;
  }
  const std::string only = count > 2 ? words[2] : "all";
  std::unique_ptr<MpiLibrary> mpi;
  if (count > 3) mpi = std::make_unique<MpiLibrary>(words[3]);
  for (const Shape& shape : shapes(std::atoll(words[1]))) {
    if (only != "all" && only != "levels" && shape.name != only) continue;
    measure(shape, mpi.get(), only == "levels");
  }
  return 0;
}

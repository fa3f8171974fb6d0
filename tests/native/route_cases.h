// The calls whose ways tests/native/routes.tsv lists: around every limit by which one is chosen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/communicator.h"

namespace holdfast::testing {

using comm::Collective;

// What all ranks of a host share.
enum class Shared : std::uint8_t {
  kNothing,
  kFlat,    // the flat exchange alone
  kSlices,  // and slices, through areas
  kMemory,  // and slices, which read each other's memory
};

struct RouteWorld {
  std::vector<int> hosts = {0, 0, 0, 0};  // by rank
  Shared shared = Shared::kNothing;
  bool protect = true;
};

// What devices can do, and from how many bytes on that is used.
struct RouteDevices {
  bool direct = true;
  bool encoded = true;
  bool agreed = true;  // the members' devices have found that all can do it
  std::uint64_t direct_bytes = 64 << 10;
  std::uint64_t encoded_bytes = 64 << 10;
  std::uint64_t slice_bytes = 1 << 20;
};

enum class Blocks : std::uint8_t { kAny, kEqual, kUneven };

struct RouteCase {
  RouteWorld world = {};
  Collective collective{};
  std::uint64_t elements = 0;  // of all blocks of the larger side, of f32
  Blocks blocks = Blocks::kAny;
  int root = 0;
  std::string algorithm = {};
  std::string codec = {};
  bool residual = false;
  bool atomic = false;
  bool repair = false;
  bool at_entrance = false;
  const RouteDevices* devices = nullptr;  // null: memory of the host
  // Settings of the group.
  std::string default_algorithm = {};
  std::string default_codec = {};
  std::string plan = {};
};

inline constexpr std::uint64_t kRouteCodecBytes = 1 << 16;  // the option codec_min_bytes
inline constexpr std::uint64_t kRouteSliceBytes = 1 << 18;  // the option shm_slice_bytes

inline std::string text_of(const RouteCase& c) {
  constexpr std::string_view kShared[] = {"tcp", "flat", "slices", "memory"};
  std::string text(comm::collective_name(c.collective));
  text += " " + std::to_string(c.elements) + " ";
  for (const int host : c.world.hosts) text += std::to_string(host);
  text += " " + std::string(kShared[static_cast<std::size_t>(c.world.shared)]);
  const auto say = [&](bool set, const std::string& what) {
    if (set) text += " " + what;
  };
  say(!c.world.protect, "unprotected");
  say(c.blocks == Blocks::kEqual, "equal");
  say(c.blocks == Blocks::kUneven, "uneven");
  say(c.root != 0, "root=" + std::to_string(c.root));
  say(!c.algorithm.empty(), "algorithm=" + c.algorithm);
  say(!c.codec.empty(), "codec=" + c.codec);
  say(c.residual, "residual");
  say(c.atomic, "atomic");
  say(c.repair, "repair");
  say(c.at_entrance, "entrance");
  say(!c.default_algorithm.empty(), "option_algorithm=" + c.default_algorithm);
  say(!c.default_codec.empty(), "option_codec=" + c.default_codec);
  say(!c.plan.empty(), "plan");
  if (c.devices != nullptr) {
    text += std::string(" device") + (c.devices->direct ? "" : "-nodirect") +
            (c.devices->encoded ? "" : "-nocoded") + (c.devices->agreed ? "" : "-disagreed");
  }
  return text;
}

// A request as rank 0 makes it. Its blocks lie at two places of the caller's, whatever their size.
struct RouteMemory {
  std::vector<std::byte> input = std::vector<std::byte>(64 << 10);
  std::vector<std::byte> output = std::vector<std::byte>(64 << 10);
  float residual = 0;
};

inline comm::OpRequest request_of(const RouteCase& c, RouteMemory& memory) {
  const std::size_t n = c.world.hosts.size();
  const comm::CollectiveFacts& facts = comm::facts_of(c.collective);
  const bool at_root = c.root == 0;
  const bool by_rank = comm::has_blocks_by_rank(c.collective);
  const std::uint64_t each = by_rank ? c.elements / n : c.elements;
  const auto blocks = [&](const comm::BlockSide& side, std::byte* at) {
    comm::BlockList list;
    const std::size_t count = comm::block_count(side, at_root, static_cast<int>(n));
    for (std::size_t i = 0; i < count; ++i) {
      const bool longer = c.blocks == Blocks::kUneven && count > 1 && i + 1 == count;
      list.push_back({at, each + (longer ? 1 : 0)});
    }
    return list;
  };
  comm::OpRequest request;
  request.collective = c.collective;
  request.input = blocks(facts.input, memory.input.data());
  request.output = blocks(facts.output, memory.output.data());
  request.root = {c.root};
  request.algorithm = c.algorithm;
  request.equal_blocks = c.blocks == Blocks::kEqual;
  request.atomic = c.atomic;
  if (!c.codec.empty()) {
    request.codec =
        std::make_shared<const compress::Codec>(compress::Codec::parse(c.codec).value());
  }
  if (c.residual) request.residual.assign(request.input.size(), &memory.residual);
  return request;
}

inline constexpr Collective kRouted[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kAllToAll,  Collective::kBroadcast,     Collective::kReduce,
    Collective::kGather,    Collective::kScatter,       Collective::kBarrier};

class RouteCases {
 public:
  static std::vector<RouteCase> all() {
    RouteCases cases;
    cases.by_size();
    cases.by_name();
    cases.with_codecs();
    cases.with_options();
    cases.unusual();
    cases.on_devices();
    return std::move(cases.cases_);
  }

 private:
  using Sizes = std::vector<std::uint64_t>;

  // Elements: each limit in bytes, and one element beyond.
  static Sizes around(const Sizes& bytes) {
    Sizes sizes{0};
    for (const std::uint64_t b : bytes) {
      sizes.push_back(b / 4);
      sizes.push_back(b / 4 + 16);
    }
    return sizes;
  }

  void add(const RouteCase& c) {
    const bool bare = c.collective == Collective::kBarrier && c.elements > 0;
    if (!bare) cases_.push_back(c);
  }

  void add_equal(RouteCase c) {
    add(c);
    if (!comm::facts_of(c.collective).common_if_equal) return;
    c.blocks = Blocks::kEqual;
    add(c);
  }

  void by_size() {
    constexpr std::uint64_t kKi = 1024;
    const Sizes sizes = around({4, 8 * kKi, 16 * kKi, 32 * kKi, 64 * kKi, 128 * kKi, 256 * kKi,
                                512 * kKi, 1024 * kKi, 4096 * kKi, 64 * 1024 * kKi});
    const Sizes few{0, 1024, 4096, 4112, 8192, 8208, 65'536, 1 << 20, 1 << 23};
    const std::vector<RouteWorld> whole{{{0, 0}, Shared::kMemory},
                                        {{0, 0, 0, 0}, Shared::kMemory},
                                        {{0, 0, 0}, Shared::kSlices},
                                        {{0, 1}, Shared::kNothing},
                                        {{0, 0, 1, 1}, Shared::kNothing}};
    const std::vector<RouteWorld> beside{{{0}, Shared::kNothing},
                                         {{0}, Shared::kMemory},
                                         {{0, 0}, Shared::kNothing},
                                         {{0, 0}, Shared::kFlat},
                                         {{0, 0}, Shared::kSlices, false},
                                         {{0, 0, 0}, Shared::kMemory, false},
                                         {{0, 0, 0, 0}, Shared::kNothing, false},
                                         {{0, 0, 0, 0, 0}, Shared::kSlices},
                                         {{0, 0, 0, 0, 0, 0, 0, 0}, Shared::kMemory},
                                         {{0, 0, 0, 0, 0, 0, 0, 0}, Shared::kFlat},
                                         {std::vector<int>(16), Shared::kSlices},
                                         {{0, 1, 2}, Shared::kNothing},
                                         {{0, 0, 0, 1, 1}, Shared::kNothing},
                                         {{0, 1, 0, 1, 0, 1, 0, 1}, Shared::kNothing},
                                         {{0, 0, 1, 1, 2, 2, 3, 3}, Shared::kNothing, false}};
    for (const Collective collective : kRouted) {
      for (const RouteWorld& world : whole) {
        for (const auto size : sizes) add_equal({world, collective, size});
      }
      for (const RouteWorld& world : beside) {
        for (const auto size : few) add_equal({world, collective, size});
      }
    }
  }

  void by_name() {
    const std::vector<RouteWorld> worlds{{{0, 0, 0, 0}, Shared::kMemory},
                                         {{0, 0, 0, 1, 1}, Shared::kNothing}};
    for (const comm::AlgorithmRow& row : comm::catalogue()) {
      for (const RouteWorld& world : worlds) {
        for (const std::uint64_t size : {0U, 1024U, 1U << 20}) {
          RouteCase c{world, row.collective, size, Blocks::kEqual};
          c.algorithm = row.algorithm;
          add(c);
        }
      }
    }
  }

  void with_codecs() {
    const std::vector<RouteWorld> worlds{{{0, 0, 0}, Shared::kMemory},
                                         {{0, 0, 1, 1}, Shared::kNothing}};
    for (const comm::AlgorithmRow& row : comm::encoded_catalogue()) {
      for (const char* const codec : {"int8", "topk", "bfloat"}) {
        for (const RouteWorld& world : worlds) {
          for (const std::uint64_t size : {64U, 1U << 16, 1U << 22}) {
            RouteCase c{world, row.collective, size};
            if (row.collective == Collective::kAllToAll) c.blocks = Blocks::kEqual;
            c.codec = codec;
            add(c);
            c.algorithm = row.algorithm;
            add(c);
            c.algorithm.clear();
            c.residual = codec != std::string_view("bfloat");
            if (c.residual) add(c);
            c.residual = false;
            c.blocks = Blocks::kUneven;
            if (row.collective != Collective::kAllReduce) add(c);
          }
        }
      }
    }
  }

  void with_options() {
    const std::string plan =
        "holdfast-plan 1\nlink tcp 1e-4 1e-9 1e-10\nall_reduce 4 1 shm 4096 ring 1e-6\n"
        "all_reduce 4 1 shm 4096 flat 2e-6\nall_reduce 4 1 shm 1048576 shared_memory 1e-6\n"
        "all_reduce 4 2 tcp 65536 recursive_doubling 1e-6\nall_to_all 4 2 tcp 1048576 bruck 1e-6\n"
        "reduce_scatter 4 2 tcp 4096 ring 1e-6\nbroadcast 4 2 tcp 4096 double_tree 1e-6\n";
    const std::vector<RouteWorld> worlds{{{0, 0, 0, 0}, Shared::kMemory},
                                         {{0, 0, 1, 1}, Shared::kNothing}};
    for (const RouteWorld& world : worlds) {
      for (const Collective collective : kRouted) {
        for (const std::uint64_t size : {0U, 512U, 1024U, 4096U, 16'384U, 262'144U, 524'288U}) {
          RouteCase c{world, collective, size};
          for (const char* const codec : {"int8", "bfloat"}) {
            c.default_codec = codec;
            add_equal(c);
          }
          c.at_entrance = true;
          add(c);
          c.default_codec.clear();
          c.plan = plan;
          add(c);
          c.at_entrance = false;
          add_equal(c);
          c.plan.clear();
          c.default_algorithm = "ring";
          add_equal(c);
        }
      }
    }
  }

  void unusual() {
    const std::vector<RouteWorld> worlds{{{0, 0, 0, 0}, Shared::kMemory},
                                         {{0, 0, 0}, Shared::kSlices},
                                         {{0}, Shared::kNothing},
                                         {{0, 0, 1, 1}, Shared::kNothing}};
    for (const RouteWorld& world : worlds) {
      for (const Collective collective : kRouted) {
        for (const std::uint64_t size : {1024U, 1U << 18}) {
          const RouteCase plain{world, collective, size};
          RouteCase c = plain;
          c.atomic = true;
          add(c);
          c.atomic = false;
          c.repair = true;
          add(c);
          c.repair = false;
          c.blocks = Blocks::kUneven;
          add(c);
          c = plain;
          c.root = 1;
          if (world.hosts.size() > 1 && comm::is_rooted(collective)) add_equal(c);
        }
      }
    }
  }

  void on_devices() {
    static const RouteDevices all{};
    static const RouteDevices disagreed{true, true, false};
    static const RouteDevices staged{false, false};
    static const RouteDevices encoded{false, true};
    const std::vector<RouteWorld> worlds{{{0, 0, 0, 0}, Shared::kMemory},
                                         {{0}, Shared::kMemory},
                                         {{0, 1}, Shared::kNothing},
                                         {{0, 0, 0, 1, 1}, Shared::kNothing}};
    for (const RouteDevices* devices : {&all, &disagreed, &staged, &encoded}) {
      for (const RouteWorld& world : worlds) {
        for (const Collective collective : kRouted) {
          for (const std::uint64_t size : {0U, 1024U, 16'384U, 1U << 18, 1U << 20}) {
            RouteCase c{world, collective, size};
            c.devices = devices;
            add_equal(c);
            if (devices == &staged || size < 16'384) continue;
            c.default_codec = "int8";
            add(c);
            c.default_codec.clear();
            if (comm::find_encoded(collective) == nullptr || world.hosts.size() == 1) continue;
            for (const char* const codec : {"int8", "onebit", "bfloat"}) {
              c.codec = codec;
              add(c);
            }
            c.codec = "int8";
            c.residual = true;
            add(c);
          }
        }
      }
    }
    for (const RouteWorld& world : worlds) {
      RouteCase c{world, Collective::kAllReduce, 1 << 20};
      c.devices = &all;
      c.algorithm = "ring";
      add(c);
      c.algorithm.clear();
      c.atomic = true;
      add(c);
      c.devices = &staged;
      add(c);
      c.atomic = false;
      c.collective = Collective::kAllGather;
      c.blocks = Blocks::kUneven;
      add(c);
      c.devices = &encoded;
      c.codec = "int8";
      if (world.hosts.size() > 1) add(c);
    }
  }

  std::vector<RouteCase> cases_;
};

}  // namespace holdfast::testing

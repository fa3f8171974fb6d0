// Two phases: compressed collectives in which every element is encoded at most twice, whatever the
// number of ranks. All-reduce: each rank encodes all chunks and sends each to its owner; the owner
// sums the frames in f32 and in rank order, its own among them, divides, encodes the sum once, and
// sends that frame to all. All ranks decode that frame, the owner as well, so that all have the
// same bits.
// Source: Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's
// Convergence Speed", ICML 2021 (arXiv 2102.02888), section 5 and algorithm 2. Unlike there, chunks
// are cut into pieces, so that encoding, sending and decoding overlap, and the server has no
// residual of its own: what the second encoding loses is added to the chunk owner's residual as a
// worker. The next sum then contains it, though encoded with the owner's input, where the paper
// adds it unencoded. When a rank is lost, it is treated as any residual.
//
// Per rank, n ranks, S bytes of payload, F those of its frames, one hop to a phase:
//   all_reduce      2 (n-1) messages to a piece, 2 (n-1)/n F sent; S + S/n encoded, 2 S decoded
//   reduce_scatter  (n-1)/n F sent; S encoded, S decoded; the result is not encoded again
//   all_gather      (n-1)/n F sent; S/n encoded, S decoded
//   all_to_all      (n-1)/n F sent; the rank's own block is copied as it is
//   broadcast       a scatter and an all-gather of frames: 2 (n-1)/n F sent by the root, which
//                   encodes S, (n-2)/n F by the others; each decodes S
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// 1 MiB of f32 is encoded in a fraction of a millisecond, and its frame is worth a message; more
// than kMostPieces pieces overlap no better.
constexpr std::uint64_t kPieceElements = 256 * 1024;
constexpr std::uint64_t kMostPieces = 16;

class TwoPhase {
 public:
  explicit TwoPhase(const BuildSpec& spec)
      : spec_(spec),
        n_(spec.size),
        own_(spec.rank.value),
        b_(spec, static_cast<std::uint32_t>(spec.size * spec.pieces)) {}

  Schedule run() && {
    switch (spec_.collective) {
      case Collective::kAllReduce: all_reduce(); break;
      case Collective::kReduceScatter: reduce_scatter(); break;
      case Collective::kAllGather: all_gather(); break;
      case Collective::kAllToAll: all_to_all(); break;
      case Collective::kBroadcast: broadcast(); break;
      default: CHECK(false);
    }
    return std::move(b_).finish();
  }

 private:
  int chunk(int rank, int piece) const { return rank * spec_.pieces + piece; }

  // Each rank starts with the rank after it, which spreads the load: otherwise all would send to
  // rank 0 first.
  template <class Action>
  void for_each_peer(Action action) {
    for (int i = 1; i < n_; ++i) action((own_ + i) % n_);
  }

  Slot encoded(Slot source) {
    const Slot frame = b_.frame(source);
    b_.encode(frame, source);
    return frame;
  }

  // Sends every piece to its owner, beginning with the first piece of each, so that owners can
  // begin; returns the frames of this rank's own pieces.
  std::vector<Slot> scatter_frames() {
    std::vector<Slot> own;
    for (int p = 0; p < spec_.pieces; ++p) {
      for_each_peer([&](int peer) { b_.send(peer, encoded(Builder::input(chunk(peer, p)))); });
      own.push_back(encoded(Builder::input(chunk(own_, p))));
    }
    return own;
  }

  // Sums up the frames that all ranks have sent of one of this rank's pieces.
  Slot gather_sum(int piece, Slot own_frame) {
    const Slot like = Builder::input(chunk(own_, piece));
    const Slot sum = b_.wide(like);
    for (int r = 0; r < n_; ++r) {
      Slot frame = own_frame;
      if (r != own_) {
        frame = b_.frame(like);
        b_.recv(r, frame);
      }
      if (r == 0) {
        b_.decode(sum, frame);
      } else if (r < n_ - 1) {
        b_.reduce(sum, sum, frame);
      } else {
        b_.reduce_final(sum, sum, frame);
      }
    }
    return sum;
  }

  void take(int from, int piece_chunk) {
    const Slot frame = b_.frame(Builder::output(piece_chunk));
    b_.recv(from, frame);
    b_.decode(Builder::output(piece_chunk), frame);
  }

  void take_all() {
    for (int p = 0; p < spec_.pieces; ++p) {
      for_each_peer([&](int peer) { take(peer, chunk(peer, p)); });
    }
  }

  // Encodes a piece of the result and sends it to all ranks, this one included.
  void publish(int piece, Slot value) {
    const Slot frame = encoded(value);
    for_each_peer([&](int peer) { b_.send(peer, frame); });
    b_.decode(Builder::output(chunk(own_, piece)), frame);
  }

  void all_reduce() {
    const std::vector<Slot> own = scatter_frames();
    for (int p = 0; p < spec_.pieces; ++p) {
      publish(p, gather_sum(p, own[static_cast<std::size_t>(p)]));
    }
    take_all();
  }

  void reduce_scatter() {
    const std::vector<Slot> own = scatter_frames();
    for (int p = 0; p < spec_.pieces; ++p) {
      const Slot sum = gather_sum(p, own[static_cast<std::size_t>(p)]);
      b_.copy(Builder::output(chunk(own_, p)), sum);
    }
  }

  void all_gather() {
    for (int p = 0; p < spec_.pieces; ++p) publish(p, Builder::input(chunk(own_, p)));
    take_all();
  }

  void all_to_all() {
    for (int p = 0; p < spec_.pieces; ++p) {
      for_each_peer([&](int peer) { b_.send(peer, encoded(Builder::input(chunk(peer, p)))); });
      b_.copy(Builder::output(chunk(own_, p)), Builder::input(chunk(own_, p)));
    }
    take_all();
  }

  // The root sends each rank its chunk, and its own chunk to all; each rank passes its chunk on to
  // the others.
  void broadcast() {
    const bool root = spec_.rank == spec_.root;
    for (int p = 0; p < spec_.pieces; ++p) root ? give_piece(p) : pass_piece(p);
    if (root) return;
    for (int p = 0; p < spec_.pieces; ++p) {
      for_each_peer([&](int peer) {
        if (peer != spec_.root.value) take(peer, chunk(peer, p));
      });
    }
  }

  void give_piece(int p) {
    for_each_peer([&](int peer) {
      const Slot output = Builder::output(chunk(peer, p));
      const Slot frame = encoded(Builder::input(chunk(peer, p)));
      b_.send(peer, frame);
      b_.decode(output, frame);
    });
    publish(p, Builder::input(chunk(own_, p)));
  }

  void pass_piece(int p) {
    const Slot output = Builder::output(chunk(own_, p));
    const Slot frame = b_.frame(output);
    b_.recv(spec_.root.value, frame);
    for_each_peer([&](int peer) {
      if (peer != spec_.root.value) b_.send(peer, frame);
    });
    b_.decode(output, frame);
    take(spec_.root.value, chunk(spec_.root.value, p));
  }

  const BuildSpec& spec_;
  const int n_;
  const int own_;
  Builder b_;
};

}  // namespace

Schedule build_two_phase(const BuildSpec& spec) { return TwoPhase(spec).run(); }

int two_phase_pieces(std::uint64_t elements) {
  const std::uint64_t pieces = (elements + kPieceElements - 1) / kPieceElements;
  return static_cast<int>(std::clamp<std::uint64_t>(pieces, 1, kMostPieces));
}

}  // namespace holdfast::comm

// Two levels with a codec: domains sum inside without encoding, in the call's dtype, and send
// frames across in two phases, so that few bytes cross between domains, and little precision is
// lost.
// Source: domains and lanes as in two_level.cpp; the phases across are those of two_phase.cpp.
//
// H domains, L ranks in a domain (m in the smallest), S bytes of payload, F those of its frames: a
// domain sends 2 (H-1)/H F to others, where two phases among all ranks send about L times that.
// Inside: 2 (L-1)/L S per rank. An element is encoded twice, S/m by each rank of a lane. A domain's
// sum is not the input of any rank, so there is no error feedback here.
// Why: docs/decisions/0055-two-levels-without-error-feedback.md
#include "comm/algorithms/algorithms.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {
namespace {

// The l-th rank of each domain owns lane l: it sums the lane inside its domain, and its domain's
// part of the lane over all domains.
class EncodedLanes {
 public:
  explicit EncodedLanes(const BuildSpec& spec)
      : places_(spec),
        self_(spec.rank.value),
        domains_(static_cast<int>(places_.domains())),
        lanes_(static_cast<int>(places_.smallest())),
        lane_(static_cast<int>(places_.place)),
        pieces_(spec.pieces),
        b_(spec, static_cast<std::uint32_t>(domains_ * lanes_ * pieces_)) {}

  Schedule run() && {
    for (int lane = 0; lane < lanes_; ++lane) {
      if (lane == lane_) continue;
      for_each_part([&](int domain, int piece) {
        b_.send(owner(lane), Builder::input(chunk(lane, domain, piece)));
      });
    }
    if (lane_ < lanes_) {
      const std::vector<Slot> own = scatter_sums();
      for (int p = 0; p < pieces_; ++p) publish(p, own[static_cast<std::size_t>(p)]);
      take_all();
    }
    for (int c = 0; c < lanes_ * domains_ * pieces_; ++c) share(c / (domains_ * pieces_), c);
    return std::move(b_).finish();
  }

 private:
  int chunk(int lane, int domain, int piece) const {
    return (lane * domains_ + domain) * pieces_ + piece;
  }
  int chunk(int domain, int piece) const { return chunk(lane_, domain, piece); }
  int own_domain() const { return static_cast<int>(places_.domain); }
  int owner(int lane) const { return places_.own()[static_cast<std::size_t>(lane)]; }
  // The rank of this lane in a domain.
  int across(int domain) const {
    return places_.ranks[static_cast<std::size_t>(domain)][static_cast<std::size_t>(lane_)];
  }

  // Each domain starts with the one after it, which spreads the load.
  template <class Action>
  void for_each_other_domain(Action action) {
    for (int i = 1; i < domains_; ++i) action((own_domain() + i) % domains_);
  }

  // Visits a lane's parts in the order in which its owner takes them.
  template <class Action>
  void for_each_part(Action action) {
    for (int p = 0; p < pieces_; ++p) {
      for_each_other_domain([&](int domain) { action(domain, p); });
      action(own_domain(), p);
    }
  }

  // Sums the chunk inside this domain and encodes the sum; returns its frame.
  Slot encoded_sum(int chunk) {
    const Slot frame = b_.frame(Builder::input(chunk));
    b_.encode(frame, fold(b_, places_.own(), self_, chunk, false));
    return frame;
  }

  // Sends each domain its part of this domain's sums; returns the frames of this domain's own part.
  std::vector<Slot> scatter_sums() {
    std::vector<Slot> own;
    for_each_part([&](int domain, int piece) {
      const Slot frame = encoded_sum(chunk(domain, piece));
      if (domain == own_domain()) {
        own.push_back(frame);
      } else {
        b_.send(across(domain), frame);
      }
    });
    return own;
  }

  // Sums up the domains' frames of one of this rank's pieces, in the order of domains, and sends
  // the frame of that sum to all domains.
  void publish(int piece, Slot own_frame) {
    const int mine = chunk(own_domain(), piece);
    const Slot like = Builder::input(mine);
    const Slot sum = b_.wide(like);
    for (int d = 0; d < domains_; ++d) {
      Slot frame = own_frame;
      if (d != own_domain()) {
        frame = b_.frame(like);
        b_.recv(across(d), frame);
      }
      if (d == 0) {
        b_.decode(sum, frame);
      } else if (d < domains_ - 1) {
        b_.reduce(sum, sum, frame);
      } else {
        b_.reduce_final(sum, sum, frame);
      }
    }
    const Slot result = b_.frame(like);
    b_.encode(result, sum);
    for_each_other_domain([&](int domain) { b_.send(across(domain), result); });
    b_.decode(Builder::output(mine), result);
  }

  void take_all() {
    for (int p = 0; p < pieces_; ++p) {
      for_each_other_domain([&](int domain) {
        const Slot output = Builder::output(chunk(domain, p));
        const Slot frame = b_.frame(output);
        b_.recv(across(domain), frame);
        b_.decode(output, frame);
      });
    }
  }

  // Sends or receives a chunk of the result inside the domain.
  void share(int lane, int chunk) {
    if (lane != lane_) return b_.recv(owner(lane), Builder::output(chunk));
    for (const int peer : places_.own()) {
      if (peer != self_) b_.send(peer, Builder::output(chunk));
    }
  }

  const Places places_;
  const int self_;
  const int domains_;
  const int lanes_;
  const int lane_;
  const int pieces_;
  Builder b_;
};

}  // namespace

Schedule build_two_level_coded(const BuildSpec& spec) {
  // With one domain there is no second level.
  return Places(spec).domains() == 1 ? build_two_phase(spec) : EncodedLanes(spec).run();
}

}  // namespace holdfast::comm

// Collectives of inter-communicators: what one side gives, the other side gets. Each side's rank 0
// speaks for it: what concerns a whole side is gathered there, crosses once, and is spread on the
// other side (MPI-4.1, 6.2.2). What concerns pairs of ranks goes between them.
#include <algorithm>
#include <cstring>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/collective.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {
namespace {

using comm::Collective;

// Messages of one step have tags of their own, by what they carry.
constexpr std::int32_t kCrossTag = 0;

class InterScript {
 public:
  InterScript(Script& script, const CollectiveCall& asked)
      : script_(script), asked_(asked), comm_(*asked.comm) {}

  void add() {
    switch (asked_.what) {
      case Collective::kBarrier: return barrier();
      case Collective::kBroadcast: return broadcast();
      case Collective::kGather: return gather();
      case Collective::kScatter: return scatter();
      case Collective::kAllGather: return all_gather();
      case Collective::kAllToAll: return all_to_all();
      case Collective::kReduce: return reduce();
      case Collective::kAllReduce: return all_reduce();
      case Collective::kReduceScatter: return reduce_scatter();
      default: return;
    }
  }

 private:
  bool leads() const { return comm_.rank == 0; }
  Rank far(int rank) const { return Rank{comm_.remote->process(rank)}; }

  // Packed memory of a block that is sent, filled when the step begins.
  std::byte* pack(Step& step, const Part& part) {
    std::byte* packed = script_.allocate(bytes_of(part));
    if (part.type != nullptr && part.count != 0) {
      step.packs.push_back({part.type, part.count, static_cast<std::byte*>(part.at), packed});
    }
    return packed;
  }
  // As pack(), of a block that is received.
  std::byte* unpack(Step& step, const Part& part) { return unpack_from(step, part, nullptr); }
  std::byte* unpack_from(Step& step, const Part& part, std::byte* packed) {
    if (packed == nullptr) packed = script_.allocate(bytes_of(part));
    if (part.type != nullptr && part.count != 0) {
      step.unpacks.push_back({part.type, part.count, static_cast<std::byte*>(part.at), packed});
    }
    return packed;
  }
  void send(Step& step, int rank, std::byte* data, std::uint64_t bytes) {
    step.messages.push_back({false, far(rank), kCrossTag, data, bytes});
  }
  void receive(Step& step, int rank, std::byte* data, std::uint64_t bytes) {
    step.messages.push_back({true, far(rank), kCrossTag, data, bytes});
  }
  // A collective of this side, of plain bytes.
  comm::OpRequest& own(Step& step, Collective what) {
    comm::OpRequest request;
    request.collective = what;
    request.dtype = DType::kU8;
    return step.op.emplace(std::move(request));
  }
  void own_broadcast(Step& step, std::byte* data, std::uint64_t bytes) {
    comm::OpRequest& request = own(step, Collective::kBroadcast);
    request.input = {comm::Block{data, bytes}};
    request.output = request.input;
  }

  void barrier() {
    own(script_.add_step(), Collective::kBarrier);
    if (leads()) {
      Step& cross = script_.add_step();
      send(cross, 0, script_.allocate(0), 0);
      receive(cross, 0, script_.allocate(0), 0);
    }
    own(script_.add_step(), Collective::kBarrier);
  }

  void broadcast() {
    if (asked_.root == kProcNull) return;
    const Part& part = asked_.output[0];
    const std::uint64_t bytes = bytes_of(part);
    if (asked_.root == kRoot) {
      Step& step = script_.add_step();
      return send(step, 0, pack(step, part), bytes);
    }
    std::byte* packed = script_.allocate(bytes);
    if (leads()) receive(script_.add_step(), asked_.root, packed, bytes);
    Step& spread = script_.add_step();
    own_broadcast(spread, packed, bytes);
    unpack_from(spread, part, packed);
  }

  void gather() {
    if (asked_.root == kProcNull) return;
    Step& step = script_.add_step();
    if (asked_.root == kRoot) {
      for (int r = 0; r < comm_.remote->size(); ++r) {
        const Part& part = asked_.output[static_cast<std::size_t>(r)];
        receive(step, r, unpack(step, part), bytes_of(part));
      }
      return;
    }
    send(step, asked_.root, pack(step, asked_.input[0]), bytes_of(asked_.input[0]));
  }

  void scatter() {
    if (asked_.root == kProcNull) return;
    Step& step = script_.add_step();
    if (asked_.root == kRoot) {
      for (int r = 0; r < comm_.remote->size(); ++r) {
        const Part& part = asked_.input[static_cast<std::size_t>(r)];
        send(step, r, pack(step, part), bytes_of(part));
      }
      return;
    }
    receive(step, asked_.root, unpack(step, asked_.output[0]), bytes_of(asked_.output[0]));
  }

  // Every rank's block goes to every rank of the other side.
  void all_gather() {
    Step& step = script_.add_step();
    std::byte* packed = pack(step, asked_.input[0]);
    for (int r = 0; r < comm_.remote->size(); ++r) {
      const Part& part = asked_.output[static_cast<std::size_t>(r)];
      receive(step, r, unpack(step, part), bytes_of(part));
      send(step, r, packed, bytes_of(asked_.input[0]));
    }
  }

  void all_to_all() {
    Step& step = script_.add_step();
    for (int r = 0; r < comm_.remote->size(); ++r) {
      const Part& in = asked_.output[static_cast<std::size_t>(r)];
      const Part& out = asked_.input[static_cast<std::size_t>(r)];
      receive(step, r, unpack(step, in), bytes_of(in));
      send(step, r, pack(step, out), bytes_of(out));
    }
  }

  // The sum of this side, at its rank 0, packed.
  std::byte* reduce_own(const Part& part) {
    std::byte* sum = script_.allocate(bytes_of(part));
    Step& step = script_.add_step();
    CollectiveCall own = asked_;
    own.what = Collective::kReduce;
    own.root = 0;
    own.input = {part};
    own.output = {};
    if (leads()) own.output = {Part{sum, part.count, part.type, true}};
    step.op = request_of(own, &script_, &step);
    return sum;
  }

  void reduce() {
    if (asked_.root == kProcNull) return;
    if (asked_.root == kRoot) {
      Step& step = script_.add_step();
      return receive(step, 0, unpack(step, asked_.output[0]), bytes_of(asked_.output[0]));
    }
    std::byte* sum = reduce_own(asked_.input[0]);
    if (leads()) send(script_.add_step(), asked_.root, sum, bytes_of(asked_.input[0]));
  }

  void all_reduce() {
    const Part& part = asked_.input[0];
    std::byte* sum = reduce_own(part);
    std::byte* theirs = script_.allocate(bytes_of(part));
    if (leads()) {
      Step& cross = script_.add_step();
      receive(cross, 0, theirs, bytes_of(part));
      send(cross, 0, sum, bytes_of(part));
    }
    Step& spread = script_.add_step();
    own_broadcast(spread, theirs, bytes_of(part));
    unpack_from(spread, asked_.output[0], theirs);
  }

  // All blocks of this side, summed at its rank 0, cross, and are dealt out on the other side.
  void reduce_scatter() {
    std::int64_t count = 0;
    for (const Part& part : asked_.input) count += part.count;
    Datatype* type = asked_.input[0].type;
    const Part whole{asked_.input[0].at, count, type};
    std::byte* sum = reduce_own(whole);
    std::byte* theirs = script_.allocate(bytes_of(whole));
    if (leads()) {
      Step& cross = script_.add_step();
      receive(cross, 0, theirs, bytes_of(whole));
      send(cross, 0, sum, bytes_of(whole));
    }
    Step& deal = script_.add_step();
    comm::OpRequest& request = own(deal, Collective::kScatter);
    if (leads()) {
      std::byte* at = theirs;
      for (const Part& part : asked_.input) {
        request.input.push_back({at, bytes_of(part)});
        at += bytes_of(part);
      }
    }
    const Part& out = asked_.output[0];
    request.output = {comm::Block{unpack(deal, out), bytes_of(out)}};
  }

  Script& script_;
  const CollectiveCall& asked_;
  Comm& comm_;
};

}  // namespace

void add_inter_steps(Script& script, const CollectiveCall& asked) {
  InterScript(script, asked).add();
}

}  // namespace holdfast::mpi

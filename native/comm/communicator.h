// Communicator: the collectives of a group, as callers see it. The views of the group may change
// underneath: ops go on from one view to the next. When the group ends (abort, close(), calls that
// do not match, a loss with PeerLoss::kRaise), running and later ops fail with the reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "comm/call/work.h"
#include "comm/gate.h"
#include "comm/observer.h"
#include "comm/plan/plan_table.h"
#include "comm/plan/way.h"
#include "comm/reduce/reducer.h"
#include "comm/schedule/layout.h"
#include "compress/codec.h"

namespace holdfast::topology {
class LinkMap;
}

namespace holdfast::comm {

// The agreed member list; members[r] is rank r's identity, MemberId{} where the rank is vacant.
struct View {
  Epoch epoch;
  std::vector<MemberId> members;
};

// As the peer of a receive: any rank, whichever message comes first.
inline constexpr Rank kAnySource{-1};

// What the loss of a member means to a group.
enum class PeerLoss : std::uint8_t {
  kContinue,  // ops are repaired and go on among the survivors
  kRaise,     // ops fail on all survivors, from the same op on, until advance()
};

// What a hole means: the place, in a gathered result (collective.h, gathers()), of a rank that is
// away and whose block no survivor has in full.
enum class OnHole : std::uint8_t {
  kRaise,  // the op fails with kPeerLost, naming those ranks, on all survivors; the group goes on
  kZero,   // the place holds zeros, and the outcome names those ranks
};

// What a handle chooses for holes, read and set from any thread; nothing: its group decides.
class HoleChoice {
 public:
  std::optional<OnHole> get() const {
    const auto value = value_.load(std::memory_order_relaxed);
    return value == kNone ? std::nullopt : std::optional(static_cast<OnHole>(value));
  }
  void set(std::optional<OnHole> choice) {
    value_.store(choice ? static_cast<std::uint8_t>(*choice) : kNone, std::memory_order_relaxed);
  }

 private:
  // A number: clang calls a library's function for an atomic optional.
  static constexpr std::uint8_t kNone = 0xff;
  std::atomic<std::uint8_t> value_{kNone};  // relaxed: guards nothing
};

struct Call;
struct Replicated;
struct EncodedBytes;
class PathAgreement;
class Mailbox;

// How an op goes, as far as that is not part of what is called.
struct OpMode {
  // The caller waits at once (a blocking call): no thread is woken for it.
  bool expect_wait = false;
  // For a newcomer: the op is part of its late join, before its first advance().
  bool at_entrance = false;
  // The caller's memory is a device's, and the host blocks stand for it, on all ranks or on none.
  // Messages do not use this.
  bool on_device = false;
  // With option tune: false where measuring algorithms would hold up what the op is a step of.
  bool may_measure = true;
  // The op, and all ops called after it, begin when the gate is open; null: at once. To the other
  // ranks this rank has not called yet. Owners: the request's copies, and the opener of the gate.
  std::shared_ptr<Gate> gate = nullptr;
};

// What a reduction's result may depend on.
enum class FoldOrder : std::uint8_t {
  // Order and grouping of the operands are the op's choice: which way it takes, who comes first.
  kAny,
  // ((0 op 1) op 2) op ..., element by element, by the ranks of the view that the op ends in: its
  // bits depend on inputs, ranks and count alone.
  kRanks,
};

// What an op is a step of, where it is not a whole call.
struct StepOf {
  // For a replicated op (replicated.h): what was called, and where its result goes.
  std::optional<Collective> called = {};
  Replicated* replicated = nullptr;
  // For the first op of a chain (device_comm/chained_work.h): what was called, for logs, records
  // and comparisons of calls; null: the op itself. And the way of that call. Owners: the request's
  // copies.
  std::shared_ptr<const Call> stands_for = nullptr;
  Way way{};
  // For an op whose bytes are frames that were made elsewhere: what they are. Owners: the request's
  // copies.
  std::shared_ptr<const EncodedBytes> frames = nullptr;
};

// What the caller asks for, and what the layers that pass the call on add to it.
struct OpRequest {
  Collective collective{};
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  // With kUser and kU8: the caller's operator, whose elements the blocks count; else null. Not for
  // memory of devices. Owners: the request's copies.
  std::shared_ptr<const UserOp> user = nullptr;
  // Reductions. All ranks must say the same. Scans are always folded in the order of ranks.
  FoldOrder order = FoldOrder::kAny;
  // As collective.h says; the memory must stay valid until the work has ended.
  BlockList input;
  BlockList output;
  Rank root{};            // broadcast, reduce, gather, scatter
  Rank peer{};            // send, recv; recv: or kAnySource
  std::uint32_t tag = 0;  // send, recv
  Duration timeout{};     // zero: the group's default
  std::string algorithm;  // empty: the cost model chooses
  // all_to_all, gather, scatter: the blocks of all ranks have one size, and all ranks say so.
  bool equal_blocks = false;
  // Higher goes before lower wherever ops share a link or a core, piece by piece. Concerns only
  // this rank's share of the work: ranks need not agree.
  int priority = 0;
  // The whole result has one set of contributors; costs a copy of the input when it is in place.
  bool atomic = false;
  // Nothing: the group's. Ranks must agree: a rank that gives kZero does not fail with the others.
  std::optional<OnHole> on_hole = {};
  // The codec that the data travels in; null: none. Owners: the request's copies.
  std::shared_ptr<const compress::Codec> codec = nullptr;
  // Error feedback: per input block, one f32 per element; empty: none. It is added to the input;
  // when the op has ended well it holds what was not sent. It stays as it was in an op that fails,
  // and where a loss made the ranks exchange a part without the codec.
  std::vector<float*> residual = {};
  // Reductions with kAvg: how much this rank's input counts, finite and not negative, 0: nothing.
  // Every part of the result is the sum of weight times input, divided by the sum of the weights,
  // of exactly the ranks that are in that part; zeros, if none of them has a weight. All ranks give
  // one, or none does: a plain average.
  std::optional<double> weight = {};

  OpMode how = {};
  StepOf step = {};
  // The call of the program that the op is, or is a part of: "MPI_Allreduce"; a text that lives as
  // long as the process. Null: the op's own name says it.
  const char* caller = nullptr;

  Collective called_collective() const { return step.called.value_or(collective); }
  // Of the elements that blocks count.
  std::uint64_t element_bytes() const {
    return user == nullptr ? dtype_bytes(dtype) : user->element_bytes;
  }
  Reducer reducer() const { return {dtype, op, user.get()}; }
  // Whether only ways that fold in the order of ranks will do.
  bool keeps_order() const {
    if (!reduces(collective)) return false;
    if (user != nullptr && !user->commutative) return true;
    return order == FoldOrder::kRanks && order_shows(dtype, op);
  }
};

// A caller's wait for messages that has become long. Owners: the caller, and tasks that tell the
// observer of it.
struct LongWait {
  OpRequest request;        // as if the wait were an op: send or recv, peer, caller
  std::vector<Rank> peers;  // ranks of the world any of which would end it
  OpTicket ticket;          // of the observer
  Instant seen{};           // when it was last told of
};
enum class WaitPhase : std::uint8_t { kBegins, kGoesOn, kEnds };

// How a blocking call began.
struct Ran {
  std::shared_ptr<Work> work;              // under way, or else:
  std::shared_ptr<const Outcome> outcome;  // the op has ended, well
};

// A map of links that ops go by.
struct TakenMap {
  std::shared_ptr<const topology::LinkMap> map;  // owners: groups, views; null: there is none
  std::shared_ptr<const std::string> text;       // of it, as all members have it; owners: as map's
  std::uint32_t version = 0;                     // how many were taken; 0: it is the option's
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // The name by which all members know the group, in the life of its world. Any thread.
  virtual CommId id() const { return {}; }
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  // Any thread.
  virtual View view() const = 0;
  // Ranks that have a member in the current view, rising. Any thread.
  virtual std::vector<Rank> live_ranks() const = 0;
  virtual const std::string& name() const = 0;
  // As of the last step boundary, so that members see the same at the same call. Any thread.
  virtual Placement placement() const = 0;
  // The host of each rank, as a number; -1: vacant rank. As of placement(). Any thread.
  virtual std::vector<int> hosts() const { return {}; }
  // For ops that name none. Any thread.
  virtual OnHole on_hole() const { return OnHole::kRaise; }
  // The measurements by which algorithms are chosen. Any thread.
  virtual PlanTable plan() const { return {}; }
  // The epoch of the view that began at the last step boundary, or of the first view: as of
  // placement(), and a new one whenever a rank has come in. Any thread.
  virtual Epoch boundary() const { return {}; }
  // The map of links by which the group's ops go from this member's next call on. Any thread.
  virtual TakenMap map() const { return {}; }
  // Ops go by another map from this member's next call on. All members call it between the same
  // collectives, with the same map, which they have agreed on, of as many ranks as the group has.
  // kUnsupported: the group has not all ranks of its world. Any thread.
  virtual Status take_map(std::shared_ptr<const std::string>) {
    return {Code::kUnsupported, "a map of links: not for this kind of group"};
  }
  // What the members have found out about each other's device memory; null: it is not used. Any
  // thread. Owners: the communicator, and ops under way.
  virtual std::shared_ptr<PathAgreement> path_agreement() { return nullptr; }
  // What the members have found out about whether their devices encode and decode; as
  // path_agreement().
  virtual std::shared_ptr<PathAgreement> codec_agreement() { return nullptr; }
  // Per rank, a name of the catalogue of transports, "inproc" or "self".
  virtual std::vector<std::string> transports() const = 0;

  // Starts an op; ops start in call order and may run at the same time. An unusable request (wrong
  // number of blocks, dtype/op not defined, root or peer out of range) is refused with kConfigError
  // or kUnsupported. Any thread.
  virtual Result<std::shared_ptr<Work>> start(OpRequest request) = 0;

  // As start(), for a caller that waits at once: a small op in shared memory alone may have ended
  // on return, without a work of its own. `request` is moved from if it has not. Any thread.
  virtual Result<Ran> run(OpRequest&& request) {
    request.how.expect_wait = true;
    auto started = start(std::move(request));
    if (!started.is_ok()) return started.status();
    return Ran{std::move(started).value(), nullptr};
  }

  // Whether run() returns within microseconds, with the op ended or not: its caller may keep what
  // other threads wait for. Any thread.
  virtual bool is_instant(const OpRequest&) const { return false; }

  // A step boundary, collective over the members: ends when all of them have reached it and all
  // joiners that were ready are in. Ops started before it end first. A newcomer's first one, before
  // any op, is the boundary at which it came in. Any thread.
  virtual std::shared_ptr<Work> advance(Duration timeout) = 0;

  // This member came in at a step boundary, and has called nothing since but ops of its late join.
  // Any thread.
  virtual bool is_newcomer() const = 0;
  // The matched messages of the world whose ranks this group has, one mailbox however often it is
  // asked for; made at the first call. kUnsupported: the group has not all ranks of its world. Any
  // thread. Owners: the group, its callers.
  virtual Result<std::shared_ptr<Mailbox>> mailbox() {
    return Status{Code::kUnsupported, "mailbox(): not for this kind of group"};
  }
  // Tells the observer of a wait: as it becomes long, again and again, and when it has ended. Any
  // thread.
  virtual void tell_of_wait(const std::shared_ptr<LongWait>&, WaitPhase) {}
  // Has the runtime's own thread carry on what was started with expect_wait: no caller waits for it
  // after all. Any thread.
  virtual void wake() = 0;
  // Fails every running op with kAborted, here and (PeerLost) on the other members. Any thread.
  virtual void abort(const std::string& reason) = 0;
  // Ends this member's part after its running ops have ended or `timeout` has passed. Any thread.
  virtual Status close(Duration timeout) = 0;
  // ok, or why the view ended.
  virtual Status health() const = 0;
  // The last ops of this process, as read_flight() takes them. Any thread.
  virtual std::vector<std::byte> flight_record() const { return {}; }
  // "host:port" of this process's health pages; empty: none. Any thread.
  virtual std::string http_address() const { return {}; }
};

}  // namespace holdfast::comm

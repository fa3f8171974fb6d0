#include "mpi/calls/prepare.h"

#include "mpi/calls/checks.h"

namespace holdfast::mpi {

using comm::Collective;

namespace {

int size_of(const Comm& comm) { return comm.peers().size(); }

Prepared refused(int code) { return {code, {}}; }

// The name of a side's count, by that of its type.
const char* count_of(const char* type) {
  return *type == 'd' ? "count" : *type == 's' ? "sendcount" : "recvcount";
}

Checks check_side(Call& call, const char* type, const Side& side, const char* buffer) {
  Checks checks(call);
  checks.count(count_of(type), side.count).type(type, side.type);
  checks.buffer(buffer, side.at, side.count, side.type);
  return checks;
}

// Refuses memory that a call would write twice.
int check_written(Call& call, const char* type, const Datatype& written, std::int64_t count) {
  return Checks(call).apart(type, count, &written).code();
}

// Checks blocks by rank, before they are looked at. `sent`, or written.
int check_blocks(Call& call, const char* type, bool sent, const Side& side, int ranks) {
  Checks checks(call);
  checks.count(count_of(type), side.count).type(type, side.type);
  checks.buffer(sent ? "sendbuf" : "recvbuf", side.at, side.count, side.type);
  if (checks.failed() || sent) return checks.code();
  // Blocks follow each other as elements do.
  std::int64_t all = 0;
  if (__builtin_mul_overflow(side.count, std::int64_t{ranks}, &all) || !side.type->fits(all)) {
    return call.fail(kErrCount, std::string(count_of(type)) + " is " + std::to_string(side.count) +
                                    "; accepted: blocks whose bytes 63 bits can count");
  }
  return check_written(call, type, *side.type, all);
}
int check_blocks(Call& call, const char* type, bool sent, const VSide& side, int ranks) {
  Checks checks(call);
  checks.type(type, side.type);
  checks.that(!side.counts.is_null(), kErrArg, "the array of counts is a null pointer");
  checks.that(!side.displacements.is_null(), kErrArg,
              "the array of displacements is a null pointer");
  for (int r = 0; r < ranks && !checks.failed(); ++r) {
    const std::int64_t count = side.counts[static_cast<std::size_t>(r)];
    if (count < 0) {
      return call.fail(kErrCount, std::string(count_of(type)) + "s[" + std::to_string(r) + "] is " +
                                      std::to_string(count) + "; accepted: 0 or more");
    }
    checks.buffer(sent ? "sendbuf" : "recvbuf", side.at, count, side.type);
    if (sent || checks.failed()) continue;
    if (const int code = check_written(call, type, *side.type, count); code != kSuccess) {
      return code;
    }
  }
  return checks.code();
}

}  // namespace

Prepared barrier(Call&, Comm* comm) {
  return {kSuccess, {.what = Collective::kBarrier, .comm = comm}};
}

Prepared bcast(Call& call, const Side& side, int root, Comm* comm) {
  Checks checks = check_side(call, "datatype", side, "buffer");
  if (checks.root(root, *comm).failed()) return refused(checks.code());
  if (comm->rank != root) {
    const int code = check_written(call, "datatype", *side.type, side.count);
    if (code != kSuccess) return refused(code);
  }
  CollectiveCall asked{.what = Collective::kBroadcast, .comm = comm, .root = root, .equal = true};
  asked.input = {side.part()};
  asked.output = {side.part()};
  return {kSuccess, asked};
}

namespace {

// Whether this rank is the one that gets (gives) what a rooted collective moves.
bool is_root(const Comm& comm, int root) {
  return comm.is_inter() ? root == kRoot : comm.rank == root;
}
// Whether it has a part in it: in the root's side of an inter-communicator, only the root has.
bool takes_part(const Comm& comm, int root) { return !comm.is_inter() || root != kProcNull; }

}  // namespace

template <class Blocks>
Prepared gather(Call& call, const Side& send, const Blocks& receive, bool equal, int root,
                Comm* comm) {
  if (Checks checks(call); checks.root(root, *comm).failed()) return refused(checks.code());
  CollectiveCall asked{.what = Collective::kGather, .comm = comm, .root = root, .equal = equal};
  if (!takes_part(*comm, root)) return {kSuccess, asked};
  const bool takes = is_root(*comm, root);
  if (takes) {
    const int code = check_blocks(call, "recvtype", false, receive, size_of(*comm));
    if (code != kSuccess) return refused(code);
    for (int r = 0; r < size_of(*comm); ++r) asked.output.push_back(receive.part(r));
  }
  if (comm->is_inter() && takes) return {kSuccess, asked};
  if (send.in_place()) {
    if (!takes) {
      return refused(call.fail(kErrBuffer, "sendbuf is MPI_IN_PLACE; only the root may say so"));
    }
    asked.input = {receive.part(comm->rank)};
    return {kSuccess, asked};
  }
  Checks checks = check_side(call, "sendtype", send, "sendbuf");
  if (checks.failed()) return refused(checks.code());
  asked.input = {send.part()};
  return {kSuccess, asked};
}

template <class Blocks>
Prepared scatter(Call& call, const Blocks& send, const Side& receive, bool equal, int root,
                 Comm* comm) {
  if (Checks checks(call); checks.root(root, *comm).failed()) return refused(checks.code());
  CollectiveCall asked{.what = Collective::kScatter, .comm = comm, .root = root, .equal = equal};
  if (!takes_part(*comm, root)) return {kSuccess, asked};
  const bool gives = is_root(*comm, root);
  if (gives) {
    const int code = check_blocks(call, "sendtype", true, send, size_of(*comm));
    if (code != kSuccess) return refused(code);
    for (int r = 0; r < size_of(*comm); ++r) asked.input.push_back(send.part(r));
  }
  if (comm->is_inter() && gives) return {kSuccess, asked};
  if (receive.in_place()) {
    if (!gives) {
      return refused(call.fail(kErrBuffer, "recvbuf is MPI_IN_PLACE; only the root may say so"));
    }
    asked.output = {send.part(comm->rank)};
    return {kSuccess, asked};
  }
  Checks checks = check_side(call, "recvtype", receive, "recvbuf");
  if (checks.failed()) return refused(checks.code());
  const int written = check_written(call, "recvtype", *receive.type, receive.count);
  if (written != kSuccess) return refused(written);
  asked.output = {receive.part()};
  return {kSuccess, asked};
}

template <class Blocks>
Prepared all_gather(Call& call, const Side& send, const Blocks& receive, bool equal, Comm* comm) {
  const int code = check_blocks(call, "recvtype", false, receive, size_of(*comm));
  if (code != kSuccess) return refused(code);
  CollectiveCall asked{.what = Collective::kAllGather, .comm = comm, .equal = equal};
  for (int r = 0; r < size_of(*comm); ++r) asked.output.push_back(receive.part(r));
  if (send.in_place()) {
    Checks checks(call);
    if (checks.intra(*comm).failed()) return refused(checks.code());
    asked.input = {receive.part(comm->rank)};
    return {kSuccess, asked};
  }
  Checks checks = check_side(call, "sendtype", send, "sendbuf");
  if (checks.failed()) return refused(checks.code());
  asked.input = {send.part()};
  return {kSuccess, asked};
}

template <class Out, class In>
Prepared all_to_all(Call& call, const Out& send, const In& receive, bool equal, Comm* comm) {
  int code = check_blocks(call, "recvtype", false, receive, size_of(*comm));
  if (code != kSuccess) return refused(code);
  CollectiveCall asked{.what = Collective::kAllToAll, .comm = comm, .equal = equal};
  for (int r = 0; r < size_of(*comm); ++r) asked.output.push_back(receive.part(r));
  if (send.in_place()) {
    Checks checks(call);
    if (checks.intra(*comm).failed()) return refused(checks.code());
    asked.input = asked.output;
    asked.overlaps = true;
    return {kSuccess, asked};
  }
  code = check_blocks(call, "sendtype", true, send, size_of(*comm));
  if (code != kSuccess) return refused(code);
  for (int r = 0; r < size_of(*comm); ++r) asked.input.push_back(send.part(r));
  return {kSuccess, asked};
}

namespace {

// The types of MPI_Alltoallw, checked: a type that is used must be one.
int read_types(Call& call, const WSide& side, bool sent, const Comm& comm, Parts* parts) {
  const char* type_name = sent ? "a type of sendtypes" : "a type of recvtypes";

  auto* base = static_cast<std::byte*>(const_cast<void*>(side.at));
  Checks arrays(call);
  arrays.array(sent ? "sendcounts" : "recvcounts", side.counts, size_of(comm));
  arrays.array(sent ? "sdispls" : "rdispls", side.displacements, size_of(comm));
  arrays.array(sent ? "sendtypes" : "recvtypes", side.types, size_of(comm));
  if (arrays.failed()) return arrays.code();
  for (int r = 0; r < size_of(comm); ++r) {
    const auto i = static_cast<std::size_t>(r);
    const std::int64_t count = side.counts[i];
    if (count == 0) {
      parts->push_back({});
      continue;
    }
    bool valid = true;
    Datatype* type = side.types.get(i, &valid);
    Checks checks(call);
    checks.count(sent ? "a count of sendcounts" : "a count of recvcounts", count);
    checks.type(type_name, valid ? type : nullptr);
    checks.buffer(sent ? "sendbuf" : "recvbuf",
                  side.at == kInPlace ? kInPlace : base + side.displacements[i], count, type);
    if (checks.failed()) return checks.code();
    const int code = sent ? kSuccess : check_written(call, type_name, *type, count);
    if (code != kSuccess) return code;
    parts->push_back({base + side.displacements[i], count, type});
  }
  return kSuccess;
}

}  // namespace

Prepared all_to_all_w(Call& call, const WSide& send, const WSide& receive, Comm* comm) {
  CollectiveCall asked{.what = Collective::kAllToAll, .comm = comm};
  int code = read_types(call, receive, false, *comm, &asked.output);
  if (code != kSuccess) return refused(code);
  if (send.in_place()) {
    asked.input = asked.output;
    asked.overlaps = true;
    return {kSuccess, asked};
  }
  code = read_types(call, send, true, *comm, &asked.input);
  return code == kSuccess ? Prepared{kSuccess, asked} : refused(code);
}

namespace {

int check_reduced(Call& call, const Reduced& data) {
  Checks checks(call);
  checks.count("count", data.count).type("datatype", data.type);
  if (checks.failed()) return checks.code();
  if (std::string problem = reduction_problem(*data.op, *data.type); !problem.empty()) {
    return call.fail(kErrOp, std::move(problem));
  }
  return check_written(call, "datatype", *data.type, data.count);
}

}  // namespace

Prepared all_reduce(Call& call, const Reduced& data, Comm* comm) {
  if (const int code = check_reduced(call, data); code != kSuccess) return refused(code);
  Checks checks(call);
  if (data.in_place()) checks.intra(*comm);
  checks.buffer("sendbuf", data.input().at, data.count, data.type);
  if (checks.buffer("recvbuf", data.receive, data.count, data.type).failed()) {
    return refused(checks.code());
  }
  CollectiveCall asked{.what = Collective::kAllReduce, .comm = comm, .op = data.op};
  asked.input = {data.input()};
  asked.output = {data.output()};
  return {kSuccess, asked};
}

Prepared reduce(Call& call, const Reduced& data, int root, Comm* comm) {
  Checks checks(call);
  if (checks.root(root, *comm).failed()) return refused(checks.code());
  CollectiveCall asked{.what = Collective::kReduce, .comm = comm, .root = root, .op = data.op};
  if (!takes_part(*comm, root)) return {kSuccess, asked};
  if (const int code = check_reduced(call, data); code != kSuccess) return refused(code);
  const bool takes = is_root(*comm, root);
  if (takes && checks.buffer("recvbuf", data.receive, data.count, data.type).failed()) {
    return refused(checks.code());
  }
  if (takes) asked.output = {data.output()};
  if (comm->is_inter() && takes) return {kSuccess, asked};
  if (data.in_place() && !takes) {
    return refused(call.fail(kErrBuffer, "sendbuf is MPI_IN_PLACE; only the root may say so"));
  }
  if (checks.buffer("sendbuf", data.input().at, data.count, data.type).failed()) {
    return refused(checks.code());
  }
  asked.input = {data.input()};
  return {kSuccess, asked};
}

Prepared reduce_scatter(Call& call, const Reduced& data, const IntArray* counts, Comm* comm) {
  if (const int code = check_reduced(call, data); code != kSuccess) return refused(code);
  CollectiveCall asked{.what = Collective::kReduceScatter, .comm = comm, .op = data.op};
  asked.overlaps = data.in_place();
  auto* base = static_cast<std::byte*>(data.input().at);
  std::int64_t before = 0;
  const int size = comm->size();
  if (counts != nullptr) {
    Checks checks(call);
    if (checks.array("recvcounts", *counts, size).failed()) return refused(checks.code());
  }
  for (int r = 0; r < size; ++r) {
    const std::int64_t count = counts ? (*counts)[static_cast<std::size_t>(r)] : data.count;
    if (count < 0) {
      return refused(call.fail(kErrCount, "recvcounts[" + std::to_string(r) + "] is " +
                                              std::to_string(count) + "; accepted: 0 or more"));
    }
    Checks checks(call);
    checks.buffer("sendbuf", base, count, data.type);
    if (r == comm->rank) checks.buffer("recvbuf", data.receive, count, data.type);
    if (checks.failed()) return refused(checks.code());
    asked.input.push_back({base + before * data.type->layout.extent(), count, data.type});
    if (r == comm->rank) asked.output = {{data.receive, count, data.type}};
    before += count;
  }
  return {kSuccess, asked};
}

Prepared scan(Call& call, Collective what, const Reduced& data, Comm* comm) {
  Checks checks(call);
  if (checks.intra(*comm).failed()) return refused(checks.code());
  if (const int code = check_reduced(call, data); code != kSuccess) return refused(code);
  checks.buffer("sendbuf", data.input().at, data.count, data.type);
  if (checks.buffer("recvbuf", data.receive, data.count, data.type).failed()) {
    return refused(checks.code());
  }
  CollectiveCall asked{.what = what, .comm = comm, .op = data.op};
  asked.overlaps = data.in_place();
  asked.input = {data.input()};
  asked.output = {data.output()};
  return {kSuccess, asked};
}

template Prepared gather(Call&, const Side&, const Side&, bool, int, Comm*);
template Prepared gather(Call&, const Side&, const VSide&, bool, int, Comm*);
template Prepared scatter(Call&, const Side&, const Side&, bool, int, Comm*);
template Prepared scatter(Call&, const VSide&, const Side&, bool, int, Comm*);
template Prepared all_gather(Call&, const Side&, const Side&, bool, Comm*);
template Prepared all_gather(Call&, const Side&, const VSide&, bool, Comm*);
template Prepared all_to_all(Call&, const Side&, const Side&, bool, Comm*);
template Prepared all_to_all(Call&, const VSide&, const VSide&, bool, Comm*);

}  // namespace holdfast::mpi

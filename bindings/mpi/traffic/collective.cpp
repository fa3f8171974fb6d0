#include "mpi/traffic/collective.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/types/datatype.h"
#include "mpi/types/op.h"

namespace holdfast::mpi {

std::uint64_t bytes_of(const Part& part) {
  return part.type == nullptr ? 0 : part.type->bytes_of(part.count);
}

namespace {

bool is_dense(const Part& part) {
  return part.type == nullptr || part.packed || part.type->layout.is_dense(part.count);
}

}  // namespace

bool is_run(const Part& part) {
  return is_dense(part) &&
         (part.type == nullptr || part.packed || !device_of(*part.type, part.count, part.at));
}

namespace {

// A wait goes on with scripts under way this often.
constexpr Duration kSliceOfOpWait = std::chrono::milliseconds(20);

bool is_contiguous(const Parts& parts) {
  // Asked once, as there may be two blocks for each rank.
  const bool on_devices = process().devices.is_possible();
  return std::all_of(parts.begin(), parts.end(), on_devices ? is_run : is_dense);
}

std::byte* first_byte(const Part& part) {
  return static_cast<std::byte*>(part.at) + part.type->layout.true_lb();
}

// Elements of what the core combines: those of a basic type, or whole elements of the program's.
struct Elements {
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::shared_ptr<const comm::UserOp> user;
  std::uint64_t bytes = 1;
};

Elements elements_of(const CollectiveCall& asked) {
  Elements elements;
  if (asked.op == nullptr) return elements;
  Datatype& type = *(asked.input.empty() ? asked.output : asked.input)[0].type;
  if (const auto native = native_reduction(*asked.op, type)) {
    elements.dtype = native->dtype;
    elements.op = native->op;
    elements.bytes = dtype_bytes(native->dtype);
    return elements;
  }
  elements.op = ReduceOp::kUser;
  elements.user = user_reduction(*asked.op, type);
  elements.bytes = elements.user->element_bytes;
  return elements;
}

// A block of the core for `part`; what is no run of the memory that the step is on is packed into
// memory of the script's.
comm::Block block_of(const Part& part, const Elements& elements, Script* script, Step* step,
                     std::vector<Packing>* packings) {
  if (part.type == nullptr || part.count == 0) return {nullptr, 0};
  const std::uint64_t bytes = bytes_of(part);
  if (part.packed) return {static_cast<std::byte*>(part.at), bytes / elements.bytes};
  const bool on_device = step != nullptr && step->staged;
  const bool as_it_is =
      script == nullptr || (on_device ? part.type->layout.is_dense(part.count) : is_run(part));
  if (as_it_is) return {first_byte(part), bytes / elements.bytes};
  std::byte* packed = nullptr;
  if (on_device) {
    const auto memory = script->allocate_on(step->staged, bytes);
    if (!memory.is_ok()) step->broken = failure_of(memory.status());
    packed = memory.is_ok() ? memory.value() : nullptr;
  } else {
    packed = script->allocate(bytes);
  }
  packings->push_back({part.type, part.count, static_cast<std::byte*>(part.at), packed});
  return {packed, bytes / elements.bytes};
}

}  // namespace

bool is_contiguous(const CollectiveCall& asked) {
  return is_contiguous(asked.input) && is_contiguous(asked.output) && !asked.overlaps;
}

comm::OpRequest request_of(const CollectiveCall& asked, Script* script, Step* step) {
  const Elements elements = elements_of(asked);
  comm::OpRequest request;
  request.collective = asked.what;
  request.dtype = elements.dtype;
  request.op = elements.op;
  request.user = elements.user;
  request.order = comm::FoldOrder::kRanks;
  request.root = Rank{asked.root};
  request.equal_blocks = asked.equal;
  std::vector<Packing>* packs = step != nullptr ? &step->packs : nullptr;
  std::vector<Packing>* unpacks = step != nullptr ? &step->unpacks : nullptr;
  if (asked.what == comm::Collective::kBroadcast) {
    // What a rank of a broadcast gives or gets is one buffer.
    const bool gives = asked.comm->rank == asked.root;
    request.output = {block_of(asked.output[0], elements, script, step, gives ? packs : unpacks)};
    request.input = request.output;
    return request;
  }
  for (const Part& part : asked.input) {
    request.input.push_back(block_of(part, elements, script, step, packs));
  }
  for (const Part& part : asked.output) {
    request.output.push_back(block_of(part, elements, script, step, unpacks));
  }
  // The first rank gets nothing, and keeps what it has.
  if (asked.what == comm::Collective::kExscan && step != nullptr) {
    step->packs.insert(step->packs.end(), step->unpacks.begin(), step->unpacks.end());
  }
  return request;
}

namespace {

// The device that the call is done on; null: the host. Only collectives that give all ranks both an
// input and an output, so that programs have both on devices, or neither; only where the host is
// bypassed, since all else goes through it anyway, where ranks may mix what memory they like.
std::shared_ptr<device_comm::Staged> device_of_call(const CollectiveCall& asked) {
  using comm::Collective;
  const bool is_even =
      asked.what == Collective::kAllReduce || asked.what == Collective::kAllGather ||
      asked.what == Collective::kAllToAll || asked.what == Collective::kReduceScatter;
  if (!is_even || asked.overlaps || asked.comm->is_inter()) return nullptr;
  std::optional<int> device;
  for (const Parts* parts : {&asked.input, &asked.output}) {
    for (const Part& part : *parts) {
      if (part.type == nullptr || bytes_of(part) == 0) continue;
      const auto owner = device_of(*part.type, part.count, part.at);
      if (!owner || (device && *device != *owner)) return nullptr;
      device = owner;
    }
  }
  if (!device) return nullptr;
  const comm::OpRequest request = request_of(asked, nullptr, nullptr);
  if (request.user != nullptr) return nullptr;
  auto staged = process().node().staged(*device);
  if (!staged.is_ok() || !staged.value()->bypasses_host(*asked.comm->group, request))
    return nullptr;
  return std::move(staged).value();
}

// The output must not lie over the input: the core gets a copy of the input.
void copy_input(CollectiveCall& asked, Script& script, Step& step) {
  for (Part& part : asked.input) {
    if (part.type == nullptr || part.count == 0) continue;
    std::byte* copy = script.allocate(bytes_of(part));
    step.packs.push_back({part.type, part.count, static_cast<std::byte*>(part.at), copy});
    part.at = copy;
    part.packed = true;
  }
}

std::shared_ptr<Script> script_of(CollectiveCall asked, const char* caller) {
  auto script = std::make_shared<Script>(*asked.comm, caller);
  for (const Parts* parts : {&asked.input, &asked.output}) {
    for (const Part& part : *parts) {
      if (part.type != nullptr) script->keep(part.type);
    }
  }
  if (asked.op != nullptr) script->keep(asked.op);
  if (asked.comm->is_inter()) {
    add_inter_steps(*script, asked);
    return script;
  }
  Step& step = script->add_step();
  if (asked.overlaps) copy_input(asked, *script, step);
  step.staged = device_of_call(asked);
  step.op = request_of(asked, script.get(), &step);
  return script;
}

// On an intra-communicator, with nothing to pack: no script, no allocation.
int perform_at_once(Call& call, const CollectiveCall& asked) {
  comm::OpRequest request = request_of(asked, nullptr, nullptr);
  request.caller = call.name();
  auto ran = asked.comm->group->run(std::move(request));
  if (!ran.is_ok()) return call.take(failure_of(ran.status()));
  const std::shared_ptr<comm::Work> work = std::move(ran).value().work;
  if (!work) return kSuccess;
  while (!work->done()) {
    static_cast<void>(work->wait(kSliceOfOpWait));
    process().scripts.advance();
  }
  return call.take(failure_of(work->status()));
}

}  // namespace

int run_script(Call& call, std::shared_ptr<Script> script, Form form, Request*& request) {
  if (form == Form::kNow) {
    script->begin();
    script->wait();
    return call.take(script->failure());
  }
  if (script->comm().is_inter() && script->has_ops()) {
    if (Failure failure = script->take_own_group(); failure.code != kSuccess) {
      return call.take(std::move(failure));
    }
  }
  request = new_request(&script->comm());
  if (request == nullptr) return call.fail(kErrIntern, "there are too many requests");
  request->what = Request::What::kScript;
  request->script = script;
  if (form == Form::kPersistent) {
    request->persistent = true;
    request->active = false;
    request->start = [](Request& self) {
      self.script->begin();
      if (!self.script->advance()) process().scripts.add(self.script);
      return Failure{};
    };
    return kSuccess;
  }
  script->begin();
  if (!script->advance()) process().scripts.add(std::move(script));
  return kSuccess;
}

int perform(Call& call, const CollectiveCall& asked, Form form, Request*& request) {
  if (form == Form::kNow && !asked.comm->is_inter() && is_contiguous(asked)) {
    return perform_at_once(call, asked);
  }
  return run_script(call, script_of(asked, call.name()), form, request);
}

int perform(Call& call, const CollectiveCall& asked) {
  Request* none = nullptr;
  return perform(call, asked, Form::kNow, none);
}

}  // namespace holdfast::mpi

#include "group.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "call.h"
#include "device_state.h"
#include "gil.h"
#include "host_table.h"
#include "layers.h"
#include "options.h"
#include "plain_array.h"
#include "raise.h"
#include "runtime/node.h"
#include "runtime/rendezvous/member_id.h"
#include "staged.h"
#include "store.h"
#include "topology/link_map.h"
#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using comm::Communicator;
using comm::OpRequest;
using runtime::Node;
using runtime::Options;

PyWork start(Communicator& group, const Call& call, nb::object keep) {
  Result<std::shared_ptr<comm::Work>> started = Status(Code::kAborted, "not started");
  OpRequest request = to_request(call);
  {
    // With the option tune, a first use measures, which takes time.
    const GilReleased released;
    started = group.start(std::move(request));
  }
  return {value_or_raise(std::move(started)), std::move(keep)};
}

// Returns (epoch, ranks with a member) when all members have called it.
nb::tuple advance(Communicator& group, double timeout_s) {
  const auto work = group.advance(from_seconds(timeout_s));
  raise_if(wait_for(*work, kForever));
  const comm::Outcome& passed = work->outcome();
  nb::list ranks;
  for (const Rank rank : passed.contributors) ranks.append(rank.value);
  nb::list joined;
  for (const Rank rank : passed.joined) joined.append(rank.value);
  return nb::make_tuple(passed.epoch.value, nb::tuple(ranks), nb::tuple(joined));
}

// Releasing and retaking the GIL costs as much as half of a small op.
Result<comm::Ran> begin(Communicator& group, OpRequest&& request) {
  if (group.is_instant(request)) return group.run(std::move(request));
  const GilReleased released;
  return group.run(std::move(request));
}

// Returns a Work, or an Ended.
nb::object run_to_end(Communicator& group, OpRequest request) {
  const auto [work, outcome] = value_or_raise(begin(group, std::move(request)));
  if (!work) return nb::cast(PyEnded{outcome});
  wait_to_end(group, *work);
  return nb::cast(PyWork(work, nb::none()));
}

nb::object run(Communicator& group, const Call& call) {
  return run_to_end(group, to_request(call));
}

// Cuts an array into the blocks of a collective: one block, or equal blocks per rank.
comm::BlockList cut(const PlainArray& array, std::uint64_t blocks) {
  const std::uint64_t count = array.count() / blocks;
  comm::BlockList result;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    result.push_back({array.data() + i * count * dtype_bytes(array.dtype()), count});
  }
  return result;
}

// Returns None for arguments that are not plain: the caller then takes the slow path, which handles
// all arguments and errors.
nb::object run_plain(Communicator& group, const char* collective, nb::handle input,
                     nb::handle output, nb::handle op, nb::handle root_rank, bool atomic) {
  if (PyUnicode_Check(op.ptr()) == 0 || PyLong_CheckExact(root_rank.ptr()) == 0) return nb::none();
  const auto kind = comm::find_collective(collective);
  const long root = PyLong_AsLong(root_rank.ptr());
  const char* name = PyUnicode_AsUTF8(op.ptr());
  const auto reduction = find_name(name == nullptr ? "" : name, kReduceOpCount, reduce_op_name);
  if (!kind || !reduction || root < 0 || root >= group.size()) {
    PyErr_Clear();  // the conversions may have set an error
    return nb::none();
  }
  const bool sends_only = *kind == comm::Collective::kBroadcast && root == group.rank().value;
  const auto to = PlainArray::of(output, !sends_only);
  const auto from = to && !input.is(output) ? PlainArray::of(input, false) : std::nullopt;
  if (!to || (!from && !input.is(output))) return nb::none();
  const PlainArray& source = from ? *from : *to;
  if (source.dtype() != to->dtype()) return nb::none();
  const auto ranks = static_cast<std::uint64_t>(group.size());
  const std::uint64_t in = comm::has_input_blocks(*kind) ? ranks : 1;
  const std::uint64_t out = comm::has_output_blocks(*kind) ? ranks : 1;
  if (source.count() * out != to->count() * in || to->count() % out != 0) return nb::none();
  OpRequest request;
  request.collective = *kind;
  request.dtype = to->dtype();
  request.op = *reduction;
  request.input = cut(source, in);
  request.output = cut(*to, out);
  request.root = {static_cast<std::int32_t>(root)};
  request.atomic = atomic;
  request.equal_blocks = comm::has_input_blocks(*kind) && comm::has_output_blocks(*kind);
  return run_to_end(group, std::move(request));
}

// Destroys the object without the GIL: the last owner may be Python, holding the GIL, while the
// runtime's thread waits for the GIL in a callback. A forked child never destroys it, because the
// destructor would talk to the parent's peers.
template <class T>
std::shared_ptr<T> without_gil(std::shared_ptr<T> object) {
  T* pointer = object.get();
  return {pointer, [held = std::move(object), process = this_process()](T*) mutable {
            if (!is_process(process)) {
              [[maybe_unused]] const auto* forgotten = new std::shared_ptr<T>(std::move(held));
              return;
            }
            const GilReleased released;
            held.reset();
          }};
}

nb::bytes to_bytes(const std::vector<std::byte>& bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

// A capsule passes the process's node, or a group, to the c10d module, which is not built with
// nanobind.
template <class T>
nb::object capsule(const std::shared_ptr<T>& object) {
  static constexpr const char* kName = std::is_same_v<T, Node> ? "holdfast.Node" : "holdfast.Group";
  auto* held = new std::shared_ptr<T>(object);
  return nb::steal(PyCapsule_New(held, kName, [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<T>*>(PyCapsule_GetPointer(capsule, kName));
  }));
}

// The group in a capsule, which may be the c10d module's.
std::shared_ptr<Communicator> group_in(const nb::object& capsule) {
  void* held = PyCapsule_GetPointer(capsule.ptr(), "holdfast.Group");
  if (held == nullptr) throw nb::python_error();
  return *static_cast<std::shared_ptr<Communicator>*>(held);
}

std::shared_ptr<Communicator> join(Node& node, nb::object store, const std::string& group, int rank,
                                   int size, double timeout_s, double op_timeout_s) {
  PythonStore adapter(std::move(store));
  Result<std::shared_ptr<Communicator>> joined = Status(Code::kAborted, "not joined");
  {
    const GilReleased released;
    joined = node.join(adapter,
                       {group, {rank}, size, from_seconds(timeout_s), from_seconds(op_timeout_s)});
  }
  adapter.raise_interrupt();
  return without_gil(value_or_raise(std::move(joined)));
}

std::shared_ptr<Communicator> join_elastic(Node& node, const std::string& group,
                                           std::size_t min_peers, double timeout_s,
                                           double op_timeout_s) {
  Result<std::shared_ptr<Communicator>> joined = Status(Code::kAborted, "not joined");
  {
    const GilReleased released;
    joined = node.join_elastic({group, {}, 0, from_seconds(timeout_s), from_seconds(op_timeout_s)},
                               min_peers);
  }
  return without_gil(value_or_raise(std::move(joined)));
}

// A pool owned natively. nanobind's way to share a Python object takes the GIL when the last owner
// goes, which may be a thread that no longer gets the GIL (thread_exit.h).
struct PyPool {
  std::shared_ptr<comm::MemoryPool> native = std::make_shared<comm::MemoryPool>();
};

// Allocates `bytes` of the pool, as an array that keeps the pool alive.
nb::ndarray<nb::numpy, std::uint8_t> allocate(const PyPool& pool, std::uint64_t bytes) {
  struct Held {
    std::shared_ptr<comm::MemoryPool> pool;
    std::byte* data;
  };
  std::byte* data = pool.native->allocate(bytes);
  if (data == nullptr) throw std::bad_alloc();
  auto* held = new Held{pool.native, data};
  const nb::capsule owner(held, [](void* pointer) noexcept {
    const std::unique_ptr<Held> last(static_cast<Held*>(pointer));
    last->pool->release(last->data);
  });
  return {data, {bytes}, owner};
}

// (version, the map's JSON or nothing).
std::pair<std::uint32_t, std::optional<std::string>> map_text(const Communicator& group) {
  const comm::TakenMap taken = group.map();
  if (taken.text != nullptr) return {taken.version, *taken.text};
  if (taken.map != nullptr) return {taken.version, taken.map->to_json()};
  return {taken.version, std::nullopt};
}

void take_map(Communicator& group, std::string text) {
  Status status;
  {
    const GilReleased released;
    status = group.take_map(std::make_shared<const std::string>(std::move(text)));
  }
  raise_if(status);
}

void bind_pool(nb::module_& m) {
  nb::class_<PyPool>(m, "Pool").def(nb::init<>()).def("unlink", [](PyPool& pool) {
    pool.native->unlink();
  });
  m.def("allocate", allocate, "pool"_a, "bytes"_a);
}

void bind_communicator(nb::module_& m) {
  nb::class_<Communicator>(m, "Communicator")
      .def_prop_ro("rank", [](const Communicator& c) { return c.rank().value; })
      .def_prop_ro("size", &Communicator::size)
      .def_prop_ro("epoch", [](const Communicator& c) { return c.view().epoch.value; })
      .def_prop_ro("name", &Communicator::name)
      .def_prop_ro("transports", &Communicator::transports)
      .def_prop_ro("plan", [](const Communicator& c) { return c.plan().text(); })
      .def("start", start, "call"_a, "keep"_a)
      .def("run", run, "call"_a)
      .def("run_plain", run_plain, "collective"_a, "input"_a, "output"_a, "op"_a = "sum",
           "root"_a = 0, "atomic"_a = false)
      .def("advance", advance, "timeout_s"_a)
      .def_prop_ro("hosts", &Communicator::hosts)
      .def_prop_ro("map", map_text)
      .def("take_map", take_map, "text"_a)
      .def_prop_ro("is_newcomer", &Communicator::is_newcomer)
      .def_prop_ro("live_ranks",
                   [](const Communicator& c) {
                     std::vector<int> ranks;
                     for (const Rank rank : c.live_ranks()) ranks.push_back(rank.value);
                     return ranks;
                   })
      .def("abort", &Communicator::abort, "reason"_a, nb::call_guard<GilReleased>())
      .def("close",
           [](Communicator& c, double timeout_s) {
             Status status;
             {
               const GilReleased released;
               status = c.close(from_seconds(timeout_s));
             }
             raise_if(status);
           })
      .def("capsule", capsule<Communicator>)
      .def_prop_ro("http_address", &Communicator::http_address)
      .def("flight_record", [](const Communicator& c) { return to_bytes(c.flight_record()); })
      .def("check", [](const Communicator& c) { raise_if(c.health()); });
  m.def("group_in", group_in, "capsule"_a);
}

}  // namespace

void bind_group(nb::module_& m) {
  bind_options(m);
  bind_pool(m);
  bind_work(m);
  bind_call(m);
  bind_communicator(m);
  m.def("begin_anew", runtime::begin_anew);
  nb::class_<Node> node(m, "Node");
  node.def_static(
          "create",
          [](const Options& o, const PyPool* pool) {
            return without_gil(value_or_raise(Node::create(o, pool ? pool->native : nullptr)));
          },
          "options"_a, "pool"_a.none() = nb::none())
      .def("join", join, "store"_a, "group"_a, "rank"_a, "size"_a, "timeout_s"_a, "op_timeout_s"_a)
      .def("join_elastic", join_elastic, "group"_a, "min_peers"_a, "timeout_s"_a, "op_timeout_s"_a)
      .def(
          "close",
          [](Node& self, double timeout_s) {
            const GilReleased released;
            self.close(from_seconds(timeout_s));
          },
          "timeout_s"_a)
      .def_prop_ro("http_address", &Node::http_address)
      .def_prop_ro("domain", &Node::domain)
      .def_prop_ro("address", &Node::address)
      .def("set_stack", &Node::set_stack, "file"_a, "signal"_a)
      .def("metrics_text", &Node::metrics_text, "openmetrics"_a = false)
      .def("capsule", capsule<Node>);
  bind_layers(node);
  bind_staged(m, node);
  bind_host_table(m);
  bind_device_state(m);
}

}  // namespace holdfast::bindings

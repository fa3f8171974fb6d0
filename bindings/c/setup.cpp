// Options, nodes and groups of the C interface.
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "handles.h"
#include "option_fields.h"

using namespace holdfast;

namespace {

Result<comm::OnHole> hole_of(hf_on_hole value) {
  if (value == HF_HOLE_RAISE) return comm::OnHole::kRaise;
  if (value == HF_HOLE_ZERO) return comm::OnHole::kZero;
  return Status{Code::kConfigError, "on_hole " + std::to_string(static_cast<int>(value)) +
                                        "; accepted: HF_HOLE_RAISE (0), HF_HOLE_ZERO (1)"};
}

template <class T>
Status read_number(const char* variable, T least, T most, T* to) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return Status::ok();
  T value{};
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) {
    return {Code::kConfigError, std::string(variable) + " = \"" + text +
                                    "\"; accepted: a number from " + std::to_string(least) +
                                    " to " + std::to_string(most)};
  }
  *to = value;
  return Status::ok();
}

Status joined(const hf_node* node, Store& store, const char* name, int32_t rank, int32_t size,
              hf_group** group) {
  auto native = node->node->join(store, {name, {rank}, size, {}, {}});
  if (!native.is_ok()) return native.status();
  auto transports = native.value()->transports();
  *group = new hf_group{std::move(native).value(), std::move(transports), node->node};
  return Status::ok();
}

}  // namespace

hf_status hf_options_init_sized(hf_options* options, size_t size) {
  return c::guarded([&]() -> Status {
    if (options == nullptr) return c::missing("options");
    return c::set_defaults(*options, size);
  });
}

hf_status hf_options_from_env_sized(hf_options* options, size_t size) {
  return c::guarded([&]() -> Status {
    if (options == nullptr) return c::missing("options");
    TRY(c::set_defaults(*options, size));
    return c::read_environment(*options);
  });
}

// The parentheses keep the header's macros of these names out.
hf_status(hf_options_init)(hf_options* options) {
  return hf_options_init_sized(options, c::kOptionsBefore8);
}

hf_status(hf_options_from_env)(hf_options* options) {
  return hf_options_from_env_sized(options, c::kOptionsBefore8);
}

hf_status hf_device_options_from_env(hf_device_options* options) {
  return c::guarded([&]() -> Status {
    if (options == nullptr) return c::missing("options");
    return c::read_environment(*options);
  });
}

hf_status hf_node_create(const hf_options* options, hf_node** node) {
  return hf_node_create_with_devices(options, nullptr, node);
}

hf_status hf_node_create_with_devices(const hf_options* options, const hf_device_options* devices,
                                      hf_node** node) {
  return c::guarded([&]() -> Status {
    if (node == nullptr) return c::missing("node");
    auto native = c::native_options(options, devices);
    if (!native.is_ok()) return native.status();
    auto created = runtime::Node::create(native.value());
    if (!created.is_ok()) return created.status();
    const std::string http = created.value()->http_address();
    *node = new hf_node{std::move(created).value(), http};
    return Status::ok();
  });
}

const char* hf_node_http_address(const hf_node* node) {
  return node == nullptr ? "" : node->http_address.c_str();
}

void hf_node_free(hf_node* node) { delete node; }

hf_status hf_group_join(hf_node* node, hf_store* store, const char* name, int32_t rank,
                        int32_t size, hf_group** group) {
  return c::guarded([&]() -> Status {
    if (node == nullptr || store == nullptr) return c::missing("node or store");
    if (name == nullptr || group == nullptr) return c::missing("name or group");
    return joined(node, *store->store, name, rank, size, group);
  });
}

hf_status hf_group_join_env(hf_node* node, const char* name, hf_group** group) {
  return c::guarded([&]() -> Status {
    if (node == nullptr || name == nullptr || group == nullptr) {
      return c::missing("node, name or group");
    }
    int32_t rank = -1;
    int32_t size = -1;
    TRY(read_number<int32_t>("RANK", 0, 1 << 20, &rank));
    TRY(read_number<int32_t>("WORLD_SIZE", 1, 1 << 20, &size));
    const char* where = std::getenv("HOLDFAST_STORE");
    const std::string scheme = "file://";
    const std::string address = where == nullptr ? "" : where;
    if (rank < 0 || size < 0 || address.compare(0, scheme.size(), scheme) != 0) {
      return {Code::kConfigError,
              "the environment must have RANK, WORLD_SIZE and HOLDFAST_STORE=file:///directory "
              "(it is \"" +
                  address + "\"); `holdfast run -n 4 program` sets them"};
    }
    auto store = c::open_directory(address.substr(scheme.size()));
    if (!store.is_ok()) return store.status();
    return joined(node, *store.value(), name, rank, size, group);
  });
}

hf_status hf_group_close(hf_group* group, int64_t timeout_ns) {
  return c::guarded([&]() -> Status {
    if (group == nullptr) return c::missing("group");
    return group->group->close(timeout_ns < 0 ? kForever : Duration(timeout_ns));
  });
}

void hf_group_free(hf_group* group) { delete group; }

hf_status hf_group_abort(hf_group* group, const char* reason) {
  return c::guarded([&]() -> Status {
    if (group == nullptr) return c::missing("group");
    group->group->abort(reason == nullptr ? "aborted by the user" : reason);
    return Status::ok();
  });
}

hf_status hf_group_health(hf_group* group) {
  return c::guarded(
      [&]() -> Status { return group == nullptr ? c::missing("group") : group->group->health(); });
}

hf_status hf_group_advance(hf_group* group, int64_t timeout_ns) {
  return c::guarded([&]() -> Status {
    if (group == nullptr) return c::missing("group");
    const Duration timeout = timeout_ns < 0 ? Duration::zero() : Duration(timeout_ns);
    return group->group->advance(timeout)->wait(kForever);
  });
}

hf_status hf_group_set_priority(hf_group* group, int32_t priority) {
  return c::guarded([&]() -> Status {
    if (group == nullptr) return c::missing("group");
    group->priority.store(priority, std::memory_order_relaxed);
    return Status::ok();
  });
}

hf_status hf_group_set_on_hole(hf_group* group, hf_on_hole on_hole) {
  return c::guarded([&]() -> Status {
    if (group == nullptr) return c::missing("group");
    auto value = hole_of(on_hole);
    if (!value.is_ok()) return value.status();
    group->on_hole.set(value.value());
    return Status::ok();
  });
}

int32_t hf_group_rank(const hf_group* group) {
  return group == nullptr ? -1 : group->group->rank().value;
}

int32_t hf_group_size(const hf_group* group) { return group == nullptr ? 0 : group->group->size(); }

uint32_t hf_group_epoch(const hf_group* group) {
  return group == nullptr ? 0 : group->group->view().epoch.value;
}

const char* hf_group_transport(const hf_group* group, int32_t rank) {
  if (group == nullptr || rank < 0 || rank >= group->group->size()) return nullptr;
  return group->transports[static_cast<std::size_t>(rank)].c_str();
}

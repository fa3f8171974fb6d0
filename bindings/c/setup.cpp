// Options, nodes and groups of the C interface.
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "handles.h"

using namespace holdfast;

namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

Result<comm::OnHole> hole_of(hf_on_hole value) {
  if (value == HF_HOLE_RAISE) return comm::OnHole::kRaise;
  if (value == HF_HOLE_ZERO) return comm::OnHole::kZero;
  return Status{Code::kConfigError, "on_hole " + std::to_string(static_cast<int>(value)) +
                                        "; accepted: HF_HOLE_RAISE (0), HF_HOLE_ZERO (1)"};
}

Result<runtime::ResetTrust> trust_of(hf_trust_resets value) {
  if (value == HF_TRUST_NONE) return runtime::ResetTrust::kNone;
  if (value == HF_TRUST_LAN) return runtime::ResetTrust::kLan;
  return Status{Code::kConfigError, "trust_resets " + std::to_string(static_cast<int>(value)) +
                                        "; accepted: HF_TRUST_NONE (0), HF_TRUST_LAN (1)"};
}

Result<runtime::Options> to_native(const hf_options* from) {
  runtime::Options to;
  if (from == nullptr) return to;
  if (from->size != sizeof(hf_options)) {
    return Status{Code::kConfigError, "hf_options.size is " + std::to_string(from->size) +
                                          "; call hf_options_init(), which sets it to " +
                                          std::to_string(sizeof(hf_options))};
  }
  const auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
  if (const std::string names = text(from->transports); !names.empty()) {
    to.transports = split(names);
  }
  if (from->timeout_ns != 0) to.timeout = Duration(from->timeout_ns);
  if (from->connect_timeout_ns != 0) to.connect_timeout = Duration(from->connect_timeout_ns);
  to.address = text(from->address);
  to.port = from->port;
  to.host_id = text(from->host_id);
  to.algorithm = text(from->algorithm);
  to.fault_tolerance = from->no_fault_tolerance == 0;
  to.on_peer_loss =
      from->on_peer_loss == HF_RAISE ? comm::PeerLoss::kRaise : comm::PeerLoss::kContinue;
  auto on_hole = hole_of(from->on_hole);
  if (!on_hole.is_ok()) return on_hole.status();
  to.on_hole = on_hole.value();
  if (from->heartbeat_ns != 0) to.heartbeat = Duration(from->heartbeat_ns);
  if (from->silence_ns != 0) to.silence = Duration(from->silence_ns);
  auto trust = trust_of(from->trust_resets);
  if (!trust.is_ok()) return trust.status();
  to.trust_resets = trust.value();
  to.coordinator = text(from->coordinator);
  to.plan = text(from->plan);
  to.tune = from->tune != 0;
  to.http = text(from->http);
  to.flight_dir = text(from->flight_dir);
  to.codec = text(from->codec);
  to.codec_min_bytes = from->codec_min_bytes;
  if (from->time_slice_ns != 0) to.time_slice = Duration(std::max<int64_t>(0, from->time_slice_ns));
  return to;
}

Status check_size(const hf_device_options& options) {
  if (options.size == sizeof(hf_device_options)) return Status::ok();
  return {Code::kConfigError, "hf_device_options.size is " + std::to_string(options.size) +
                                  "; accepted: sizeof(hf_device_options), " +
                                  std::to_string(sizeof(hf_device_options))};
}

// Zeros leave the defaults.
Status add_devices(const hf_device_options* from, runtime::Options& to) {
  if (from == nullptr) return Status::ok();
  TRY(check_size(*from));
  if (from->cuda_driver != nullptr) to.cuda_driver = from->cuda_driver;
  if (from->cuda_slice_bytes != 0) to.cuda_slice_bytes = from->cuda_slice_bytes;
  if (from->cuda_ipc != nullptr && *from->cuda_ipc != '\0') to.cuda_ipc = from->cuda_ipc;
  if (from->cuda_ipc_min_bytes != 0) to.cuda_ipc_min_bytes = from->cuda_ipc_min_bytes;
  if (from->cuda_codec != nullptr && *from->cuda_codec != '\0') to.cuda_codec = from->cuda_codec;
  if (from->cuda_codec_min_bytes != 0) to.cuda_codec_min_bytes = from->cuda_codec_min_bytes;
  return Status::ok();
}

void read_text(const char* variable, const char** to) {
  const char* text = std::getenv(variable);
  if (text != nullptr && *text != '\0') *to = text;
}

template <class T>
struct Word {
  const char* name;
  T value;
};

// One of two words.
template <class T>
Status read_word(const char* variable, const Word<T> (&words)[2], T* to) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return Status::ok();
  for (const Word<T>& word : words) {
    if (std::strcmp(text, word.name) != 0) continue;
    *to = word.value;
    return Status::ok();
  }
  return {Code::kConfigError, std::string(variable) + " = \"" + text + "\"; accepted: \"" +
                                  words[0].name + "\" or \"" + words[1].name + "\""};
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

Status read_seconds(const char* variable, int64_t* nanoseconds) {
  constexpr double kLongest = 365.0 * 24 * 3600;
  double seconds = static_cast<double>(*nanoseconds) / 1e9;
  TRY(read_number(variable, 1e-6, kLongest, &seconds));
  *nanoseconds = static_cast<int64_t>(seconds * 1e9);
  return Status::ok();
}

// 0 leaves threads alone, which a C program says with -1.
Status read_time_slice(int64_t* nanoseconds) {
  double seconds = static_cast<double>(*nanoseconds) / 1e9;
  TRY(read_number("HOLDFAST_TIME_SLICE", 0.0, 0.1, &seconds));
  *nanoseconds = seconds == 0 ? -1 : static_cast<int64_t>(seconds * 1e9);
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

hf_status hf_options_init(hf_options* options) {
  return c::guarded([&]() -> Status {
    if (options == nullptr) return c::missing("options");
    const runtime::Options defaults;
    *options = {};
    options->size = sizeof(hf_options);
    options->transports = "shm,tcp";
    options->timeout_ns = defaults.timeout.count();
    options->connect_timeout_ns = defaults.connect_timeout.count();
    options->heartbeat_ns = defaults.heartbeat.count();
    options->silence_ns = defaults.silence.count();
    options->codec_min_bytes = defaults.codec_min_bytes;
    options->time_slice_ns = defaults.time_slice.count();
    return Status::ok();
  });
}

hf_status hf_options_from_env(hf_options* options) {
  if (const hf_status status = hf_options_init(options); status != HF_OK) return status;
  return c::guarded([&]() -> Status {
    const std::pair<const char*, const char**> texts[] = {
        {"HOLDFAST_TRANSPORTS", &options->transports},
        {"HOLDFAST_ADDRESS", &options->address},
        {"HOLDFAST_HOST_ID", &options->host_id},
        {"HOLDFAST_ALGORITHM", &options->algorithm},
        {"HOLDFAST_COORDINATOR", &options->coordinator},
        {"HOLDFAST_PLAN", &options->plan},
        {"HOLDFAST_HTTP", &options->http},
        {"HOLDFAST_FLIGHT_DIR", &options->flight_dir},
        {"HOLDFAST_CODEC", &options->codec}};
    for (const auto& [variable, to] : texts) read_text(variable, to);
    TRY(read_seconds("HOLDFAST_TIMEOUT", &options->timeout_ns));
    TRY(read_seconds("HOLDFAST_CONNECT_TIMEOUT", &options->connect_timeout_ns));
    TRY(read_seconds("HOLDFAST_HEARTBEAT", &options->heartbeat_ns));
    TRY(read_seconds("HOLDFAST_SILENCE", &options->silence_ns));
    TRY(read_word("HOLDFAST_TRUST_RESETS", {{"none", HF_TRUST_NONE}, {"lan", HF_TRUST_LAN}},
                  &options->trust_resets));
    TRY(read_time_slice(&options->time_slice_ns));
    std::int32_t tolerant = 1;
    TRY(read_number<std::int32_t>("HOLDFAST_FAULT_TOLERANCE", 0, 1, &tolerant));
    options->no_fault_tolerance = 1 - tolerant;
    TRY(read_number<std::uint64_t>("HOLDFAST_CODEC_MIN_BYTES", 0, UINT64_MAX,
                                   &options->codec_min_bytes));
    TRY(read_number<std::int32_t>("HOLDFAST_TUNE", 0, 1, &options->tune));
    TRY(read_word("HOLDFAST_ON_PEER_LOSS", {{"continue", HF_CONTINUE}, {"raise", HF_RAISE}},
                  &options->on_peer_loss));
    TRY(read_word("HOLDFAST_ON_HOLE", {{"raise", HF_HOLE_RAISE}, {"zero", HF_HOLE_ZERO}},
                  &options->on_hole));
    return read_number<std::uint16_t>("HOLDFAST_PORT", 0, 65535, &options->port);
  });
}

hf_status hf_device_options_from_env(hf_device_options* options) {
  return c::guarded([&]() -> Status {
    if (options == nullptr) return c::missing("options");
    TRY(check_size(*options));
    read_text("HOLDFAST_CUDA_DRIVER", &options->cuda_driver);
    read_text("HOLDFAST_CUDA_IPC", &options->cuda_ipc);
    TRY(read_number<std::uint64_t>("HOLDFAST_CUDA_SLICE_BYTES", 4096, 1U << 30,
                                   &options->cuda_slice_bytes));
    read_text("HOLDFAST_CUDA_CODEC", &options->cuda_codec);
    TRY(read_number<std::uint64_t>("HOLDFAST_CUDA_IPC_MIN_BYTES", 1, UINT64_MAX,
                                   &options->cuda_ipc_min_bytes));
    return read_number<std::uint64_t>("HOLDFAST_CUDA_CODEC_MIN_BYTES", 1, UINT64_MAX,
                                      &options->cuda_codec_min_bytes);
  });
}

hf_status hf_node_create(const hf_options* options, hf_node** node) {
  return hf_node_create_with_devices(options, nullptr, node);
}

hf_status hf_node_create_with_devices(const hf_options* options, const hf_device_options* devices,
                                      hf_node** node) {
  return c::guarded([&]() -> Status {
    if (node == nullptr) return c::missing("node");
    auto native = to_native(options);
    if (!native.is_ok()) return native.status();
    TRY(add_devices(devices, native.value()));
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

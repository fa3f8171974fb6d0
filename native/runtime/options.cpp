#include "runtime/options.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/fnv.h"
#include "comm/algorithms/catalogue.h"
#include "comm/plan/plan_table.h"
#include "comm/transport/catalogue.h"
#include "compress/codec.h"
#include "device_comm/devices.h"
#include "health/http_endpoint.h"
#include "runtime/coordinator/address.h"

namespace holdfast::runtime {
namespace {

constexpr Duration kShortestHeartbeat = std::chrono::milliseconds(1);
constexpr Duration kLongestHeartbeat = std::chrono::hours(1);

Status refuse(const std::string& option, const std::string& value, const std::string& accepted) {
  return {Code::kConfigError, "option " + option + " = " + value + "; accepted: " + accepted};
}

// "a", "b" and "c", quoted.
std::string names_of(comm::Reach reach) {
  std::vector<std::string> names;
  for (const comm::TransportRow& row : comm::transports()) {
    if (row.reach == reach) names.push_back("\"" + std::string(row.name) + "\"");
  }
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) {
    text += (i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

Status check_transports(const std::vector<std::string>& transports) {
  const std::string accepted = "a list of " + names_of(comm::Reach::kHost) + " and one of " +
                               names_of(comm::Reach::kAnywhere) + ", each at most once";
  if (transports.empty()) return refuse("transports", "an empty list", accepted);
  std::string everywhere;
  for (const std::string& name : transports) {
    const auto row = comm::transport_index(name);
    if (!row || std::count(transports.begin(), transports.end(), name) > 1) {
      return refuse("transports", "\"" + name + "\"", accepted);
    }
    if (comm::transports()[*row].reach != comm::Reach::kAnywhere) continue;
    if (!everywhere.empty()) {
      return refuse("transports", "\"" + everywhere + "\" and \"" + name + "\"", accepted);
    }
    everywhere = name;
  }
  return Status::ok();
}

// Empty where nothing is named that all must name.
std::string transports_text(const Options& options) {
  std::string text;
  bool tells = false;
  for (const std::string& name : options.transports) {
    text += (text.empty() ? "" : "+") + name;
    const auto row = comm::transport_index(name);
    tells = tells || (row && comm::transports()[*row].must_agree);
  }
  return tells ? ", transports: " + text : "";
}

Status check_algorithm(const std::string& algorithm) {
  if (algorithm.empty()) return Status::ok();
  std::string accepted = "empty (the cost model chooses)";
  std::string last;
  for (const comm::AlgorithmRow& row : comm::catalogue()) {
    if (row.algorithm == algorithm) return Status::ok();
    if (accepted.find(row.algorithm) == std::string::npos)
      accepted += ", " + std::string(row.algorithm);
  }
  return refuse("algorithm", "\"" + algorithm + "\"", accepted);
}

Status check_codec(const std::string& text) {
  if (text.empty()) return Status::ok();
  const auto codec = compress::Codec::parse(text);
  return codec.is_ok() ? Status::ok() : codec.status();
}

std::string codec_text(const Options& options) {
  const auto codec = compress::Codec::parse(options.codec);
  if (options.codec.empty() || !codec.is_ok()) return "none";
  return codec.value().text() + " from " + std::to_string(options.codec_min_bytes) + " bytes";
}

// An option that turns a path on, and its size.
Status check_path(const std::string& option, const std::string& value, std::uint64_t least) {
  const auto* last = std::end(kCudaPaths);
  if (std::find(std::begin(kCudaPaths), last, value) == last) {
    return refuse(option, "\"" + value + "\"", "\"auto\" or \"off\"");
  }
  if (least < 1) return refuse(option + "_min_bytes", std::to_string(least), "1 byte or more");
  return Status::ok();
}

Status check_devices(const Options& options) {
  const auto* last = std::end(kCudaDrivers);
  if (std::find(std::begin(kCudaDrivers), last, options.cuda_driver) == last) {
    return refuse("cuda_driver", "\"" + options.cuda_driver + "\"",
                  "empty (the system's), \"emulated\" or \"none\"");
  }
  constexpr std::uint64_t kSmallestSlice = 4096;
  constexpr std::uint64_t kLargestSlice = 1ULL << 30;
  if (options.cuda_slice_bytes < kSmallestSlice || options.cuda_slice_bytes > kLargestSlice) {
    return refuse("cuda_slice_bytes", std::to_string(options.cuda_slice_bytes),
                  "4096 to 1073741824 bytes");
  }
  TRY(check_path("cuda_ipc", options.cuda_ipc, options.cuda_ipc_min_bytes));
  return check_path("cuda_codec", options.cuda_codec, options.cuda_codec_min_bytes);
}

// Those who left them alone need not read about them.
std::string devices_text(const Options& options) {
  const Options usual;
  std::string text;
  if (options.cuda_slice_bytes != usual.cuda_slice_bytes) {
    text += ", cuda_slice_bytes: " + std::to_string(options.cuda_slice_bytes);
  }
  if (options.cuda_ipc != usual.cuda_ipc) text += ", cuda_ipc: " + options.cuda_ipc;
  if (options.cuda_ipc_min_bytes != usual.cuda_ipc_min_bytes) {
    text += ", cuda_ipc_min_bytes: " + std::to_string(options.cuda_ipc_min_bytes);
  }
  if (options.cuda_codec != usual.cuda_codec) text += ", cuda_codec: " + options.cuda_codec;
  if (options.cuda_codec_min_bytes != usual.cuda_codec_min_bytes) {
    text += ", cuda_codec_min_bytes: " + std::to_string(options.cuda_codec_min_bytes);
  }
  return text;
}

constexpr std::size_t kMaxPlanBytes = 16U << 20;

}  // namespace

Result<comm::PlanTable> read_plan(const Options& options) {
  if (options.plan.empty()) return comm::PlanTable{};
  const std::string accepted = "a file that `holdfast plan --measure` has written";
  std::ifstream file(options.plan, std::ios::binary);
  if (!file) {
    if (errno == ENOENT && options.tune) return comm::PlanTable{};
    return refuse("plan", options.plan + ": " + std::strerror(errno), accepted);
  }
  std::string text(kMaxPlanBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refuse("plan", options.plan + ": cannot be read", accepted);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxPlanBytes) {
    return refuse("plan", options.plan + ": more than 16 MiB", accepted);
  }
  auto table = comm::PlanTable::parse(text);
  if (!table.is_ok()) {
    return refuse("plan", options.plan + ": " + table.status().message(), accepted);
  }
  return table;
}

// Of the table a digest of its text, which is the same wherever its content is.
std::string settings_text(const Options& options, const comm::PlanTable& plan) {
  Fnv1a digest;
  digest.mix(plan.text());
  const bool raises = options.on_peer_loss == comm::PeerLoss::kRaise;
  const bool zeros = options.on_hole == comm::OnHole::kZero;
  return "algorithm: " + (options.algorithm.empty() ? "by itself" : options.algorithm) +
         ", plan: " + (plan.empty() ? "none" : std::to_string(digest.value())) +
         ", tune: " + (options.tune ? "1" : "0") +
         ", fault_tolerance: " + (options.fault_tolerance ? "1" : "0") +
         ", on_peer_loss: " + (raises ? "raise" : "continue") +
         ", on_hole: " + (zeros ? "zero" : "raise") + ", codec: " + codec_text(options) +
         devices_text(options) + transports_text(options);
}

Status validate(const Options& options) {
  TRY(check_transports(options.transports));
  TRY(check_algorithm(options.algorithm));
  TRY(check_codec(options.codec));
  TRY(check_devices(options));
  constexpr auto kLongest = std::chrono::hours(24 * 365);
  if (options.timeout <= Duration::zero() || options.timeout > kLongest) {
    return refuse("timeout", std::to_string(options.timeout.count()) + " ns",
                  "more than 0, at most one year");
  }
  if (options.connect_timeout <= Duration::zero() || options.connect_timeout > kLongest) {
    return refuse("connect_timeout", std::to_string(options.connect_timeout.count()) + " ns",
                  "more than 0, at most one year");
  }
  if (options.heartbeat < kShortestHeartbeat || options.heartbeat > kLongestHeartbeat) {
    return refuse("heartbeat", std::to_string(options.heartbeat.count()) + " ns",
                  "1 millisecond to 1 hour");
  }
  if (options.silence < 3 * options.heartbeat || options.silence > kLongest) {
    return refuse(
        "silence", std::to_string(options.silence.count()) + " ns",
        "three heartbeats (" + std::to_string(3 * options.heartbeat.count()) + " ns) to one year");
  }
  if (options.time_slice != Duration::zero() &&
      (options.time_slice < kShortestTimeSlice || options.time_slice > kLongestTimeSlice)) {
    return refuse("time_slice", std::to_string(options.time_slice.count()) + " ns",
                  "100 microseconds to 100 milliseconds, or 0 to leave threads alone");
  }
  if (!options.algorithm.empty() && (options.tune || !options.plan.empty())) {
    return refuse("algorithm", "\"" + options.algorithm + "\" together with plan or tune",
                  "one of them: they choose the algorithm, too");
  }
  TRY(read_plan(options).status());
  if (!options.coordinator.empty()) TRY(parse_coordinator(options.coordinator).status());
  if (!options.http.empty()) TRY(parse_http_address(options.http).status());
  if (options.address == "0.0.0.0" || options.address == "::") {
    return refuse("address", options.address,
                  "empty (all interfaces) or the numeric address of one interface");
  }
  const auto printable = [](unsigned char c) { return std::isprint(c) != 0 && c != '='; };
  constexpr std::size_t kMaxHostId = 256;
  if (options.host_id.size() > kMaxHostId ||
      !std::all_of(options.host_id.begin(), options.host_id.end(), printable)) {
    return refuse("host_id", "\"" + options.host_id.substr(0, 40) + "\"",
                  "at most 256 printable characters without '='");
  }
  return Status::ok();
}

}  // namespace holdfast::runtime

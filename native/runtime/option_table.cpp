#include "runtime/option_table.h"

#include <algorithm>
#include <cctype>

#include "base/fnv.h"
#include "comm/algorithms/catalogue.h"
#include "comm/transport/catalogue.h"
#include "compress/codec.h"
#include "device_comm/devices.h"
#include "health/http_endpoint.h"
#include "runtime/coordinator/address.h"
#include "runtime/rendezvous/card.h"
#include "topology/link_map.h"

namespace holdfast::runtime {
namespace {

constexpr std::uint64_t nanoseconds(Duration time) {
  return static_cast<std::uint64_t>(time.count());
}

constexpr std::uint64_t kLongestTime = nanoseconds(std::chrono::hours(24 * 365));
constexpr std::uint64_t kShortestHeartbeat = nanoseconds(std::chrono::milliseconds(1));
constexpr std::uint64_t kLongestHeartbeat = nanoseconds(std::chrono::hours(1));
constexpr std::uint64_t kLongestMeasure = nanoseconds(std::chrono::minutes(10));
constexpr std::uint64_t kSmallestSlice = 4096;
constexpr std::uint64_t kLargestSlice = 1ULL << 30;

constexpr std::string_view kPaths = "\"auto\" or \"off\"";

// Names of the transports of that reach, quoted: "a", "b" and "c".
std::string transports_of(comm::Reach reach) {
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

Status check_transports(const OptionRow& row, const Options& options) {
  const std::vector<std::string>& transports = options.transports;
  const std::string accepted = "a list of " + transports_of(comm::Reach::kHost) + " and one of " +
                               transports_of(comm::Reach::kAnywhere) + ", each at most once";
  if (transports.empty()) return refuse_option(row, "an empty list", accepted);
  std::string everywhere;
  for (const std::string& name : transports) {
    const auto known = comm::transport_index(name);
    if (!known || std::count(transports.begin(), transports.end(), name) > 1) {
      return refuse_option(row, "\"" + name + "\"", accepted);
    }
    if (comm::transports()[*known].reach != comm::Reach::kAnywhere) continue;
    if (!everywhere.empty()) {
      std::string both = "\"" + everywhere;
      both.append("\" and \"").append(name).append("\"");
      return refuse_option(row, both, accepted);
    }
    everywhere = name;
  }
  return Status::ok();
}

// Empty where no named transport is one that all ranks must name.
std::string agreed_transports(const Options& options, const comm::PlanTable&) {
  std::string text;
  bool tells = false;
  for (const std::string& name : options.transports) {
    text += (text.empty() ? "" : "+") + name;
    const auto row = comm::transport_index(name);
    tells = tells || (row && comm::transports()[*row].must_agree);
  }
  return tells ? text : "";
}

Status check_silence(const OptionRow& row, const Options& options) {
  if (options.silence >= 3 * options.heartbeat) return Status::ok();
  return refuse_option(
      row, std::to_string(options.silence.count()) + " ns",
      "three heartbeats (" + std::to_string(3 * options.heartbeat.count()) + " ns) to one year");
}

Status check_address(const OptionRow& row, const Options& options) {
  const bool is_any = options.address == "0.0.0.0" || options.address == "::";
  return is_any ? refuse_option(row, options.address, row.accepted) : Status::ok();
}

Status check_host_id(const OptionRow& row, const Options& options) {
  const auto printable = [](unsigned char c) { return std::isprint(c) != 0 && c != '='; };
  constexpr std::size_t kMaxHostId = 256;
  if (options.host_id.size() <= kMaxHostId && std::ranges::all_of(options.host_id, printable)) {
    return Status::ok();
  }
  return refuse_option(row, "\"" + options.host_id.substr(0, 40) + "\"", row.accepted);
}

Status check_domain(const OptionRow& row, const Options& options) {
  if (are_domain_names(options.domain)) return Status::ok();
  return refuse_option(row, "\"" + options.domain.substr(0, 40) + "\"", row.accepted);
}

Status check_algorithm(const OptionRow& row, const Options& options) {
  if (options.algorithm.empty()) return Status::ok();
  std::string accepted(row.accepted);
  bool known = false;
  for (const comm::AlgorithmRow& algorithm : comm::catalogue()) {
    known = known || algorithm.algorithm == options.algorithm;
    if (accepted.find(algorithm.algorithm) == std::string::npos) {
      accepted += ", " + std::string(algorithm.algorithm);
    }
  }
  if (!known) return refuse_option(row, "\"" + options.algorithm + "\"", accepted);
  if (!options.tune && options.plan.empty()) return Status::ok();
  return refuse_option(row, "\"" + options.algorithm + "\" together with plan or tune",
                       "one of them: they choose the algorithm, too");
}

std::string agreed_algorithm(const Options& options, const comm::PlanTable&) {
  return options.algorithm.empty() ? "by itself" : options.algorithm;
}

Status check_plan(const OptionRow&, const Options& options) { return read_plan(options).status(); }

// A digest of the plan's text; equal plans have the same text.
std::string agreed_plan(const Options&, const comm::PlanTable& plan) {
  Fnv1a digest;
  digest.mix(plan.text());
  return plan.empty() ? "none" : std::to_string(digest.value());
}

Status check_topology(const OptionRow&, const Options& options) {
  return read_map(options).status();
}

std::string agreed_topology(const Options& options, const comm::PlanTable&) {
  const auto map = read_map(options);
  if (!map.is_ok() || map.value() == nullptr) return "";
  return std::to_string(map.value()->digest());
}

Status check_coordinator(const OptionRow&, const Options& options) {
  if (options.coordinator.empty()) return Status::ok();
  return parse_coordinator(options.coordinator).status();
}

Status check_http(const OptionRow&, const Options& options) {
  return options.http.empty() ? Status::ok() : health::parse_http_address(options.http).status();
}

// Such a transport takes data from host to host past the sealed connection.
Status check_secret_file(const OptionRow& row, const Options& options) {
  for (const std::string& name : options.transports) {
    const auto at = comm::transport_index(name);
    if (options.secret_file.empty() || !at || comm::transports()[*at].open == nullptr) continue;
    if (comm::transports()[*at].reach == comm::Reach::kHost) continue;
    return refuse_option(row, options.secret_file + " together with transport " + name,
                         "transports shm and tcp: " + name + " does not encrypt");
  }
  return Status::ok();
}

std::string agreed_secret_file(const Options& options, const comm::PlanTable&) {
  return options.secret_file.empty() ? "" : "set";
}

Status check_codec(const OptionRow&, const Options& options) {
  if (options.codec.empty()) return Status::ok();
  return compress::Codec::parse(options.codec).status();
}

// Includes codec_min_bytes, which means nothing alone.
std::string agreed_codec(const Options& options, const comm::PlanTable&) {
  const auto codec = compress::Codec::parse(options.codec);
  if (options.codec.empty() || !codec.is_ok()) return "none";
  return codec.value().text() + " from " + std::to_string(options.codec_min_bytes) + " bytes";
}

std::string agreed_with_codec(const Options&, const comm::PlanTable&) { return ""; }

constexpr OptionRow kRows[] = {
    {.name = "transports",
     .field = &Options::transports,
     .accepted = "one inside hosts and one that goes everywhere, each at most once",
     .doc = "Transports that may be used, best first: one inside hosts (shm), and beside it or "
            "alone one that goes everywhere, tcp or ucx, which all ranks must have set alike.",
     .agreement = Agreement::kInPart,
     .check = check_transports,
     .agreed = agreed_transports},
    {.name = "timeout",
     .field = &Options::timeout,
     .accepted = "more than 0, at most one year",
     .doc = "Time limit of an op, from start to end.",
     .least = 1,
     .most = kLongestTime},
    {.name = "connect_timeout",
     .field = &Options::connect_timeout,
     .accepted = "more than 0, at most one year",
     .doc = "Time limit for all members of a new group to appear.",
     .least = 1,
     .most = kLongestTime},
    {.name = "address",
     .field = &Options::address,
     .accepted = "empty (all interfaces) or the numeric address of one interface",
     .doc = "Address to listen on and tell the others; empty: loopback where Python's launcher, "
            "store or coordinator says that all ranks are on this host, else all interfaces.",
     .check = check_address},
    {.name = "port",
     .field = &Options::port,
     .accepted = "a whole number, 0 to 65535",
     .doc = "TCP port to listen on; 0 lets the system choose.",
     .most = 65535},
    {.name = "host_id",
     .field = &Options::host_id,
     .accepted = "at most 256 printable characters without '='",
     .doc = "Who counts as the same host; empty: boot id and IPC namespace.",
     .check = check_host_id},
    {.name = "domain",
     .field = &Options::domain,
     .accepted = "at most 7 names of 1 to 64 printable characters without '=', with '/' between",
     .doc = "Where the host is, from the outside in, such as site-a/rack-2; empty: not known. Of "
            "the ranks of one host the lowest one's counts.",
     .check = check_domain},
    {.name = "algorithm",
     .field = &Options::algorithm,
     .accepted = "empty (the cost model chooses)",
     .doc = "Algorithm to use wherever it has a row for the collective; empty: the cost model "
            "chooses.",
     .agreement = Agreement::kAlways,
     .check = check_algorithm,
     .agreed = agreed_algorithm},
    {.name = "plan",
     .field = &Options::plan,
     .accepted = "a file that `holdfast plan --measure` has written",
     .doc = "File with a table of plans, which says what algorithm is fastest where; empty: "
            "the cost model with its built-in constants.",
     .agreement = Agreement::kAlways,
     .check = check_plan,
     .agreed = agreed_plan},
    {.name = "topology",
     .field = &Options::topology,
     .accepted = "a file with a map of links, in JSON (docs/guide/topology.md)",
     .doc = "File with a map of the world's links, by which large all_reduce, broadcast and "
            "reduce between hosts go along weighted trees; empty: links count as alike.",
     .agreement = Agreement::kIfSet,
     .check = check_topology,
     .agreed = agreed_topology},
    {.name = "measure",
     .field = &Options::measure,
     .accepted = "more than 0, at most 600, in s; or 0 not to measure",
     .doc = "How long a group of several hosts measures its links as soon as it is complete, to "
            "agree on a map of them; of groups that Python or torch makes.",
     .agreement = Agreement::kIfSet,
     .least = 1,
     .most = kLongestMeasure,
     .or_zero = true},
    {.name = "tune",
     .field = &Options::tune,
     .accepted = "1 or 0",
     .doc = "Whether what the table of plans lacks is measured at its first use, and, with a "
            "file, written there.",
     .agreement = Agreement::kAlways},
    {.name = "fault_tolerance",
     .field = &Options::fault_tolerance,
     .accepted = "1 or 0",
     .doc = "Whether ops that a lost rank cut off are repaired and go on among the survivors; "
            "without it the first loss ends the group.",
     .agreement = Agreement::kAlways},
    {.name = "on_peer_loss",
     .field = &Options::on_peer_loss,
     .accepted = "",
     .doc = "What the loss of a rank means: continue repairs the ops and goes on, raise fails "
            "them on every survivor, from the same op on, until the next advance().",
     .agreement = Agreement::kAlways,
     .words = {"continue", "raise"}},
    {.name = "on_hole",
     .field = &Options::on_hole,
     .accepted = "",
     .doc = "What it means that a gathered result lacks the block of a rank that is away: "
            "raise fails the op on all survivors, zero leaves zeros there. Calls can say it "
            "themselves.",
     .agreement = Agreement::kAlways,
     .words = {"raise", "zero"}},
    {.name = "heartbeat",
     .field = &Options::heartbeat,
     .accepted = "1 millisecond to 1 hour",
     .doc = "Time between two signs of life.",
     .least = kShortestHeartbeat,
     .most = kLongestHeartbeat},
    {.name = "silence",
     .field = &Options::silence,
     .accepted = "three heartbeats to one year",
     .doc = "Time after which a rank of which nothing comes is silent, and may be voted out; "
            "one of this host whose process lives and is not stopped never is.",
     .least = 1,
     .most = kLongestTime,
     .check = check_silence},
    {.name = "trust_resets",
     .field = &Options::trust_resets,
     .accepted = "",
     .doc = "Whether a connection that is closed from the other side proves that its process "
            "has ended: none, never; lan, always, which splits a group whose connections a "
            "firewall closes.",
     .words = {"none", "lan"}},
    {.name = "time_slice",
     .field = &Options::time_slice,
     .accepted = "100 microseconds to 100 milliseconds, or 0 to leave threads alone",
     .doc = "Time slice of threads that wait for other ranks.",
     .least = nanoseconds(kShortestTimeSlice),
     .most = nanoseconds(kLongestTimeSlice),
     .or_zero = true},
    {.name = "coordinator",
     .field = &Options::coordinator,
     .accepted = "host:port or host:port/NAME, or up to 8 host:port with commas between",
     .doc = "Where the job's coordinator is, with the job's name where it has several; if that is "
            "one of several addresses, all ranks name the same; empty: the lowest living rank.",
     .check = check_coordinator},
    {.name = "http",
     .field = &Options::http,
     .accepted = "host:port",
     .doc = "Where /metrics, /healthz, /readyz and /flight are served; port 0 lets the system "
            "choose, no host is loopback, 0.0.0.0 all interfaces; empty: nowhere.",
     .check = check_http},
    {.name = "secret_file",
     .field = &Options::secret_file,
     .accepted = "a file that `holdfast secret` has written, which others cannot read",
     .doc = "File with the secret that all processes of a job share, its coordinator included: "
            "TLS 1.3 keeps everybody else out of their connections; empty: these go as they are.",
     .agreement = Agreement::kIfSet,
     .check = check_secret_file,
     .agreed = agreed_secret_file},
    {.name = "flight_dir",
     .field = &Options::flight_dir,
     .accepted = "",
     .doc = "Folder of the flight record, a file that outlives the process; empty: in memory "
            "only."},
    {.name = "codec",
     .field = &Options::codec,
     .accepted = "a codec's name, with its options in brackets",
     .doc = "What sums and averages of floating elements travel as, for example "
            "int8(block=64,stochastic); a lossless one also carries what is moved; empty: as "
            "they are.",
     .agreement = Agreement::kAlways,
     .check = check_codec,
     .agreed = agreed_codec},
    {.name = "codec_min_bytes",
     .field = &Options::codec_min_bytes,
     .accepted = "a whole number of bytes, at least 0",
     .doc = "From how many bytes on the option codec holds.",
     .agreement = Agreement::kIfSet,
     .agreed = agreed_with_codec},
    {.name = "cuda_driver",
     .field = &Options::cuda_driver,
     .accepted = "empty (the system's), \"emulated\" or \"none\"",
     .doc = "Whose CUDA devices device memory is of: the system's driver, opened when it is "
            "first needed; emulated, a device made of host memory, for tests; none.",
     .choices = device_comm::kCudaDrivers},
    {.name = "cuda_slice_bytes",
     .field = &Options::cuda_slice_bytes,
     .accepted = "4096 to 1073741824 bytes",
     .doc = "Pieces in which large collectives on device memory are copied and exchanged, so "
            "that one is copied while another travels.",
     .agreement = Agreement::kIfSet,
     .least = kSmallestSlice,
     .most = kLargestSlice},
    {.name = "cuda_ipc",
     .field = &Options::cuda_ipc,
     .accepted = kPaths,
     .doc = "Whether ranks of one host read each other's device memory where it lies: auto, "
            "where their devices reach each other.",
     .agreement = Agreement::kIfSet,
     .choices = device_comm::kCudaPaths},
    {.name = "cuda_ipc_min_bytes",
     .field = &Options::cuda_ipc_min_bytes,
     .accepted = "1 byte or more",
     .doc = "From how many bytes on the option cuda_ipc holds.",
     .agreement = Agreement::kIfSet,
     .least = 1},
    {.name = "cuda_codec",
     .field = &Options::cuda_codec,
     .accepted = kPaths,
     .doc = "Whether what has a codec is encoded and decoded on the device: auto, where it "
            "can be.",
     .agreement = Agreement::kIfSet,
     .choices = device_comm::kCudaPaths},
    {.name = "cuda_codec_min_bytes",
     .field = &Options::cuda_codec_min_bytes,
     .accepted = "1 byte or more",
     .doc = "From how many bytes on, before they are encoded, the option cuda_codec holds.",
     .agreement = Agreement::kIfSet,
     .least = 1},
};

}  // namespace

std::span<const OptionRow> option_table() { return kRows; }

}  // namespace holdfast::runtime

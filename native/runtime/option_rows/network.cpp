// Rows of the option table: how ranks reach each other, and how long they try.
#include <algorithm>
#include <array>
#include <cctype>

#include "comm/transport/catalogue.h"
#include "runtime/option_rows/rows.h"
#include "runtime/relay/relay_address.h"
#include "runtime/rendezvous/card.h"

namespace holdfast::runtime {
namespace {

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

Status check_address(const OptionRow& row, const Options& options) {
  const bool is_any = options.address == "0.0.0.0" || options.address == "::";
  return is_any ? refuse_option(row, options.address, row.accepted) : Status::ok();
}

Status check_relay(const OptionRow& row, const Options& options) {
  if (options.relay.empty() || parse_relays(options.relay).is_ok()) return Status::ok();
  return refuse_option(row, "\"" + options.relay.substr(0, 80) + "\"", row.accepted);
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

constexpr std::array kTrunkChoices = {"auto", "on", "off"};
constexpr std::array kMeshChoices = {"auto", "full", "sparse"};

constexpr OptionRow kNetworkRows[] = {
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
    {.name = "relay",
     .field = &Options::relay,
     .accepted = "host:port, up to 4 of them with commas between, together with option secret_file "
                 "or a token",
     .doc = "Relays (`holdfast relay`) through which ranks reach each other where one cannot call "
            "the other, as behind NATs, with commas between them; empty: the coordinator, where "
            "there is one and a secret or a token is used.",
     .check = check_relay},
    {.name = "host_id",
     .field = &Options::host_id,
     .accepted = "at most 256 printable characters without '='",
     .doc = "Who counts as the same host; empty: boot id and IPC namespace.",
     .check = check_host_id},
    {.name = "trunk",
     .field = &Options::trunk,
     .accepted = "\"auto\", \"on\" or \"off\"",
     .doc = "Whether a link to another host is a trunk, which outlives its connections and may "
            "have several: auto, where a round trip takes 1 ms or more; on; off.",
     .choices = kTrunkChoices},
    {.name = "lanes",
     .field = &Options::lanes,
     .accepted = "a whole number, 1 to 16",
     .doc = "Most connections of a trunk.",
     .least = 1,
     .most = comm::kMostTrunkLanes},
    {.name = "mesh",
     .field = &Options::mesh,
     .accepted = "\"auto\", \"full\" or \"sparse\"",
     .doc = "Which ranks of a job are connected from the start: full, each with all; sparse, each "
            "with its nearest ranks, and with others once an op needs it; auto, full up to 32 "
            "ranks.",
     .agreement = Agreement::kIfSet,
     .choices = kMeshChoices},
    {.name = "domain",
     .field = &Options::domain,
     .accepted = "at most 7 names of 1 to 64 printable characters without '=', with '/' between",
     .doc = "Where the host is, from the outside in, such as site-a/rack-2; empty: not known. Of "
            "the ranks of one host the lowest one's counts.",
     .check = check_domain},
};

}  // namespace

std::span<const OptionRow> network_rows() { return kNetworkRows; }

}  // namespace holdfast::runtime

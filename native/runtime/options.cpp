#include "runtime/options.h"

#include <algorithm>
#include <cctype>

#include "comm/algorithms/catalogue.h"
#include "runtime/coordinator_address.h"

namespace holdfast::runtime {
namespace {

constexpr Duration kShortestHeartbeat = std::chrono::milliseconds(1);
constexpr Duration kLongestHeartbeat = std::chrono::hours(1);

Status refuse(const std::string& option, const std::string& value, const std::string& accepted) {
  return {Code::kConfigError, "option " + option + " = " + value + "; accepted: " + accepted};
}

Status check_transports(const std::vector<std::string>& transports) {
  const std::string accepted = "a list of \"shm\" and \"tcp\", each at most once";
  if (transports.empty()) return refuse("transports", "an empty list", accepted);
  for (const std::string& name : transports) {
    const bool known = name == "shm" || name == "tcp";
    if (!known || std::count(transports.begin(), transports.end(), name) > 1) {
      return refuse("transports", "\"" + name + "\"", accepted);
    }
  }
  return Status::ok();
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

}  // namespace

Status validate(const Options& options) {
  TRY(check_transports(options.transports));
  TRY(check_algorithm(options.algorithm));
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
  if (!options.coordinator.empty()) TRY(parse_coordinator(options.coordinator).status());
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

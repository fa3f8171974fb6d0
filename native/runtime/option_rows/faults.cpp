// Rows of the option table: what a loss means, how it is noticed, and who decides about it.
#include "runtime/coordinator/address.h"
#include "runtime/option_rows/rows.h"

namespace holdfast::runtime {
namespace {

constexpr std::uint64_t kShortestHeartbeat = nanoseconds(std::chrono::milliseconds(1));
constexpr std::uint64_t kLongestHeartbeat = nanoseconds(std::chrono::hours(1));

Status refuse_shorter(const OptionRow& row, Duration value, const Options& options) {
  if (value >= 3 * options.heartbeat) return Status::ok();
  return refuse_option(
      row, std::to_string(value.count()) + " ns",
      "three heartbeats (" + std::to_string(3 * options.heartbeat.count()) + " ns) to one year");
}

Status check_silence(const OptionRow& row, const Options& options) {
  return refuse_shorter(row, options.silence, options);
}

// Without a secret the default counts for nothing, and no heartbeat is refused because of it.
Status check_grace(const OptionRow& row, const Options& options) {
  if (!is_sealed(options) && options.grace == Options().grace) return Status::ok();
  return refuse_shorter(row, options.grace, options);
}

Status check_trust_resets(const OptionRow& row, const Options& options) {
  if (options.trust_resets == ResetTrust::kNone || !is_sealed(options)) return Status::ok();
  return refuse_option(row, "\"lan\" beside a secret, a token or a certificate",
                       "\"none\": anybody may close a connection, so with a secret it proves "
                       "nothing");
}

// What must be alike is a field of the card, for newcomers of elastic groups compare it, too.
std::string agreed_coordinator(const Options&, const comm::PlanTable&) { return ""; }

Status check_coordinator(const OptionRow&, const Options& options) {
  if (options.coordinator.empty()) return Status::ok();
  return parse_coordinator(options.coordinator).status();
}

constexpr OptionRow kFaultsRows[] = {
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
            "one of this host whose process lives and is not stopped never is. With a secret "
            "grace counts in its place.",
     .least = 1,
     .most = kLongestTime,
     .check = check_silence},
    {.name = "grace",
     .field = &Options::grace,
     .accepted = "three heartbeats to one year",
     .doc = "With a secret, a token or a certificate, in place of silence: how long ops wait for a "
            "rank that is cut off and of which nothing proves that its process has ended; then "
            "the coordinator decides, or the majority.",
     .least = 1,
     .most = kLongestTime,
     .check = check_grace},
    {.name = "trust_resets",
     .field = &Options::trust_resets,
     .accepted = "",
     .doc = "Whether a connection that is closed from the other side proves that its process "
            "has ended: none, never; lan, always, which splits a group whose connections a "
            "firewall closes. With a secret it is none.",
     .words = {"none", "lan"},
     .check = check_trust_resets},
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
            "one of several addresses, all ranks name the same, in any order; empty: the lowest "
            "living rank does its work.",
     .agreement = Agreement::kInPart,
     .check = check_coordinator,
     .agreed = agreed_coordinator},
};

}  // namespace

std::span<const OptionRow> faults_rows() { return kFaultsRows; }

}  // namespace holdfast::runtime

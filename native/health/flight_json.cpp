#include "health/flight_json.h"

#include "health/json.h"

namespace holdfast::health {
namespace {

using health::FlightEntry;
using health::FlightLog;

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = "[";
  for (const Rank rank : ranks) {
    text += (text.size() > 1 ? "," : "") + std::to_string(rank.value);
  }
  return text + "]";
}

std::string hex_text(std::uint64_t value) { return "\"" + hex_digits(value) + "\""; }

std::string field(const char* name, const std::string& value) {
  return ",\"" + std::string(name) + "\":" + value;
}

std::string entry_json(const FlightEntry& e) {
  const auto text = [](std::string_view value) { return json_text(value); };
  const auto time = [](Instant at) { return std::to_string(at.since_origin.count()); };
  return "{\"number\":" + std::to_string(e.number) + field("group", hex_text(e.group.value)) +
         field("sequence", std::to_string(e.sequence.value)) +
         field("epoch", std::to_string(e.epoch.value)) +
         field("collective", text(comm::collective_name(e.collective))) +
         field("dtype", text(dtype_name(e.dtype))) + field("op", text(reduce_op_name(e.op))) +
         field("bytes", std::to_string(e.bytes)) + field("path", text(comm::op_path_name(e.path))) +
         field("algorithm", text(e.algorithm)) + field("caller", text(e.caller)) +
         field("rank", std::to_string(e.rank.value)) +
         field("other", std::to_string(e.other.value)) + field("enqueued_ns", time(e.enqueued)) +
         field("started_ns", time(e.started)) + field("ended_ns", time(e.ended)) +
         field("state", text(e.state == health::OpState::kEnded ? "ended" : "started")) +
         field("code", text(code_name(e.code))) + field("repaired", e.repaired ? "true" : "false") +
         field("waited_for", ranks_text(e.waited)) + "}";
}

}  // namespace

std::string flight_json(const FlightLog& log) {
  std::string text =
      "{\"version\":" + std::to_string(health::kFlightVersion) +
      field("pid", std::to_string(log.pid)) + field("member", hex_text(log.member.value)) +
      field("rank", std::to_string(log.rank.value)) + field("host", json_text(log.host)) +
      field("wall_offset_ns", std::to_string(log.wall_offset.count())) +
      field("ops", std::to_string(log.ops)) + field("torn", std::to_string(log.torn)) +
      field("damaged", std::to_string(log.damaged)) +
      field("truncated", log.truncated ? "true" : "false") + ",\"groups\":{";
  const char* before = "";
  for (const auto& [id, name] : log.groups) {
    text += before + hex_text(id.value) + ":" + json_text(name);
    before = ",";
  }
  text += "},\"entries\":[";
  before = "\n";
  for (const FlightEntry& entry : log.entries) {
    text += before + entry_json(entry);
    before = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace holdfast::health

// Flight records: files that may be cut, torn, damaged, or something else.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "health/flight_json.h"
#include "health/flight_layout.h"
#include "health/flight_recorder.h"

namespace {

using namespace holdfast;

// A short input stands for the entries, and a few bytes in front for sizes: mutations then reach
// them.
std::vector<std::byte> record_of(std::span<const std::byte> bytes) {
  namespace flight = health::flight;
  std::vector<std::byte> record(flight::kFrontWords * 8);
  const auto put = [&](std::size_t at, std::uint64_t word) {
    std::memcpy(record.data() + at * 8, &word, 8);
  };
  put(flight::kMagicAt, flight::kMagic);
  const auto entries = bytes.empty() ? 1U : static_cast<unsigned>(bytes[0]) % 8U + 1U;
  put(flight::kVersionAt, flight::low_high(health::kFlightVersion, entries));
  record.insert(record.end(), bytes.begin() + (bytes.empty() ? 0 : 1), bytes.end());
  return record;
}

void look(std::span<const std::byte> bytes) {
  const auto log = health::read_flight(bytes);
  if (!log.is_ok()) return;
  for (const health::FlightEntry& entry : log.value().entries) {
    if (entry.waited.size() > health::kFlightWaited) __builtin_trap();
    if (comm::collective_name(entry.collective).empty()) __builtin_trap();
  }
  if (!health::flight_json(log.value()).ends_with("]}\n")) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  look(bytes);
  look(record_of(bytes));
  return 0;
}

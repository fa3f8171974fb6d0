// Flight JSON: a flight record as text for people and tools. docs/reference/flight-record.md
// describes its fields.
#pragma once

#include <string>

#include "health/flight_recorder.h"

namespace holdfast::health {

std::string flight_json(const health::FlightLog& log);

}  // namespace holdfast::health

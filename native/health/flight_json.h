// Flight JSON: a flight record as text for people and tools; docs/health.md describes its fields.
#pragma once

#include <string>

#include "health/flight_recorder.h"

namespace holdfast::runtime {

std::string flight_json(const comm::FlightLog& log);

}  // namespace holdfast::runtime

// Options of a process's runtime: one struct with defaults, validated once. Environment variables
// are read by the bindings only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::runtime {

struct Options {
  // Transports that may be used, best first. Accepted: "shm", "tcp". A link between two hosts needs
  // "tcp".
  std::vector<std::string> transports = {"shm", "tcp"};
  // Time limit of an op, from start to end.
  Duration timeout = std::chrono::minutes(30);
  // Time limit for all members of a new group to appear.
  Duration connect_timeout = std::chrono::minutes(5);
  // Address to listen on and tell the others; empty: 127.0.0.1 when all members are on one host,
  // else the address of the interface that routes to the store. "0.0.0.0" is refused: nobody can
  // connect to it.
  std::string address;
  // TCP port to listen on; 0 lets the system choose.
  std::uint16_t port = 0;
  // Who counts as "the same host"; empty: boot id and IPC namespace. Tests set it to play several
  // hosts.
  std::string host_id;
  // Algorithm to use wherever it has a row for the collective; empty: the cost model chooses.
  std::string algorithm;
};

// kConfigError naming the option, the value, and what is accepted.
Status validate(const Options& options);

}  // namespace holdfast::runtime

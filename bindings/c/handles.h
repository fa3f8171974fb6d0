// What is behind the C interface's handles, and how a call's outcome becomes a status.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/store.h"
#include "comm/communicator.h"
#include "holdfast/holdfast_device.h"
#include "runtime/node.h"

// Owners: the handle, and (node, communicator, work) what the runtime still runs.
struct hf_node {
  std::shared_ptr<holdfast::runtime::Node> node;
  std::string http_address;
};
struct hf_store {
  std::unique_ptr<holdfast::Store> store;
};
struct hf_group {
  std::shared_ptr<holdfast::comm::Communicator> group;
  std::vector<std::string> transports;
  std::weak_ptr<holdfast::runtime::Node> node;
  // Of a handle for device memory; null: for the host's. Owners: as device_comm/staged.h, and
  // these.
  std::shared_ptr<holdfast::runtime::Staged> staged = nullptr;
  std::vector<holdfast::device::CuStream> streams = {};  // one, or none to wait for
  std::atomic<std::int32_t> priority = 0;                // relaxed: a number, guards nothing
  holdfast::comm::HoleChoice on_hole = {};
};
struct hf_work {
  std::shared_ptr<holdfast::comm::Work> work;
};

namespace holdfast::c {

// Notes the outcome for hf_last_error() of this thread.
hf_status record(const Status& status) noexcept;

inline Status missing(const char* what) {
  return {Code::kConfigError, std::string(what) + " is NULL"};
}

// Runs `body`, which returns a Status; nothing it throws gets out.
template <class Body>
hf_status guarded(Body body) noexcept {
  try {
    return record(body());
  } catch (const std::exception& error) {
    return record({Code::kSystem, error.what()});
  } catch (...) {
    return record({Code::kSystem, "an unknown failure"});
  }
}

// A store in a directory that all ranks share; the layout is that of the Python package's.
Result<std::unique_ptr<Store>> open_directory(const std::string& path);

}  // namespace holdfast::c

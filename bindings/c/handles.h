// The structs behind the C interface's handles, and the conversion of a call's outcome to a status.
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

// Owners: the handle; for node, communicator and work also the ops that the runtime still runs.
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
  // Set in a handle for device memory; null in one for host memory. Owners: those of
  // device_comm/staged.h, and these handles.
  std::shared_ptr<holdfast::device_comm::Staged> staged = nullptr;
  std::vector<holdfast::device::CuStream> streams = {};  // one stream; none: no wait
  std::atomic<std::int32_t> priority = 0;                // relaxed: a number, guards nothing
  holdfast::comm::HoleChoice on_hole = {};
};
struct hf_work {
  std::shared_ptr<holdfast::comm::Work> work;
};

namespace holdfast::c {

// Stores the outcome for hf_last_error() of this thread.
hf_status record(const Status& status) noexcept;

inline Status missing(const char* what) {
  return {Code::kConfigError, std::string(what) + " is NULL"};
}

// Runs `body`, which returns a Status, and turns every exception into a status.
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

// A store in a directory that all ranks share, with the layout of the Python package's
// DirectoryStore.
Result<std::unique_ptr<Store>> open_directory(const std::string& path);

}  // namespace holdfast::c

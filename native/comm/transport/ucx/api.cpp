#include "comm/transport/ucx/api.h"

#include "comm/transport/ucx/ucx.h"

#ifdef HOLDFAST_UCX

#include <dlfcn.h>

#include <array>
#include <csignal>

namespace holdfast::comm {
namespace {

constexpr const char* kUcxLibrary = "libucp.so.0";

// UCX takes over signals as soon as its library is open: those of a crash, and one that asks for a
// dump. They belong to the program (faulthandler, a launcher, the JVM), so this class restores the
// handlers that were there before.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kSignals; ++i) {
      known_[i] = ::sigaction(static_cast<int>(i + 1), nullptr, &actions_[i]) == 0;
    }
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kSignals; ++i) {
      if (known_[i]) ::sigaction(static_cast<int>(i + 1), &actions_[i], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::size_t kSignals = 31;  // all but real-time signals
  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> known_{};
};

class UcxSymbols {
 public:
  explicit UcxSymbols(void* library) : library_(library) {}
  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_worker(UcxSymbols& symbols, UcxApi& api) {
  symbols.find("ucp_worker_create", api.worker_create);
  symbols.find("ucp_worker_destroy", api.worker_destroy);
  symbols.find("ucp_worker_query", api.worker_query);
  symbols.find("ucp_worker_get_address", api.worker_get_address);
  symbols.find("ucp_worker_release_address", api.worker_release_address);
  symbols.find("ucp_worker_get_efd", api.worker_get_efd);
  symbols.find("ucp_worker_arm", api.worker_arm);
  symbols.find("ucp_worker_progress", api.worker_progress);
  symbols.find("ucp_worker_set_am_recv_handler", api.worker_set_am_recv_handler);
}

Status ucx_refused(const std::string& why) {
  return {Code::kConfigError, "option transports names \"ucx\", and " + why};
}

}  // namespace

Result<UcxApi> UcxApi::open() {
  const KeptSignals signals;
  // The library is never closed: its threads and hooks cannot be removed from a running process.
  void* library = ::dlopen(kUcxLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return ucx_refused(
        "UCX's library cannot be opened: " + std::string(why == nullptr ? kUcxLibrary : why) +
        " (Debian's package is libucx0)");
  }
  UcxApi api;
  UcxSymbols symbols(library);
  symbols.find("ucp_get_version", api.get_version);
  symbols.find("ucp_init_version", api.init_version);
  symbols.find("ucp_cleanup", api.cleanup);
  symbols.find("ucp_config_read", api.config_read);
  symbols.find("ucp_config_release", api.config_release);
  find_worker(symbols, api);
  symbols.find("ucp_ep_create", api.ep_create);
  symbols.find("ucp_ep_close_nbx", api.ep_close);
  symbols.find("ucp_am_send_nbx", api.am_send);
  symbols.find("ucp_am_recv_data_nbx", api.am_recv_data);
  symbols.find("ucp_request_free", api.request_free);
  symbols.find("ucp_request_check_status", api.request_check_status);
  // This function is in a library with which the one above is linked.
  symbols.find("ucs_status_string", api.status_string);
  if (!symbols.missing().empty()) {
    return ucx_refused(std::string(kUcxLibrary) + " has no " + symbols.missing() +
                       ": it is older than release " + std::to_string(kUcxMajor) + "." +
                       std::to_string(kUcxMinor));
  }
  return api;
}

std::string UcxApi::version() const {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Result<std::string> ucx_version() {
  auto api = UcxApi::open();
  if (!api.is_ok()) return api.status();
  return api.value().version();
}

}  // namespace holdfast::comm

#else

namespace holdfast::comm {
namespace {

Status ucx_left_out() {
  return {Code::kConfigError,
          "option transports names \"ucx\", and this build of Holdfast was made without UCX's "
          "headers (Debian's package is libucx-dev)"};
}

}  // namespace

Result<std::string> ucx_version() { return ucx_left_out(); }
Result<std::unique_ptr<UcxWorker>> UcxWorker::create() { return ucx_left_out(); }

}  // namespace holdfast::comm

#endif

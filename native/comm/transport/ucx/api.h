// UCX API: the functions of UCX's library that the pipe calls. They are looked up by name in the
// library, which is opened on first use and stays open. Their types come from UCX's own headers,
// and work with later versions: each UCX structure says which of its fields are set.
#pragma once

#ifdef HOLDFAST_UCX

#include <ucp/api/ucp.h>

#include <string>

#include "base/result.h"

namespace holdfast::comm {

struct UcxApi {
  decltype(&::ucp_get_version) get_version = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_query) worker_query = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close = nullptr;
  decltype(&::ucp_am_send_nbx) am_send = nullptr;
  decltype(&::ucp_am_recv_data_nbx) am_recv_data = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;

  // Returns kConfigError naming the library and what is wrong with it.
  static Result<UcxApi> open();
  std::string version() const;
};

// The oldest UCX release that has all of these functions.
inline constexpr unsigned kUcxMajor = 1;
inline constexpr unsigned kUcxMinor = 11;

}  // namespace holdfast::comm

#endif

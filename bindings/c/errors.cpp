// Versions, status names, and the last error of each thread.
#include <algorithm>

#include "handles.h"

namespace holdfast::c {
namespace {

static_assert(static_cast<int>(Code::kPeerLost) == HF_PEER_LOST);
static_assert(static_cast<int>(Code::kProtocolError) == HF_PROTOCOL_ERROR);
static_assert(static_cast<int>(Code::kUnconfirmed) == HF_UNCONFIRMED);
static_assert(holdfast::kCodeCount == HF_UNCONFIRMED + 1);

// The error of the calling thread, like errno; no other thread sees it.
Status& last_error() {
  thread_local Status status;
  return status;
}

}  // namespace

hf_status record(const Status& status) noexcept {
  if (status.is_ok() && last_error().is_ok()) return HF_OK;
  try {
    last_error() = status;
  } catch (...) {
    last_error() = Status();  // no memory for the text; the code is returned
  }
  return static_cast<hf_status>(status.code());
}

}  // namespace holdfast::c

using holdfast::c::last_error;

const char* hf_version(void) { return HOLDFAST_VERSION; }

int hf_abi_version(void) { return HF_ABI_VERSION; }

const char* hf_status_name(hf_status status) {
  if (status < HF_OK || status > HF_UNCONFIRMED) return "unknown";
  return holdfast::code_name(static_cast<holdfast::Code>(status));
}

const char* hf_last_error(void) { return last_error().message().c_str(); }

size_t hf_last_error_ranks(int32_t* ranks, size_t capacity) {
  const auto& about = last_error().ranks();
  const std::size_t copied = ranks == nullptr ? 0 : std::min(capacity, about.size());
  for (std::size_t i = 0; i < copied; ++i) ranks[i] = about[i].value;
  return about.size();
}

// Exchange: one HTTP request and its answer, on a connection of its own, in the open or by TLS,
// within a time limit.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/net/socket.h"
#include "base/result.h"
#include "runtime/coordinator/etcd/http_answer.h"
#include "secure/tls_context.h"

namespace holdfast::runtime {

struct HttpPost {
  Endpoint to;
  std::string host;  // as the URL has it
  std::string path;
  std::string body;  // JSON
  // By TLS: whom this side believes, and the host that the server's certificate must be for.
  const secure::TlsContext* tls = nullptr;
  std::string certified = {};
};

// Blocks until the answer is whole, and until `deadline` at most. kTimeout when there was none by
// then, kProtocolError for one that is no HTTP, or of a server that is not believed; else the
// system's error.
Result<HttpAnswer> exchange(const HttpPost& post, const Clock& clock, Instant deadline);

}  // namespace holdfast::runtime

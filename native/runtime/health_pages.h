// Health pages: what the endpoint serves: /metrics, /healthz, /readyz, /flight, /stack, and, of
// a coordinator, /targets. Any thread; nothing here waits for the runtime.
#pragma once

#include "runtime/board.h"
#include "runtime/health.h"
#include "runtime/http_endpoint.h"

namespace holdfast::runtime {

// `board`: of a coordinator, else nullptr.
HttpResponse health_page(const HttpRequest& request, const Health& health, const Board* board);

}  // namespace holdfast::runtime

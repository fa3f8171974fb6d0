// Health pages: the paths that the endpoint serves: the status page and its JSON, /metrics,
// /healthz and /readyz; a rank also serves /flight and /stack, a coordinator /targets. Who gets
// which is a question to page_roles.h. Any thread; nothing here waits for the runtime.
#pragma once

#include "health/health.h"
#include "health/http_endpoint.h"
#include "health/lock/credentials.h"
#include "health/status_model.h"

namespace holdfast::health {

struct PageSources {
  const Health& health;
  const StatusModel& status;
  bool coordinates = false;  // a coordinator; else a rank
  Duration heartbeat{};
  const Credentials* credentials = nullptr;  // null: whoever asks may read all pages
};

HttpResponse health_page(const HttpRequest& request, const PageSources& sources);

}  // namespace holdfast::health

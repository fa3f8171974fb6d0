// Health pages: the paths that the endpoint serves: the status page and its JSON, /metrics,
// /healthz and /readyz; a rank also serves /flight and /stack, a coordinator /targets and the pages
// by which an operator acts. Who gets which is a question to page_roles.h. Any thread; nothing here
// waits for the runtime.
#pragma once

#include <functional>
#include <string>

#include "base/json_reader.h"
#include "health/health.h"
#include "health/http_endpoint.h"
#include "health/lock/credentials.h"
#include "health/status_model.h"

namespace holdfast::health {

// What an operator asks of a coordinator: `fields` is the object that the request's body is, or for
// a page that is read, what its query says.
struct PageOrder {
  Page page = Page::kUnknown;
  PageCaller caller;
  std::string address;
  JsonValue fields;
};
// Has it carried out elsewhere: the answer comes later.
using PageAct = std::function<HttpResponse(PageOrder)>;

// Told of each request that was refused for who has sent it; `why` has the page.
using PageRefused = std::function<void(const PageCaller& caller, const std::string& address,
                                       const std::string& why)>;

struct PageSources {
  const Health& health;
  const StatusModel& status;
  bool coordinates = false;  // a coordinator; else a rank
  Duration heartbeat{};
  const Credentials* credentials = nullptr;  // null: whoever asks may read all pages
  TokenJudge tokens = {};                    // none: this process knows no tokens
  bool is_private = true;                    // nobody else sees what a caller sends
  PageAct act = {};                          // of a coordinator
  PageRefused refused = {};                  // none: nobody is told
};

HttpResponse health_page(const HttpRequest& request, const PageSources& sources);

// The pages of a relay that is a process of its own.
struct RelayPages {
  std::function<RelayNumbers()> numbers;
  const Credentials* credentials = nullptr;  // as above
};

HttpResponse relay_page(const HttpRequest& request, const RelayPages& pages);

}  // namespace holdfast::health

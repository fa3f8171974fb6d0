#include "runtime/serve_health.h"

#include <optional>
#include <utility>

#include "health/lock/credentials.h"
#include "health/pages.h"

namespace holdfast::runtime {
namespace {

health::MemberPlace place_in_card(const std::string& text) {
  auto card = parse_card(text);
  if (!card.is_ok()) return {};
  return {std::move(card.value().host), std::move(card.value().http)};
}

// Pages that others reach have a lock, unless somebody has said that they need none.
Status check_lock(const Options& options, const health::HttpAddress& address) {
  if (health::is_loopback(address) || options.http_insecure) return Status::ok();
  if (!options.http_credentials.empty()) return Status::ok();
  return {Code::kConfigError,
          "option http = " + options.http +
              " lets others reach the pages, and http_credentials is not set; accepted: "
              "http_credentials (HOLDFAST_HTTP_CREDENTIALS), a file of who may read them; a "
              "loopback address; or http_insecure=1 (HOLDFAST_HTTP_INSECURE=1), if whoever "
              "reaches that port may read all pages, as it was before"};
}

}  // namespace

Status serve_health(Runtime::RuntimeParts& parts) {
  const Options& options = parts.options;
  auto health = health::Health::create({options.flight_dir, options.heartbeat}, parts.self,
                                       parts.host, parts.clock);
  if (!health.is_ok()) return health.status();
  parts.health = std::move(health).value();
  const bool coordinates = parts.service != nullptr;
  if (coordinates || !options.http.empty())
    parts.status = std::make_unique<health::StatusModel>(place_in_card);
  if (options.http.empty()) return Status::ok();
  auto address = health::parse_http_address(options.http);
  if (!address.is_ok()) return address.status();
  TRY(check_lock(options, address.value()));
  if (!options.http_credentials.empty()) {
    auto credentials = health::Credentials::open(options.http_credentials);
    if (!credentials.is_ok()) return credentials.status();
    parts.credentials = std::make_unique<const health::Credentials>(std::move(credentials).value());
  }
  auto http = health::HttpEndpoint::start(address.value(), [health = parts.health.get(),
                                                            status = parts.status.get(),
                                                            coordinates,
                                                            heartbeat = options.heartbeat,
                                                            credentials = parts.credentials.get()](
                                                               const health::HttpRequest& request) {
    return health::health_page(request, {*health, *status, coordinates, heartbeat, credentials});
  });
  if (!http.is_ok()) return http.status();
  parts.http = std::move(http).value();
  if (coordinates) parts.status->set_own_address(parts.http->address());
  return Status::ok();
}

}  // namespace holdfast::runtime

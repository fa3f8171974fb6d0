#include "health/pages.h"

#include <utility>

#include "health/flight_json.h"
#include "health/status_json.h"
#include "health/status_page.h"

namespace holdfast::health {
namespace {

HttpResponse verdict(const std::string& wrong) {
  if (wrong.empty()) return {200, "text/plain; charset=utf-8", "ok\n"};
  return {503, "text/plain; charset=utf-8", wrong + "\n"};
}

HttpResponse metrics_page(const HttpRequest& request, const PageSources& from) {
  const metrics::TextFormat format = metrics::format_for(request.accept);
  HttpResponse response;
  response.type = metrics::content_type(format);
  if (!from.coordinates) {
    response.body = from.health.metrics_text(format);
    return response;
  }
  metrics::TextEncoder out(format);
  write_build(out);
  from.status.write_metrics(out);
  response.body = out.take();
  return response;
}

HttpResponse flight_page(const Health& health) {
  const auto log = health::read_flight(health.flight().snapshot());
  if (!log.is_ok()) return verdict(log.status().message());
  return {200, "application/json", flight_json(log.value())};
}

HttpResponse status_answer(const PageSources& from) {
  StatusHeader header;
  header.coordinates = from.coordinates;
  header.now = from.health.now();
  header.wall_offset = from.health.wall_offset();
  header.heartbeat = from.heartbeat;
  header.sickness = from.health.sickness();
  return {200, "application/json", status_json(from.status.state(), header)};
}

// Stacks of the threads above the core, which show why a rank has not called an op.
HttpResponse stack_page(const Health& health) {
  auto text = health.stack();
  if (!text.is_ok()) return verdict(text.status().message());
  return {200, "text/plain; charset=utf-8", std::move(text).value()};
}

}  // namespace

HttpResponse health_page(const HttpRequest& request, const PageSources& from) {
  const std::string& path = request.path;
  if (path == "/") return {200, "text/html; charset=utf-8", std::string(status_page())};
  if (path == "/status") return status_answer(from);
  if (path == "/metrics") return metrics_page(request, from);
  if (path == "/healthz") return verdict(from.health.sickness());
  // A coordinator is in no world: it is ready when it is well.
  if (path == "/readyz") {
    return verdict(from.coordinates ? from.health.sickness() : from.health.unreadiness());
  }
  if (path == "/flight" && !from.coordinates) return flight_page(from.health);
  if (path == "/stack" && !from.coordinates) return stack_page(from.health);
  if (path == "/targets" && from.coordinates) {
    return {200, "application/json", from.status.targets()};
  }
  return {404, "text/plain; charset=utf-8",
          std::string("pages: / /status /metrics /healthz /readyz ") +
              (from.coordinates ? "/targets\n" : "/flight /stack\n")};
}

}  // namespace holdfast::health

#include "health/pages.h"

#include <utility>

#include "health/flight_json.h"
#include "health/lock/page_roles.h"
#include "health/status_json.h"
#include "health/status_page.h"

namespace holdfast::health {
namespace {

HttpResponse plain_text(int status, const std::string& text) {
  return {status, "text/plain; charset=utf-8", text + "\n"};
}

HttpResponse verdict(const std::string& wrong) {
  return wrong.empty() ? plain_text(200, "ok") : plain_text(503, wrong);
}

// What is wrong names hosts and ranks.
HttpResponse verdict_for(PageReader reader, const std::string& wrong) {
  const bool says = wrong.empty() || reader != PageReader::kAnybody;
  return says ? verdict(wrong) : plain_text(503, "not well; who has a credential is told why");
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

HttpResponse refusal(PageReader reader) {
  if (reader != PageReader::kAnybody) return plain_text(403, "this page is for the role admin");
  return plain_text(401, "this page wants a credential (option http_credentials)");
}

HttpResponse unknown_page(PageServer server) {
  return plain_text(404, "pages: " + paths_of(server));
}

HttpResponse page_for(PageReader reader, Page page, const HttpRequest& request,
                      const PageSources& from) {
  switch (page) {
    case Page::kStatusPage: return {200, "text/html; charset=utf-8", std::string(status_page())};
    case Page::kStatus: return status_answer(from);
    case Page::kMetrics: return metrics_page(request, from);
    case Page::kHealthz: return verdict_for(reader, from.health.sickness());
    // A coordinator is in no world: it is ready when it is well.
    case Page::kReadyz:
      return verdict_for(reader,
                         from.coordinates ? from.health.sickness() : from.health.unreadiness());
    case Page::kFlight: return flight_page(from.health);
    case Page::kStack: return stack_page(from.health);
    case Page::kTargets: return {200, "application/json", from.status.targets()};
    case Page::kUnknown: break;
  }
  return unknown_page(from.coordinates ? PageServer::kCoordinator : PageServer::kRank);
}

}  // namespace

HttpResponse health_page(const HttpRequest& request, const PageSources& from) {
  const PageReader reader = from.credentials == nullptr
                                ? PageReader::kAdmin
                                : from.credentials->reader_of(request.authorization);
  const Page page =
      page_at(request.path, from.coordinates ? PageServer::kCoordinator : PageServer::kRank);
  return may_read(reader, page) ? page_for(reader, page, request, from) : refusal(reader);
}

}  // namespace holdfast::health

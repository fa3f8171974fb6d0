#include "runtime/health_pages.h"

#include <utility>

#include "runtime/flight_json.h"

namespace holdfast::runtime {
namespace {

HttpResponse verdict(const std::string& wrong) {
  if (wrong.empty()) return {200, "text/plain; charset=utf-8", "ok\n"};
  return {503, "text/plain; charset=utf-8", wrong + "\n"};
}

HttpResponse metrics_page(const HttpRequest& request, const Health& health, const Board* board) {
  const metrics::Format format = metrics::format_for(request.accept);
  HttpResponse response;
  response.type = metrics::content_type(format);
  if (board == nullptr) {
    response.body = health.metrics_text(format);
    return response;
  }
  metrics::TextEncoder out(format);
  write_build(out);
  board->write_metrics(out);
  response.body = out.take();
  return response;
}

HttpResponse flight_page(const Health& health) {
  const auto log = comm::read_flight(health.flight().snapshot());
  if (!log.is_ok()) return verdict(log.status().message());
  return {200, "application/json", flight_json(log.value())};
}

// Of the threads above the core: for those who ask why a rank has not called an op.
HttpResponse stack_page(const Health& health) {
  auto text = health.stack();
  if (!text.is_ok()) return verdict(text.status().message());
  return {200, "text/plain; charset=utf-8", std::move(text).value()};
}

}  // namespace

HttpResponse health_page(const HttpRequest& request, const Health& health, const Board* board) {
  if (request.path == "/metrics") return metrics_page(request, health, board);
  if (request.path == "/healthz") return verdict(health.sickness());
  // A coordinator is in no world: it is ready when it is well.
  if (request.path == "/readyz") return verdict(board ? health.sickness() : health.unreadiness());
  if (request.path == "/flight" && board == nullptr) return flight_page(health);
  if (request.path == "/stack" && board == nullptr) return stack_page(health);
  if (request.path == "/targets" && board != nullptr) {
    return {200, "application/json", board->targets()};
  }
  return {404, "text/plain; charset=utf-8",
          board ? "pages: /metrics /healthz /readyz /targets\n"
                : "pages: /metrics /healthz /readyz /flight /stack\n"};
}

}  // namespace holdfast::runtime

#include "health/pages.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "health/flight_json.h"
#include "health/json.h"
#include "health/lock/page_roles.h"
#include "health/status_json.h"
#include "health/status_page.h"

namespace holdfast::health {
namespace {

constexpr std::string_view kTokenBegin = "hf1-";

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

// Who has a token of one run sees the worlds of that run.
StatusSnapshot seen_by(const PageCaller& caller, StatusSnapshot state) {
  std::erase_if(state.worlds, [&](const auto& world) { return !caller.may_see(world.name()); });
  std::erase_if(state.events, [&](const auto& event) { return !caller.may_see(event.world); });
  return state;
}

HttpResponse status_answer(const PageCaller& caller, const PageSources& from) {
  StatusHeader header;
  header.coordinates = from.coordinates;
  header.now = from.health.now();
  header.wall_offset = from.health.wall_offset();
  header.heartbeat = from.heartbeat;
  header.sickness = from.health.sickness();
  return {200, "application/json", status_json(seen_by(caller, from.status.state()), header)};
}

// Stacks of the threads above the core, which show why a rank has not called an op.
HttpResponse stack_page(const Health& health) {
  auto text = health.stack();
  if (!text.is_ok()) return verdict(text.status().message());
  return {200, "text/plain; charset=utf-8", std::move(text).value()};
}

HttpResponse refusal(const PageCaller& caller) {
  if (!caller.why.empty()) return plain_text(caller.is_known() ? 403 : 401, caller.why);
  if (caller.reader != PageReader::kAnybody) {
    return plain_text(403, "this page is for the role admin");
  }
  return plain_text(401, "this page wants a credential (option http_credentials)");
}

// A token is judged as one wherever the process knows tokens: that its pages are open to others on
// its host makes no use of a token that does not count.
PageCaller caller_of(const HttpRequest& request, const PageSources& from) {
  const auto said = parse_authorization(request.authorization);
  const bool by_token =
      said && said->scheme == AuthorizationScheme::kBearer && said->text.starts_with(kTokenBegin);
  if (from.tokens && by_token) {
    if (from.is_private) return from.tokens(said->text);
    PageCaller caller;
    caller.why =
        "a token is not sent in the clear: these pages have no certificate (options http_cert and "
        "http_key)";
    return caller;
  }
  if (from.credentials != nullptr) return from.credentials->caller_of(request.authorization);
  PageCaller caller;
  caller.reader = PageReader::kAdmin;
  return caller;
}

HttpResponse unknown_page(PageServer server) {
  return plain_text(404, "pages: " + paths_of(server));
}

HttpResponse error_json(int status, const std::string& why) {
  JsonWriter out;
  out.open("", '{');
  out.text("error", why);
  out.close('}');
  return {status, "application/json", out.take() + "\n"};
}

// nullopt: no text that a query may say.
std::optional<std::string> unquoted(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    int value = 0;
    const char* digits = text.data() + i + 1;
    const char* end = text.data() + std::min(i + 3, text.size());
    if (end - digits != 2 || std::from_chars(digits, end, value, 16).ptr != end) return {};
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

// Fields of a query are texts: name=value&...
std::optional<JsonValue> fields_of_query(std::string_view query) {
  JsonValue fields;
  fields.kind = JsonKind::kObject;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto value = unquoted(part.substr(std::min(equals + 1, part.size())));
    if (!value || fields.find(part.substr(0, equals)) != nullptr) return std::nullopt;
    fields.names.emplace_back(part.substr(0, equals));
    JsonValue text;
    text.kind = JsonKind::kText;
    text.text = *value;
    fields.items.push_back(std::move(text));
  }
  return fields;
}

// A page of another site can make a browser send forms, and none of this type.
bool is_json(std::string_view type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view first = type.substr(0, type.find(';'));
  return first.substr(0, first.find_last_not_of(' ') + 1) == kJson;
}

constexpr JsonLimits kOrderLimits{kMaxBodyBytes, 64, 16, 2};

HttpResponse order_answer(const PageCaller& caller, Page page, const HttpRequest& request,
                          const PageSources& from) {
  PageOrder order{page, caller, request.caller, {}};
  if (!is_action(page)) {
    auto fields = fields_of_query(request.query);
    if (!fields) return error_json(400, "the query is none; accepted: ?job=NAME");
    order.fields = std::move(*fields);
    return from.act(std::move(order));
  }
  if (!caller.is_known()) {
    return plain_text(403,
                      "who acts must have a credential, on loopback, too, where other users of the "
                      "host could act: start the coordinator with --http-credentials FILE, or with "
                      "--secret-file FILE and use a token of the role admin (`holdfast token new "
                      "--role admin`)");
  }
  if (!is_json(request.content_type)) {
    return error_json(415, "Content-Type: " + shown_text(request.content_type, 64) +
                               "; accepted: application/json");
  }
  auto fields = read_json(request.body, kOrderLimits);
  if (!fields.is_ok()) return error_json(400, fields.status().message());
  if (!fields.value().is(JsonKind::kObject)) return error_json(400, "accepted: an object of JSON");
  order.fields = std::move(fields).value();
  return from.act(std::move(order));
}

HttpResponse page_for(const PageCaller& caller, Page page, const HttpRequest& request,
                      const PageSources& from) {
  const PageReader reader = caller.reader;
  const bool of_all_runs = page == Page::kMetrics || page == Page::kTargets;
  if (!caller.run.empty() && of_all_runs) {
    return plain_text(403, "this page shows all runs, and the token is of the run \"" + caller.run +
                               "\"; accepted: /status, or a credential of the coordinator's file");
  }
  switch (page) {
    case Page::kStatusPage: return {200, "text/html; charset=utf-8", std::string(status_page())};
    case Page::kStatus: return status_answer(caller, from);
    case Page::kMetrics: return metrics_page(request, from);
    case Page::kHealthz: return verdict_for(reader, from.health.sickness());
    // A coordinator is in no world: it is ready when it is well.
    case Page::kReadyz:
      return verdict_for(reader,
                         from.coordinates ? from.health.sickness() : from.health.unreadiness());
    case Page::kFlight: return flight_page(from.health);
    case Page::kStack: return stack_page(from.health);
    case Page::kTargets: return {200, "application/json", from.status.targets()};
    case Page::kJobs:
    case Page::kMembers:
    case Page::kKick:
    case Page::kRevoke:
    case Page::kDrain:
    case Page::kPause:
    case Page::kResume:
      if (from.act) return order_answer(caller, page, request, from);
      break;
    case Page::kUnknown: break;
  }
  return unknown_page(from.coordinates ? PageServer::kCoordinator : PageServer::kRank);
}

HttpResponse answer_to(const PageCaller& caller, const HttpRequest& request,
                       const PageSources& from) {
  const Page page =
      page_at(request.path, from.coordinates ? PageServer::kCoordinator : PageServer::kRank);
  if (!may_read(caller.reader, page)) return refusal(caller);
  const bool posted = request.method == "POST";
  if (page != Page::kUnknown && posted != is_action(page)) {
    HttpResponse wrong = plain_text(405, posted ? "this page is read" : "this page acts: POST");
    wrong.allow = posted ? "GET, HEAD" : "POST";
    return wrong;
  }
  return page_for(caller, page, request, from);
}

// For the log of refusals: a path is whatever the caller has sent, and the reason a line of text.
std::string refused_what(const HttpRequest& request, const HttpResponse& response) {
  constexpr std::size_t kMostShown = 80;
  const std::string_view why = std::string_view(response.body).substr(0, response.body.find('\n'));
  return request.method + " " + shown_text(request.path, kMostShown) + ": " + std::string(why);
}

}  // namespace

HttpResponse health_page(const HttpRequest& request, const PageSources& from) {
  const PageCaller caller = caller_of(request, from);
  HttpResponse response = answer_to(caller, request, from);
  const bool is_refused = response.status == 401 || response.status == 403;
  if (is_refused && from.refused) {
    from.refused(caller, request.caller, refused_what(request, response));
  }
  return response;
}

HttpResponse relay_page(const HttpRequest& request, const RelayPages& pages) {
  PageCaller caller;
  caller.reader = PageReader::kAdmin;
  if (pages.credentials != nullptr) caller = pages.credentials->caller_of(request.authorization);
  const Page page = page_at(request.path, PageServer::kRelay);
  if (!may_read(caller.reader, page)) return refusal(caller);
  if (page == Page::kUnknown) return unknown_page(PageServer::kRelay);
  if (request.method == "POST") {
    HttpResponse wrong = plain_text(405, "this page is read");
    wrong.allow = "GET, HEAD";
    return wrong;
  }
  if (page == Page::kHealthz) return verdict({});
  const metrics::TextFormat format = metrics::format_for(request.accept);
  metrics::TextEncoder out(format);
  write_build(out);
  const RelayNumbers numbers = pages.numbers();
  write_relay(out, &numbers);
  return {200, std::string(metrics::content_type(format)), out.take()};
}

}  // namespace holdfast::health

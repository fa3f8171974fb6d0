#include "runtime/serve_health.h"

#include <unistd.h>

#include <optional>
#include <span>
#include <utility>

#include "base/small_file.h"
#include "health/lock/credentials.h"
#include "health/pages.h"
#include "secure/secret.h"
#include "secure/tls_context.h"

namespace holdfast::runtime {
namespace {

template <class T>
Status put(Result<T> from, T& into) {
  if (!from.is_ok()) return from.status();
  into = std::move(from).value();
  return Status::ok();
}

health::MemberPlace place_in_card(const std::string& text) {
  auto card = parse_card(text);
  if (!card.is_ok()) return {};
  return {std::move(card.value().host), std::move(card.value().http)};
}

// A chain of certificates, and a key of RSA, have a few kilobytes each.
constexpr std::size_t kMostPemBytes = 64 * 1024;

// Pages that others reach have a lock, unless somebody has said that they need none.
Status check_lock(const Options& options, const health::HttpAddress& address) {
  if (options.http_cert.empty() != options.http_key.empty()) {
    const bool lacks_key = options.http_key.empty();
    return {Code::kConfigError,
            std::string("option ") + (lacks_key ? "http_cert" : "http_key") + " is set without " +
                (lacks_key ? "http_key" : "http_cert") +
                "; accepted: both, the PEM files of a certificate and of its key, or neither"};
  }
  if (health::is_loopback(address) || options.http_insecure) return Status::ok();
  std::string missing = options.http_credentials.empty() ? "http_credentials" : "";
  if (options.http_cert.empty()) {
    missing += (missing.empty() ? "" : ", ") + std::string("http_cert and http_key");
  }
  if (missing.empty()) return Status::ok();
  return {Code::kConfigError,
          "option http = " + options.http +
              " lets others reach the pages, and what locks them is " + "missing: " + missing +
              "; accepted: http_credentials, a file of who may read them, together with http_cert "
              "and http_key, for TLS; a loopback address; or http_insecure=1 "
              "(HOLDFAST_HTTP_INSECURE=1), if whoever reaches that port may see them as they are"};
}

Result<std::unique_ptr<const health::Credentials>> open_credentials(const Options& options) {
  if (options.http_credentials.empty()) return std::unique_ptr<const health::Credentials>();
  auto credentials = health::Credentials::open(options.http_credentials);
  if (!credentials.is_ok()) return credentials.status();
  return std::make_unique<const health::Credentials>(std::move(credentials).value());
}

Result<std::optional<secure::TlsContext>> open_certificate(const Options& options) {
  if (options.http_cert.empty()) return std::optional<secure::TlsContext>();
  const auto refuse = [](const Status& why) {
    return Status{Code::kConfigError, "options http_cert and http_key: " + why.message()};
  };
  if (!secure::available()) return refuse(secure::lacks_openssl());
  secure::ServerTexts texts;
  TRY(put(read_small_file({"http_cert", options.http_cert, kMostPemBytes}), texts.certificates));
  TRY(put(read_private_file({"http_key", options.http_key, kMostPemBytes},
                            {"accepted: a PEM file of mode 0600", "key"}),
          texts.key));
  auto context = secure::TlsContext::of_server(texts);
  secure::wipe(std::as_writable_bytes(std::span(texts.key)));
  if (!context.is_ok()) return refuse(context.status());
  return std::optional(std::move(context).value());
}

health::PageSources sources_of(Runtime::RuntimeParts& parts, bool is_private) {
  health::PageSources sources{*parts.health, *parts.status};
  sources.coordinates = parts.service != nullptr;
  sources.heartbeat = parts.options.heartbeat;
  sources.credentials = parts.credentials.get();
  sources.is_private = is_private;
  if (parts.gatekeeper) {
    sources.tokens = [gate = parts.gatekeeper](std::string_view text) {
      return gate->page_caller(text);
    };
  }
  if (parts.audit) {
    sources.refused = [audit = parts.audit](const health::PageCaller& caller,
                                            const std::string& address, const std::string& why) {
      const std::string user = caller.token.empty() ? caller.name : "";
      audit->write("page refused", address, {caller.token, caller.run, "", "", "", user}, why);
    };
  }
  if (!sources.coordinates) return sources;
  parts.desk = std::make_shared<OrderDesk>([interrupt = parts.interrupt] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(interrupt, &one, sizeof one);
  });
  sources.act = [desk = parts.desk](health::PageOrder order) {
    return desk->ask(std::move(order));
  };
  return sources;
}

}  // namespace

Result<std::unique_ptr<health::HttpEndpoint>> start_pages(
    const Options& options, std::unique_ptr<const health::Credentials>& credentials,
    const MakePages& make) {
  auto address = health::parse_http_address(options.http);
  if (!address.is_ok()) return address.status();
  TRY(check_lock(options, address.value()));
  TRY(put(open_credentials(options), credentials));
  std::optional<secure::TlsContext> tls;
  TRY(put(open_certificate(options), tls));
  const bool is_private = tls || health::is_loopback(address.value());
  return health::HttpEndpoint::start(address.value(), make(is_private), std::move(tls));
}

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
  TRY(put(start_pages(options, parts.credentials,
                      [&parts](bool is_private) {
                        return [sources = sources_of(parts, is_private)](
                                   const health::HttpRequest& request) {
                          return health::health_page(request, sources);
                        };
                      }),
          parts.http));
  if (coordinates) parts.status->set_own_address(parts.http->address());
  return Status::ok();
}

}  // namespace holdfast::runtime

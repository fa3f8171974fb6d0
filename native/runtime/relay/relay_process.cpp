#include "runtime/relay/relay_process.h"

#include <mutex>
#include <utility>

#include "base/forks.h"
#include "base/net/socket.h"
#include "health/pages.h"
#include "runtime/rendezvous/sealer.h"
#include "runtime/rendezvous/secret_file.h"
#include "runtime/serve_health.h"

namespace holdfast::runtime {
namespace {

class RelayProcessImpl final : public RelayProcess {
 public:
  explicit RelayProcessImpl(secure::KeyRing ring) : ring_(std::move(ring)) {}
  ~RelayProcessImpl() override {
    close();
    close_unforked(listener_);
  }

  Status start(const RelayOptions& options) {
    RelayServer::RelayRules rules;
    if (!options.audit_file.empty()) {
      auto audit = AuditLog::open(options.audit_file);
      if (!audit.is_ok()) return audit.status();
      rules.audit = std::move(audit).value();
    }
    auto listener = listen_on(options.address, options.port);
    if (!listener.is_ok()) return listener.status();
    listener_ = listener.value();
    auto port = local_port(listener_);
    if (!port.is_ok()) return port.status();
    port_ = port.value();
    revoke(options.revoked);
    rules.listener = listener_;
    rules.gate.key_of = [this](std::span<const std::byte> bytes) -> Result<secure::Secret> {
      const auto claims = secure::parse_claims(bytes);
      if (!claims.is_ok()) return claims.status();
      return ring_.admit(claims.value(), {claims.value().run, claims.value().not_after});
    };
    rules.gate.check = [this](const secure::TokenClaims& claims) {
      const std::lock_guard lock(mutex_);
      return check_member(claims, revoked_);
    };
    auto server = RelayServer::start(std::move(rules));
    if (!server.is_ok()) return server.status();
    server_ = std::move(server).value();
    return options.pages.http.empty() ? Status::ok() : serve_pages(options.pages);
  }

  std::uint16_t port() const override { return port_; }
  std::string http_address() const override { return http_ ? http_->address() : ""; }
  RelayServer::RelayCounts counts() const override { return server_->counts(); }
  void revoke(std::set<secure::Serial> serials) override {
    const std::lock_guard lock(mutex_);
    revoked_ = std::move(serials);
  }
  void close() override {
    if (http_) http_->stop();
    if (server_) server_->stop();
  }

 private:
  Status serve_pages(const Options& options) {
    auto http = start_pages(options, credentials_, [this](bool) {
      const health::RelayPages pages{[this] { return server_->counts().numbers(); },
                                     credentials_.get()};
      return [pages](const health::HttpRequest& request) {
        return health::relay_page(request, pages);
      };
    });
    if (!http.is_ok()) return http.status();
    http_ = std::move(http).value();
    return Status::ok();
  }

  const secure::KeyRing ring_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::mutex mutex_;  // guards revoked_
  std::set<secure::Serial> revoked_;
  std::unique_ptr<RelayServer> server_;
  std::unique_ptr<const health::Credentials> credentials_;
  std::unique_ptr<health::HttpEndpoint> http_;  // serves from the two above; null: none is wanted
};

}  // namespace

Result<std::shared_ptr<RelayProcess>> RelayProcess::create(const RelayOptions& options) {
  if (options.secret_file.empty()) {
    return Status{Code::kConfigError,
                  "a relay without a secret would connect anybody; accepted: --secret-file FILE, "
                  "which `holdfast secret FILE` makes"};
  }
  auto secrets = read_secret_files(options.secret_file);
  if (!secrets.is_ok()) return secrets.status();
  auto ring = secure::KeyRing::make(std::move(secrets).value());
  if (!ring.is_ok()) return ring.status();
  auto relay = std::make_shared<RelayProcessImpl>(std::move(ring).value());
  TRY(relay->start(options));
  return std::shared_ptr<RelayProcess>(std::move(relay));
}

}  // namespace holdfast::runtime

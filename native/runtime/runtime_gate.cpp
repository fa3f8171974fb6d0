// Who a runtime lets in, and by what it is let in.
#include "runtime/certificates/certificate_entry.h"
#include "runtime/certificates/certificate_files.h"
#include "runtime/coordinator/address.h"
#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/pass_holder.h"
#include "runtime/rendezvous/secret_file.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

Result<secure::Token> token_of(const Options& options) {
  if (options.token.empty()) return read_token_file(options.token_file);
  auto token = secure::parse_token(options.token);
  if (!token.is_ok()) return Status{Code::kConfigError, "token: " + token.status().message()};
  return token;
}

bool comes_by_token(const Options& options) {
  return !options.token.empty() || !options.token_file.empty();
}

// Null: whoever reaches this coordinator is let in.
Result<std::shared_ptr<Gatekeeper>> open_gate(const Options& options) {
  std::shared_ptr<CertificateGate> certificates;
  if (has_certificate_options(options) || !options.tls_roles.empty()) {
    if (options.secret_file.empty()) {
      return Status{Code::kConfigError,
                    "option tls_cert of a coordinator is set without secret_file; accepted: both, "
                    "since the secret signs what members show each other: `holdfast secret FILE` "
                    "makes one"};
    }
    auto opened = CertificateGate::open(options);
    if (!opened.is_ok()) return opened.status();
    certificates = std::move(opened).value();
  }
  if (options.secret_file.empty()) return std::shared_ptr<Gatekeeper>();
  return Gatekeeper::open(options.secret_file, std::move(certificates));
}

// That a process has a token and the secret, its options refuse by themselves.
Status check_one_way(const Options& options) {
  if (!has_certificate_options(options)) return Status::ok();
  const bool by_token = comes_by_token(options);
  if (!by_token && options.secret_file.empty()) return Status::ok();
  return {Code::kConfigError,
          std::string("option tls_cert is set together with ") +
              (by_token ? "a token (option token_file)" : "option secret_file") +
              "; accepted: one of the two: a process is let in by a certificate, by a token, or "
              "by the secret"};
}

Result<std::shared_ptr<const Sealer>> by_token_of(Runtime::RuntimeParts& parts) {
  auto token = token_of(parts.options);
  if (!token.is_ok()) return token.status();
  const std::string run = token.value().claims.run;
  // An address without a name is that of the token's run.
  if (parts.job.empty()) parts.job = run;
  if (parts.job != run) {
    return Status{Code::kConfigError, "the token is of the run \"" + run +
                                          "\", and the coordinator's address names \"" + parts.job +
                                          "\"; accepted: host:port/" + run + " or host:port"};
  }
  return PassHolder::make(enter_by_token(std::move(token).value()), parts.coordinator->member);
}

Result<std::shared_ptr<const Sealer>> by_certificate_of(const Runtime::RuntimeParts& parts) {
  const auto address = parse_coordinator(parts.options.coordinator);
  if (!address.is_ok()) return address.status();
  CertificateTarget target{parts.job, {}};
  for (const CoordinatorHost& at : address.value().hosts) target.hosts.push_back(at.host);
  return PassHolder::make(enter_by_certificate(parts.options, std::move(target)),
                          parts.coordinator->member);
}

}  // namespace

Status Runtime::choose_sealer(RuntimeParts& parts) {
  const Options& options = parts.options;
  if (!options.audit_file.empty()) {
    auto audit = AuditLog::open(options.audit_file);
    if (!audit.is_ok()) return audit.status();
    parts.audit = std::move(audit).value();
  }
  if (parts.service != nullptr) {
    auto gate = open_gate(options);
    if (!gate.is_ok()) return gate.status();
    parts.gatekeeper = std::move(gate).value();
    parts.sealer = parts.gatekeeper;
    return Status::ok();
  }
  TRY(check_one_way(options));
  const bool by_token = comes_by_token(options);
  if (!options.secret_file.empty()) {
    auto secret = SecretHolder::open(options.secret_file);
    if (!secret.is_ok()) return secret.status();
    parts.secret = std::move(secret).value();
    parts.sealer = parts.secret;
    auto issuer = ViewIssuer::open(options.secret_file);
    if (!issuer.is_ok()) return issuer.status();
    parts.issuer = std::move(issuer).value();
    return Status::ok();
  }
  if (!by_token && !has_certificate_options(options)) return Status::ok();
  if (!parts.coordinator) {
    return {Code::kConfigError,
            std::string(by_token ? "a token" : "a certificate (option tls_cert)") +
                ", and no coordinator that could let this process in by it (option coordinator); "
                "accepted for ranks that meet in a store: option secret_file"};
  }
  auto sealer = by_token ? by_token_of(parts) : by_certificate_of(parts);
  if (!sealer.is_ok()) return sealer.status();
  parts.sealer = std::move(sealer).value();
  parts.issuer = ViewIssuer::let_in_by(parts.sealer);
  return Status::ok();
}

Status Runtime::turned_away(const Status& why) const {
  return {Code::kAuthFailed, "the coordinator at " + parts_.options.coordinator +
                                 " does not let this process in: " + why.message()};
}

// Of a coordinator: a caller may speak of the worlds of the run that it was let into, and of no
// other.
void Runtime::introduce(MemberId caller) {
  if (parts_.service == nullptr) return;
  if (Peer* known = find_peer(caller)) known->told_to_go = false;
  const auto entrant = parts_.gatekeeper ? parts_.gatekeeper->entrant(caller) : std::nullopt;
  if (!entrant) return parts_.service->confine(caller, {});
  const std::size_t places =
      entrant->uses == secure::kAnyUses ? ft::kLobbyPlaces : std::size_t{entrant->uses};
  parts_.service->confine(caller, {entrant->run, entrant->name(), places});
}

void Runtime::revoke(const std::set<secure::Serial>& serials) {
  if (!parts_.gatekeeper) return;
  parts_.gatekeeper->revoke(serials);
  run([&] { tell_unwelcome(); });
}

std::vector<std::string> Runtime::look_at_certificates() {
  if (!parts_.gatekeeper) return {};
  std::vector<std::string> news = parts_.gatekeeper->look_at_certificates();
  run([&] {
    for (std::string& each : tell_unwelcome()) news.push_back(std::move(each));
  });
  return news;
}

// Who does not count any more is told so, and shown out then. Returns the reasons.
std::vector<std::string> Runtime::tell_unwelcome() {
  std::vector<std::string> reasons;
  for (const auto& [id, peer] : peers_) {
    const auto entrant = parts_.gatekeeper->entrant(id);
    if (!entrant || entrant->unwelcome.empty() || peer->told_to_go) continue;
    peer->told_to_go = true;
    parts_.service->expel(id, entrant->unwelcome, parts_.clock->now());
    unwelcome_.insert(id);
    if (parts_.audit) {
      parts_.audit->write("shown out", peer->address, entrant->facts(),
                          entrant->certificate ? entrant->unwelcome : "revoked");
    }
    reasons.push_back("member " + std::to_string(id.value) + ": shown out: " + entrant->unwelcome);
    next_reap_ = {};
  }
  return reasons;
}

// What they are told has been sent: a turn sends first, and then shows out.
void Runtime::show_out(Instant now) {
  for (const MemberId id : std::exchange(unwelcome_, {})) {
    if (Peer* peer = find_peer(id)) peer->control->hang_up();
    next_reap_ = now;
  }
}

}  // namespace holdfast::runtime

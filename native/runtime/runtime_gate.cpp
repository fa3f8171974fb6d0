// Who a runtime lets in, and by what it is let in.
#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/secret_file.h"
#include "runtime/rendezvous/token_holder.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

Result<secure::Token> token_of(const Options& options) {
  if (options.token.empty()) return read_token_file(options.token_file);
  auto token = secure::parse_token(options.token);
  if (!token.is_ok()) return Status{Code::kConfigError, "token: " + token.status().message()};
  return token;
}

}  // namespace

Status Runtime::choose_sealer(RuntimeParts& parts) {
  const Options& options = parts.options;
  if (!options.audit_file.empty()) {
    auto audit = AuditLog::open(options.audit_file);
    if (!audit.is_ok()) return audit.status();
    parts.audit = std::move(audit).value();
  }
  if (parts.service != nullptr && !options.secret_file.empty()) {
    auto gate = Gatekeeper::open(options.secret_file);
    if (!gate.is_ok()) return gate.status();
    parts.gatekeeper = std::move(gate).value();
    parts.sealer = parts.gatekeeper;
    return Status::ok();
  }
  const bool by_token = !options.token.empty() || !options.token_file.empty();
  Result<std::shared_ptr<const Sealer>> sealer = std::shared_ptr<const Sealer>();
  if (!options.secret_file.empty()) {
    auto secret = SecretHolder::open(options.secret_file);
    if (!secret.is_ok()) return secret.status();
    parts.secret = std::move(secret).value();
    sealer = std::shared_ptr<const Sealer>(parts.secret);
  } else if (by_token && parts.service == nullptr) {
    if (!parts.coordinator) {
      return {Code::kConfigError,
              "a token, and no coordinator that could let this process in by it (option "
              "coordinator); accepted for ranks that meet in a store: option secret_file"};
    }
    auto token = token_of(options);
    if (!token.is_ok()) return token.status();
    const std::string run = token.value().claims.run;
    // An address without a name is that of the token's run.
    if (parts.job.empty()) parts.job = run;
    if (parts.job != run) {
      return {Code::kConfigError, "the token is of the run \"" + run +
                                      "\", and the coordinator's address names \"" + parts.job +
                                      "\"; accepted: host:port/" + run + " or host:port"};
    }
    sealer = TokenHolder::make(std::move(token).value(), parts.coordinator->member);
  }
  if (!sealer.is_ok()) return sealer.status();
  parts.sealer = std::move(sealer).value();
  return Status::ok();
}

Status Runtime::turned_away(const Status& why) const {
  return {Code::kAuthFailed, "the coordinator at " + parts_.options.coordinator +
                                 " does not let this process in: " + why.message()};
}

// Of a coordinator: a caller may speak of the worlds of its token's run, and of no other.
void Runtime::introduce(MemberId caller) {
  if (parts_.service == nullptr) return;
  const auto entrant = parts_.gatekeeper ? parts_.gatekeeper->entrant(caller) : std::nullopt;
  if (!entrant) return parts_.service->confine(caller, {});
  const std::size_t places =
      entrant->uses == secure::kAnyUses ? ft::kLobbyPlaces : std::size_t{entrant->uses};
  parts_.service->confine(caller, {entrant->run, serial_text(entrant->token), places});
}

void Runtime::revoke(const std::set<secure::Serial>& serials) {
  if (!parts_.gatekeeper) return;
  parts_.gatekeeper->revoke(serials);
  run([&] { expel_holders(serials); });
}

void Runtime::expel_holders(const std::set<secure::Serial>& serials) {
  for (const auto& [id, peer] : peers_) {
    const auto entrant = parts_.gatekeeper->entrant(id);
    if (!entrant || !serials.contains(entrant->token) || unwelcome_.contains(id)) continue;
    parts_.service->expel(id, "the token " + serial_text(entrant->token) + " was revoked",
                          parts_.clock->now());
    unwelcome_.insert(id);
    if (parts_.audit) {
      parts_.audit->write("shown out", peer->address,
                          {serial_text(entrant->token), entrant->run, ""}, "revoked");
    }
    next_reap_ = {};
  }
}

// What they are told has been sent: a turn sends first, and then shows out.
void Runtime::show_out(Instant now) {
  for (const MemberId id : std::exchange(unwelcome_, {})) {
    if (Peer* peer = find_peer(id)) peer->control->hang_up();
    next_reap_ = now;
  }
}

}  // namespace holdfast::runtime

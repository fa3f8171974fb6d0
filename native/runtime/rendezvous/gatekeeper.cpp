#include "runtime/rendezvous/gatekeeper.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/rendezvous/secret_file.h"
#include "secure/pass.h"

namespace holdfast::runtime {

using secure::Certificate;
using secure::Fingerprint;
using secure::Identity;
using secure::KeyRing;
using secure::Serial;
using secure::TlsContext;
using secure::TlsSession;
using secure::TokenClaims;

namespace {

Status turn_away(const std::string& why) { return {Code::kAuthFailed, why}; }

}  // namespace

class Gatekeeper::Book {
 public:
  Book(KeyRing ring, std::vector<Identity> issuers, std::shared_ptr<CertificateGate> certificates)
      : ring_(std::move(ring)),
        issuers_(std::move(issuers)),
        certificates_(std::move(certificates)) {}

  // The key of a token's claims, whether or not they let anybody in now: who has the token is told
  // why not, and nobody else.
  Result<secure::Secret> key_of(std::span<const std::byte> bytes) const {
    const auto claims = secure::parse_claims(bytes);
    if (!claims.is_ok()) return claims.status();
    return ring_.admit(claims.value(), {claims.value().run, claims.value().not_after});
  }

  Status admit(const TokenClaims& claims, const Fingerprint& key, MemberId member);
  Status admit(const Certificate& certificate, const std::string& run, const Fingerprint& key,
               MemberId member);
  void note_holder(MemberId member);
  Status check_now(const TokenClaims& claims) const {
    const std::lock_guard lock(mutex_);
    return check_member(claims, revoked_);
  }
  Result<Admission> admission(const secure::PassClaims& claims) const;
  void revoke(std::set<Serial> serials);
  void revoke_for_good(const Serial& serial);
  health::PageCaller page_caller(std::string_view text) const;
  std::string run_of(const Serial& token) const;
  // Holds who came in by a certificate against these.
  void review(const CertificateRules& rules);
  std::optional<Entrant> entrant(MemberId member) const;

 private:
  struct KnownEntrant {
    Entrant entrant;
    Fingerprint key;
  };
  struct TokenUse {
    std::set<Fingerprint> keys;
    std::uint32_t members = 0;  // ids that were let in by it
  };
  Status write_down(Entrant entrant, const Fingerprint& key, MemberId member, std::uint32_t most);

  const KeyRing ring_;
  const std::vector<Identity> issuers_;
  const std::shared_ptr<CertificateGate> certificates_;  // owners: also the gatekeeper
  mutable std::mutex mutex_;                             // guards the rest
  std::set<Serial> revoked_;
  std::set<Serial> for_good_;  // some of `revoked_`
  // Nothing is forgotten of who was let in: it could not be shown out, or another could take its
  // id.
  std::map<Serial, TokenUse> uses_;
  std::map<MemberId, KnownEntrant> entrants_;
};

Status Gatekeeper::Book::admit(const TokenClaims& claims, const Fingerprint& key, MemberId member) {
  const std::lock_guard lock(mutex_);
  if (const Status now = check_claims(claims, {claims.run, unix_now(), revoked_}); !now.is_ok()) {
    return turn_away(now.message());
  }
  if (claims.role != secure::TokenRole::kMember) {
    return turn_away(std::string("the token's role is ") + role_name(claims.role) +
                     "; accepted, to join: member");
  }
  const std::uint32_t most =
      claims.uses == secure::kAnyUses ? kMostUses : std::min(claims.uses, kMostUses);
  return write_down({claims.run, claims.serial, std::nullopt, claims.uses}, key, member, most);
}

// A certificate is looked at again, by the rules of now: those of the handshake may be older, and
// who is written down by newer ones is not reviewed by them.
Status Gatekeeper::Book::admit(const Certificate& certificate, const std::string& run,
                               const Fingerprint& key, MemberId member) {
  const std::lock_guard lock(mutex_);
  const secure::UnixTime now = unix_now();
  TRY(certificates_->check_usable(now));
  const auto rules = certificates_->rules();
  TRY(rules->context.believe(certificate, now));
  TRY(rules->roles.check_member(certificate.subject, run));
  return write_down({run, certificate.id, certificate}, key, member, kMostUses);
}

// Under the lock.
Status Gatekeeper::Book::write_down(Entrant entrant, const Fingerprint& key, MemberId member,
                                    std::uint32_t most) {
  const auto known = entrants_.find(member);
  if (known != entrants_.end() && known->second.key != key) {
    return turn_away("the id of member " + std::to_string(member.value) +
                     " belongs to another key");
  }
  TokenUse& use = uses_[entrant.token];
  const bool is_new = known == entrants_.end();
  if ((!use.keys.contains(key) && use.keys.size() >= most) ||
      (is_new && use.members >= kMostUses)) {
    return turn_away(entrant.name() + " was used " +
                     std::to_string(std::max<std::size_t>(use.keys.size(), use.members)) +
                     " times, and lets in no more: ask for another one" +
                     (entrant.certificate ? "" : " (`holdfast token new`)"));
  }
  use.keys.insert(key);
  if (is_new) ++use.members;
  entrants_.insert_or_assign(member, KnownEntrant{std::move(entrant), key});
  return Status::ok();
}

void Gatekeeper::Book::note_holder(MemberId member) {
  const std::lock_guard lock(mutex_);
  entrants_.erase(member);
}

Result<Admission> Gatekeeper::Book::admission(const secure::PassClaims& claims) const {
  Admission admission;
  for (const Identity& issuer : issuers_) admission.issuers.push_back(issuer.public_key());
  auto pass = secure::issue_pass(issuers_.front(), claims);
  if (!pass.is_ok()) return pass.status();
  admission.pass = std::move(pass).value();
  return admission;
}

void Gatekeeper::Book::revoke(std::set<Serial> serials) {
  const std::lock_guard lock(mutex_);
  revoked_ = std::move(serials);
  revoked_.insert(for_good_.begin(), for_good_.end());
}

void Gatekeeper::Book::revoke_for_good(const Serial& serial) {
  const std::lock_guard lock(mutex_);
  for_good_.insert(serial);
  revoked_.insert(serial);
}

health::PageCaller Gatekeeper::Book::page_caller(std::string_view text) const {
  health::PageCaller caller;
  caller.why = "this is no token of this coordinator's secret";
  const auto token = secure::parse_token(text);
  if (!token.is_ok()) return caller;
  const TokenClaims& claims = token.value().claims;
  const auto key = key_of(secure::encode_claims(claims));
  if (!key.is_ok() || !secure::same_bytes(key.value().bytes(), token.value().key.bytes())) {
    return caller;
  }
  const std::lock_guard lock(mutex_);
  const Status now = check_claims(claims, {claims.run, unix_now(), revoked_});
  caller.why = now.is_ok() ? "" : now.message();
  if (!now.is_ok() || claims.run == kHoldersRun) return caller;
  caller.name = caller.token = serial_text(claims.serial);
  caller.run = claims.run;
  if (claims.role == secure::TokenRole::kObserver) caller.reader = health::PageReader::kObserver;
  if (claims.role == secure::TokenRole::kAdmin) caller.reader = health::PageReader::kAdmin;
  if (claims.role == secure::TokenRole::kMember) {
    caller.why = "the token's role is member; accepted, for pages: observer or admin";
  }
  return caller;
}

std::string Gatekeeper::Book::run_of(const Serial& token) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entrants_.begin(), entrants_.end(), [&](const auto& known) {
    return known.second.entrant.token == token;
  });
  return found == entrants_.end() ? std::string() : found->second.entrant.run;
}

// A copy is looked at: signatures take longer than a lock is held.
void Gatekeeper::Book::review(const CertificateRules& rules) {
  std::map<MemberId, Entrant> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [member, known] : entrants_) {
      if (known.entrant.certificate) all.emplace(member, known.entrant);
    }
  }
  std::map<Serial, bool> revoked;
  for (auto& [member, entrant] : all) {
    const Certificate& certificate = *entrant.certificate;
    const auto [known, is_new] = revoked.try_emplace(certificate.id, false);
    if (is_new) known->second = rules.context.revokes(certificate);
    const Status role = rules.roles.check_member(certificate.subject, entrant.run);
    entrant.unwelcome = known->second ? certificate.name() + " was revoked" : role.message();
  }
  const std::lock_guard lock(mutex_);
  for (auto& [member, entrant] : all) {
    const auto found = entrants_.find(member);
    if (found == entrants_.end()) continue;
    Entrant& now = found->second.entrant;
    if (now.certificate && now.token == entrant.token && now.run == entrant.run) {
      now.unwelcome = std::move(entrant.unwelcome);
    }
  }
}

std::optional<Entrant> Gatekeeper::Book::entrant(MemberId member) const {
  const std::lock_guard lock(mutex_);
  const auto found = entrants_.find(member);
  if (found == entrants_.end()) return std::nullopt;
  Entrant entrant = found->second.entrant;
  if (!entrant.certificate && revoked_.contains(entrant.token)) {
    entrant.unwelcome = entrant.name() + " was revoked";
  }
  return entrant;
}

namespace {

class GatePapers final : public Papers {
 public:
  GatePapers(std::shared_ptr<Gatekeeper::Book> book, bool takes_certificates)
      : book_(std::move(book)), takes_certificates_(takes_certificates) {}

  Status check(const TlsSession& session, const Greeting& theirs) override {
    if (session.peer().certificate) return check_certificate(session, theirs);
    auto claims = secure::parse_claims(session.peer().claims);
    if (!claims.is_ok()) return turn_away(claims.status().message());
    claims_ = std::move(claims).value();
    if (claims_.run == kHoldersRun) {
      book_->note_holder(theirs.from);
      const Status now = check_claims(claims_, {kHoldersRun, unix_now()});
      return now.is_ok() ? now : turn_away(now.message());
    }
    const auto proof = parse_proof_papers(theirs.papers);
    if (!proof.is_ok()) return proof.status();
    TRY(check_key(session, proof.value()));
    return book_->admit(claims_, key_, theirs.from);
  }

  Result<std::vector<std::byte>> show(const TlsSession&, const Greeting& own) override {
    if (claims_.run == kHoldersRun) return std::vector<std::byte>();
    const auto admission =
        book_->admission({claims_.run, own.to, key_, claims_.serial, claims_.not_after});
    if (!admission.is_ok()) return admission.status();
    return admission_papers(admission.value());
  }

  Status explain(const Status& failure, bool is_open) const override {
    if (!takes_certificates_) return Papers::explain(failure, is_open);
    return {Code::kProtocolError,
            "by a certificate, a token or the secret nobody could be let in: " + failure.message()};
  }

  CallerFacts facts() const override {
    CallerFacts facts;
    facts.run = claims_.run;
    if (claims_.run == kHoldersRun) return facts;
    if (key_ != Fingerprint{}) facts.key = fingerprint_text(key_);
    if (certificate_) {
      facts.subject = certificate_->subject;
      facts.certificate = certificate_->number;
    } else if (!claims_.run.empty()) {
      facts.token = serial_text(claims_.serial);
    }
    return facts;
  }

 private:
  // What its pass will say of it is kept as a token's claims are.
  Status check_certificate(const TlsSession& session, const Greeting& theirs) {
    certificate_ = session.peer().certificate;
    const auto request = parse_request_papers(theirs.papers);
    if (!request.is_ok()) return request.status();
    // Of it are those who have the secret, and no certificate gives that.
    if (request.value().run == kHoldersRun) {
      return turn_away(std::string("no certificate lets into the run ") + kHoldersRun);
    }
    claims_.run = request.value().run;
    claims_.serial = certificate_->id;
    claims_.not_after = certificate_->not_after;
    TRY(check_key(session, request.value().proof));
    return book_->admit(*certificate_, claims_.run, key_, theirs.from);
  }

  Status check_key(const TlsSession& session, const secure::Proof& proof) {
    const auto key = secure::fingerprint_in(proof);
    if (!key.is_ok()) return key.status();
    key_ = key.value();
    return session.check_proof(proof, key_);
  }

  std::shared_ptr<Gatekeeper::Book> book_;
  bool takes_certificates_;
  std::optional<Certificate> certificate_;
  TokenClaims claims_;
  Fingerprint key_;
};

}  // namespace

Gatekeeper::Gatekeeper(TlsContext context, std::shared_ptr<Book> book,
                       std::shared_ptr<CertificateGate> certificates)
    : context_(std::move(context)),
      certificates_(std::move(certificates)),
      book_(std::move(book)) {}

Result<std::shared_ptr<Gatekeeper>> Gatekeeper::open(
    const std::string& files, std::shared_ptr<CertificateGate> certificates) {
  auto secrets = read_secret_files(files);
  if (!secrets.is_ok()) return secrets.status();
  std::vector<Identity> issuers;
  for (const secure::Secret& secret : secrets.value()) {
    auto issuer = secure::pass_issuer(secret);
    if (!issuer.is_ok()) return issuer.status();
    issuers.push_back(std::move(issuer).value());
  }
  auto ring = KeyRing::make(std::move(secrets).value());
  if (!ring.is_ok()) return ring.status();
  auto context = TlsContext::for_tokens();
  if (!context.is_ok()) return context.status();
  auto book = std::make_shared<Book>(std::move(ring).value(), std::move(issuers), certificates);
  return std::shared_ptr<Gatekeeper>(
      new Gatekeeper(std::move(context).value(), std::move(book), std::move(certificates)));
}

Result<std::unique_ptr<TlsSeal>> Gatekeeper::call(MemberId) const {
  return Status{Code::kUnsupported, "a coordinator calls nobody"};
}

Result<std::unique_ptr<TlsSeal>> Gatekeeper::answer() const {
  secure::TlsTerms terms;
  terms.now = unix_now();
  terms.key_of = [book = book_](std::span<const std::byte> claims) { return book->key_of(claims); };
  const TlsContext context = certificates_ ? certificates_->rules()->context : context_;
  auto session = TlsSession::server(context, std::move(terms));
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value(),
                                   std::make_unique<GatePapers>(book_, certificates_ != nullptr));
}

std::vector<std::string> Gatekeeper::look_at_certificates() {
  if (!certificates_) return {};
  CertificateGate::Look look = certificates_->look(unix_now());
  if (look.has_new_rules) book_->review(*certificates_->rules());
  return std::move(look.news);
}

RelayGate Gatekeeper::relay_gate() const {
  return {[book = book_](std::span<const std::byte> claims) { return book->key_of(claims); },
          [book = book_](const TokenClaims& claims) { return book->check_now(claims); }};
}

void Gatekeeper::revoke(std::set<Serial> serials) { book_->revoke(std::move(serials)); }

void Gatekeeper::revoke_for_good(const Serial& serial) { book_->revoke_for_good(serial); }

health::PageCaller Gatekeeper::page_caller(std::string_view text) const {
  return book_->page_caller(text);
}

std::string Gatekeeper::run_of(const Serial& token) const { return book_->run_of(token); }

std::optional<Entrant> Gatekeeper::entrant(MemberId member) const { return book_->entrant(member); }

}  // namespace holdfast::runtime

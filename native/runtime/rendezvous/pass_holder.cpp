#include "runtime/rendezvous/pass_holder.h"

#include <mutex>
#include <optional>
#include <utility>

#include "secure/pass.h"

namespace holdfast::runtime {

using secure::Identity;
using secure::TlsContext;
using secure::TlsSession;
using secure::TlsTerms;
using secure::Token;

struct PassHolder::HeldPass {
  std::string run;
  std::mutex mutex;     // guards the rest
  Admission admission;  // empty: not let in yet
};

namespace {

Admission admission_of(PassHolder::HeldPass& held) {
  const std::lock_guard lock(held.mutex);
  return held.admission;
}

// A member's towards its coordinator: it proves its key, and gets a pass.
class AskingPapers final : public Papers {
 public:
  AskingPapers(std::shared_ptr<const WayIn> entry, std::shared_ptr<const Identity> identity,
               std::shared_ptr<PassHolder::HeldPass> held)
      : entry_(std::move(entry)), identity_(std::move(identity)), held_(std::move(held)) {}

  Result<std::vector<std::byte>> show(const TlsSession& session, const Greeting&) override {
    const auto proof = session.prove(*identity_);
    if (!proof.is_ok()) return proof.status();
    return entry_->papers(proof.value());
  }

  Status check(const TlsSession&, const Greeting& theirs) override {
    auto admission = parse_admission_papers(theirs.papers);
    if (!admission.is_ok()) return admission.status();
    const std::lock_guard lock(held_->mutex);
    held_->admission = std::move(admission).value();
    return Status::ok();
  }

  Status explain(const Status& failure, bool is_open) const override {
    return entry_->explain(failure, is_open);
  }

 private:
  std::shared_ptr<const WayIn> entry_;
  std::shared_ptr<const Identity> identity_;
  std::shared_ptr<PassHolder::HeldPass> held_;
};

// Two members': each shows the pass for the key by which hands were shaken.
class MemberPapers final : public Papers {
 public:
  // `callee`: who is called; nullopt where this side answers.
  MemberPapers(std::shared_ptr<PassHolder::HeldPass> held, std::optional<MemberId> callee)
      : held_(std::move(held)), callee_(callee) {}

  Result<std::vector<std::byte>> show(const TlsSession&, const Greeting&) override {
    const Admission own = admission_of(*held_);
    if (own.pass.empty()) {
      return Status{Code::kAuthFailed, "this process's coordinator has not let it in yet"};
    }
    return pass_papers(own.pass);
  }

  Status check(const TlsSession& session, const Greeting& theirs) override {
    const auto pass = parse_pass_papers(theirs.papers);
    if (!pass.is_ok()) return pass.status();
    const auto claims = secure::check_pass(pass.value(), admission_of(*held_).issuers, unix_now());
    if (!claims.is_ok()) return claims.status();
    const secure::PassClaims& told = claims.value();
    facts_ = {serial_text(told.token), told.run, fingerprint_text(told.key)};
    if (told.run != held_->run) return refused("is of another run");
    if (told.member != theirs.from || (callee_ && *callee_ != theirs.from)) {
      return refused("is of another member");
    }
    if (session.peer().fingerprint != told.key) return refused("is of another key");
    return Status::ok();
  }

  CallerFacts facts() const override { return facts_; }

 private:
  static Status refused(const std::string& why) {
    return {Code::kAuthFailed, "the pass that was shown " + why};
  }

  std::shared_ptr<PassHolder::HeldPass> held_;
  std::optional<MemberId> callee_;
  CallerFacts facts_;
};

Result<std::unique_ptr<TlsSeal>> sealed(Result<TlsSession> session,
                                        std::unique_ptr<Papers> papers) {
  if (!session.is_ok()) return session.status();
  return std::make_unique<TlsSeal>(std::move(session).value(), std::move(papers));
}

// Any key may shake hands: whose it is, the pass says.
TlsTerms terms_of_members() {
  TlsTerms terms;
  terms.now = unix_now();
  terms.accepts = [](const secure::Fingerprint&) { return Status::ok(); };
  return terms;
}

class TokenEntry final : public WayIn {
 public:
  TokenEntry(Token token, TlsContext context)
      : token_(std::move(token)), context_(std::move(context)) {}

  const std::string& run() const override { return token_.claims.run; }
  Result<TlsSession> session() const override {
    TlsTerms terms;
    terms.now = unix_now();
    terms.token = &token_;
    return TlsSession::client(context_, std::move(terms));
  }
  Result<Token> token() const override { return Token{token_.claims, token_.key.copy()}; }
  std::vector<std::byte> papers(const secure::Proof& proof) const override {
    return proof_papers(proof);
  }
  Status explain(const Status& failure, bool is_open) const override {
    return Papers().explain(failure, is_open);
  }

 private:
  const Token token_;
  const TlsContext context_;
};

}  // namespace

Result<Token> WayIn::token() const {
  return Status{
      Code::kUnsupported,
      "a relay lets nobody in by a certificate; accepted: option secret_file, or a token"};
}

Result<std::unique_ptr<WayIn>> enter_by_token(Token token) {
  if (token.claims.role != secure::TokenRole::kMember) {
    return Status{Code::kConfigError, std::string("the token's role is ") +
                                          role_name(token.claims.role) +
                                          "; accepted, to join: member"};
  }
  TRY(secure::check_claims(token.claims, {token.claims.run, unix_now()}));
  auto context = TlsContext::for_tokens();
  if (!context.is_ok()) return context.status();
  return std::unique_ptr<WayIn>(
      std::make_unique<TokenEntry>(std::move(token), std::move(context).value()));
}

PassHolder::PassHolder(std::unique_ptr<WayIn> entry, MemberId coordinator, Identity identity,
                       TlsContext to_members)
    : entry_(std::move(entry)),
      coordinator_(coordinator),
      identity_(std::make_shared<const Identity>(std::move(identity))),
      to_members_(std::move(to_members)),
      held_(std::make_shared<HeldPass>()) {
  held_->run = entry_->run();
}

Result<std::shared_ptr<const Sealer>> PassHolder::make(Result<std::unique_ptr<WayIn>> entry,
                                                       MemberId coordinator) {
  if (!entry.is_ok()) return entry.status();
  auto identity = Identity::generate();
  if (!identity.is_ok()) return identity.status();
  auto to_members = TlsContext::of_identity(identity.value());
  if (!to_members.is_ok()) return to_members.status();
  return std::shared_ptr<const Sealer>(new PassHolder(std::move(entry).value(), coordinator,
                                                      std::move(identity).value(),
                                                      std::move(to_members).value()));
}

Result<std::unique_ptr<TlsSeal>> PassHolder::call(MemberId callee) const {
  if (callee != coordinator_) {
    return sealed(TlsSession::client(to_members_, terms_of_members()),
                  std::make_unique<MemberPapers>(held_, callee));
  }
  return sealed(entry_->session(), std::make_unique<AskingPapers>(entry_, identity_, held_));
}

Result<std::unique_ptr<TlsSeal>> PassHolder::answer() const {
  return sealed(TlsSession::server(to_members_, terms_of_members()),
                std::make_unique<MemberPapers>(held_, std::nullopt));
}

std::vector<secure::PublicKey> PassHolder::issuers() const { return admission_of(*held_).issuers; }

}  // namespace holdfast::runtime

// Sessions by certificates of an authority: who is in, by which role, and who is out.
#include <doctest/doctest.h>
#include <malloc.h>

#include "lacking.h"

#ifdef HOLDFAST_OPENSSL
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "openssl_peer.h"
#include "secure/tls_session.h"
#include "tls_pairs.h"

namespace holdfast::secure {
namespace {

struct Site {
  Certified authority = certify({.name = "site", .is_authority = true});
  Certified a = certify({.name = "a", .serial = 11}, &authority);
  Certified b = certify({.name = "b", .serial = 12, .kind = "EC"}, &authority);

  CertificateTexts texts(const Certified& own, const std::string& revocations = "") const {
    return {own.pem(), own.key_pem(), authority.pem(), revocations};
  }
};

TlsTerms roles(UnixTime now = {5000}) {
  TlsTerms terms;
  terms.now = now;
  terms.role_of = [](const std::string& subject) -> Result<TokenRole> {
    if (subject == "CN=a") return TokenRole::kAdmin;
    if (subject == "CN=b") return TokenRole::kMember;
    return Status{Code::kConfigError, "no role is given to " + subject};
  };
  return terms;
}

TlsPair pair_of(const CertificateTexts& client, const CertificateTexts& server,
                UnixTime now = {5000}) {
  const auto client_context = std::move(TlsContext::of_certificates(client)).value();
  const auto server_context = std::move(TlsContext::of_certificates(server)).value();
  return {std::move(TlsSession::client(client_context, roles(now))).value(),
          std::move(TlsSession::server(server_context, roles(now))).value()};
}

TEST_CASE("an authority's certificates open a session, and give roles by subject") {
  if (lacking()) return;
  const Site site;
  TlsPair pair = pair_of(site.texts(site.a), site.texts(site.b));
  pump(pair);
  REQUIRE_MESSAGE(both_open(pair), pair.client.failure().message()
                                       << " / " << pair.server.failure().message());
  CHECK(pair.server.peer().subject == "CN=a");
  CHECK(pair.server.peer().role == TokenRole::kAdmin);
  CHECK(pair.client.peer().role == TokenRole::kMember);
  CHECK(pair.client.write(list_of("word")).is_ok());
  pump(pair);
  CHECK(text_of(pair.server) == "word");
}

TEST_CASE("another authority, no role, an early or a late date, and a revoked one are refused") {
  if (lacking()) return;
  const Site site;
  const Site other;
  const auto refused = [&](TlsPair pair, const std::string& words) {
    pump(pair);
    CHECK(pair.server.state() == TlsState::kFailed);
    CHECK(pair.server.failure().code() == Code::kAuthFailed);
    CHECK_MESSAGE(pair.server.failure().message().find(words) != std::string::npos,
                  pair.server.failure().message());
  };
  CertificateTexts stranger = other.texts(other.a);
  stranger.authorities = site.authority.pem();
  refused(pair_of(stranger, site.texts(site.b)), "is refused");
  const Certified c = certify({.name = "c", .serial = 13}, &site.authority);
  refused(pair_of(site.texts(c), site.texts(site.b)), "no role is given to CN=c");
  const Certified late =
      certify({.name = "a", .not_before = 1000, .not_after = 4999}, &site.authority);
  refused(pair_of(site.texts(late), site.texts(site.b)), "expired");
  const Certified early = certify({.name = "a", .not_before = 5001}, &site.authority);
  refused(pair_of(site.texts(early), site.texts(site.b)), "not yet valid");
  const std::string revoked = revocations_of(site.authority, {11});
  refused(pair_of(site.texts(site.a), site.texts(site.b, revoked)), "revoked");
  TlsPair kept =
      pair_of(site.texts(site.a), site.texts(site.b, revocations_of(site.authority, {99})));
  pump(kept);
  CHECK(both_open(kept));
  const Certified itself = certify({.name = "a"});
  refused(pair_of(site.texts(itself), site.texts(site.b)), "is refused");
}

TEST_CASE("a chain goes through an authority in between") {
  if (lacking()) return;
  const Site site;
  const Certified middle = certify({.name = "middle", .is_authority = true}, &site.authority);
  const Certified leaf = certify({.name = "a"}, &middle);
  CertificateTexts texts = site.texts(leaf);
  texts.certificates += middle.pem();
  TlsPair pair = pair_of(texts, site.texts(site.b));
  pump(pair);
  CHECK(both_open(pair));
  // One that is no authority vouches for nobody.
  const Certified fake = certify({.name = "a"}, &site.a);
  texts = site.texts(fake);
  texts.certificates += site.a.pem();
  TlsPair forged = pair_of(texts, site.texts(site.b));
  pump(forged);
  CHECK(forged.server.state() == TlsState::kFailed);
}

// What a server has per handshake, if its peers stop after so many eighths of their answer.
std::size_t bytes_when_stopped(const TlsContext& context, const Certified& leaf,
                               const std::vector<Certified>& chain, std::size_t eighths) {
  constexpr std::size_t kSessions = 32;
  std::vector<TlsSession> sessions;
  sessions.reserve(kSessions + 1);
  std::size_t before = 0;
  for (std::size_t i = 0; i <= kSessions; ++i) {
    OpensslPeer client(false, [&](SSL_CTX* ctx) {
      SSL_CTX_use_certificate(ctx, leaf.certificate.get());
      SSL_CTX_use_PrivateKey(ctx, leaf.key.get());
      for (const Certified& each : chain) SSL_CTX_add1_chain_cert(ctx, each.certificate.get());
    });
    TlsSession server = std::move(TlsSession::server(context, roles())).value();
    client.feed({});
    server.feed(client.take_outgoing());
    client.feed(server.take_outgoing());
    const ByteList flight = client.take_outgoing();
    server.feed(std::span(flight).first(flight.size() * eighths / 8));
    CHECK(server.state() == TlsState::kHandshaking);
    sessions.push_back(std::move(server));
    // The first fills what all share.
    if (i == 0) before = mallinfo2().uordblks;
  }
  return (mallinfo2().uordblks - before) / kSessions;
}

TEST_CASE("a stranger that stops inside a long chain holds at most 64 KiB") {
  if (lacking() || HOLDFAST_SANITIZED) return;
  const Site site;
  const auto context = std::move(TlsContext::of_certificates(site.texts(site.b))).value();
  std::vector<Certified> chain;
  for (int i = 0; i < 3; ++i) chain.push_back(certify({.name = "c", .ballast = 3500}));
  const Certified leaf = certify({.name = "stranger", .ballast = 3500});
  std::size_t most = 0;
  // The last eighth but one is still of the certificates: they are 15 of 15.4 KB.
  for (std::size_t eighths = 1; eighths < 8; ++eighths) {
    most = std::max(most, bytes_when_stopped(context, leaf, chain, eighths));
  }
  MESSAGE("the most: " << most << " bytes");
  CHECK(most > 1000);
  CHECK(most <= 64 << 10);
}

TEST_CASE("a server alone may have a certificate, and asks its callers for none") {
  if (lacking()) return;
  const Site site;
  const auto served = std::move(TlsContext::of_server({site.b.pem(), site.b.key_pem()})).value();
  const auto client = std::move(TlsContext::of_certificates(site.texts(site.a))).value();
  TlsPair pair{std::move(TlsSession::client(client, roles())).value(),
               std::move(TlsSession::server(served, {})).value()};
  pump(pair);
  REQUIRE_MESSAGE(both_open(pair), pair.client.failure().message()
                                       << " / " << pair.server.failure().message());
  CHECK(pair.client.peer().subject == "CN=b");
  CHECK(pair.server.peer().subject.empty());
  CHECK(pair.client.write(list_of("GET")).is_ok());
  pump(pair);
  CHECK(text_of(pair.server) == "GET");
  // It is for servers: nothing in it says whom to believe.
  CHECK(TlsSession::client(served, {}).status().code() == Code::kConfigError);
  const auto swapped = TlsContext::of_server({site.a.pem(), site.b.key_pem()});
  CHECK(swapped.status().message() == "the key is not the certificate's");
  const auto empty = TlsContext::of_server({"", site.b.key_pem()});
  CHECK(empty.status().message() == "the certificate is no PEM text of certificates");
}

TEST_CASE("texts that cannot be used are told by what they are") {
  if (lacking()) return;
  const Site site;
  const auto refused = [&](const auto& change, const std::string& words) {
    CertificateTexts texts = site.texts(site.a);
    change(texts);
    const auto made = TlsContext::of_certificates(texts);
    CHECK(made.status().code() == Code::kConfigError);
    CHECK_MESSAGE(made.status().message().find(words) != std::string::npos,
                  made.status().message());
    CHECK(made.status().message().find(texts.key.substr(30, 20)) == std::string::npos);
  };
  refused([](CertificateTexts& t) { t.certificates = "no PEM"; }, "the certificate is no PEM");
  refused([](CertificateTexts& t) { t.certificates.resize(100); }, "the certificate is no PEM");
  refused([&](CertificateTexts& t) { t.key = site.b.key_pem(); }, "not the certificate's");
  refused(
      [](CertificateTexts& t) {
        t.key += std::string();
        t.key[40] ^= 1;
      },
      "key");
  refused([](CertificateTexts& t) { t.authorities = ""; }, "the authorities are no PEM");
  refused([](CertificateTexts& t) { t.revocations = "x"; }, "the revocations are no PEM");
  const std::string locked = pem_of([&](BIO* out) {
    PEM_write_bio_PrivateKey(out, site.a.key.get(), EVP_aes_128_cbc(),
                             reinterpret_cast<const unsigned char*>("password"), 8, nullptr,
                             nullptr);
  });
  refused([&](CertificateTexts& t) { t.key = locked; }, "it has a password");
}

}  // namespace
}  // namespace holdfast::secure
#else
TEST_CASE("certificates are made by a build that has OpenSSL") {
  CHECK(holdfast::secure::lacking());
}
#endif

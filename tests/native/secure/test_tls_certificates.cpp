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
  // The coordinator's.
  Certified b = certify({.name = "b",
                         .serial = 12,
                         .kind = "EC",
                         .usage = "serverAuth",
                         .hosts = "DNS:coordinator.example,IP:127.0.0.1"},
                        &authority);

  CertificateTexts texts(const Certified& own, const std::string& revocations = "") const {
    return {own.pem(), own.key_pem(), authority.pem(), revocations};
  }
};

TlsTerms at(UnixTime now = {5000}) {
  TlsTerms terms;
  terms.now = now;
  return terms;
}

TlsTerms calling(const std::string& host = "coordinator.example", UnixTime now = {5000}) {
  TlsTerms terms = at(now);
  terms.hosts = {"192.0.2.1", host};
  return terms;
}

TlsPair pair_of(const CertificateTexts& client, const CertificateTexts& server,
                const std::string& host = "coordinator.example") {
  const auto client_context = std::move(TlsContext::of_certificates(client)).value();
  const auto server_context = std::move(TlsContext::of_certificates(server)).value();
  return {std::move(TlsSession::client(client_context, calling(host))).value(),
          std::move(TlsSession::server(server_context, at())).value()};
}

TEST_CASE("an authority's certificates open a session, and say whose they are") {
  if (lacking()) return;
  const Site site;
  TlsPair pair = pair_of(site.texts(site.a), site.texts(site.b));
  pump(pair);
  REQUIRE_MESSAGE(both_open(pair), pair.client.failure().message()
                                       << " / " << pair.server.failure().message());
  const auto& caller = pair.server.peer().certificate;
  REQUIRE(caller.has_value());
  CHECK(caller->subject == "CN=a");
  CHECK(caller->name() == "the certificate 0B of CN=a");
  CHECK(caller->span() == "from 1970-01-01 00:16:40 UTC until 1970-01-01 02:30:00 UTC");
  CHECK(caller->id == certificate_in(site.a.pem()).value().id);
  CHECK(caller->id != certificate_in(site.b.pem()).value().id);
  CHECK(pair.client.peer().certificate->subject == "CN=b");
  CHECK(pair.client.write(list_of("word")).is_ok());
  pump(pair);
  CHECK(text_of(pair.server) == "word");
}

TEST_CASE("another authority, an early or a late date, and a revoked one are refused") {
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
  const Certified late =
      certify({.name = "a", .not_before = 1000, .not_after = 4999}, &site.authority);
  refused(pair_of(site.texts(late), site.texts(site.b)), "has expired (that of CN=a holds from");
  const Certified early = certify({.name = "a", .not_before = 5001}, &site.authority);
  refused(pair_of(site.texts(early), site.texts(site.b)), "not yet valid (that of CN=a holds from");
  const std::string revoked = revocations_of(site.authority, {11});
  refused(pair_of(site.texts(site.a), site.texts(site.b, revoked)), "revoked (number 0B, of CN=a)");
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

TEST_CASE("a server's certificate is made for servers, and for the host that was called") {
  if (lacking()) return;
  const Site site;
  const auto refusal = [&](const Certified& server, const std::string& host) {
    TlsPair pair = pair_of(site.texts(site.a), site.texts(server), host);
    pump(pair);
    return pair.client.failure().message();
  };
  CHECK(refusal(site.b, "coordinator.example") == "");
  CHECK(refusal(site.b, "127.0.0.1") == "");
  const std::string elsewhere = refusal(site.b, "other.example");
  CAPTURE(elsewhere);
  CHECK(elsewhere.find("is for DNS:coordinator.example, IP Address:127.0.0.1; accepted: ") !=
        std::string::npos);
  CHECK(elsewhere.ends_with("192.0.2.1, other.example"));
  // A name in the subject is no host, and a member's certificate is no coordinator's.
  const Certified named =
      certify({.name = "coordinator.example", .usage = "serverAuth"}, &site.authority);
  CHECK(refusal(named, "coordinator.example").find("is for no host at all") != std::string::npos);
  for (const char* usage : {"", "clientAuth"}) {
    const Certified member =
        certify({.name = "m", .usage = usage, .hosts = "DNS:coordinator.example"}, &site.authority);
    const std::string why = refusal(member, "coordinator.example");
    CAPTURE(why);
    CHECK(why.find("serverAuth") != std::string::npos);
  }
  // A coordinator's is no member's.
  TlsPair pair = pair_of(site.texts(site.b), site.texts(site.b));
  pump(pair);
  CHECK(pair.server.state() == TlsState::kFailed);
  const auto context = std::move(TlsContext::of_certificates(site.texts(site.a))).value();
  CHECK(TlsSession::client(context, at()).status().code() == Code::kConfigError);
  CHECK(check_serves(certificate_in(site.b.pem()).value()).is_ok());
  CHECK(check_serves(certificate_in(site.a.pem()).value()).code() == Code::kConfigError);
  CHECK(check_serves(certificate_in(named.pem()).value()).code() == Code::kConfigError);
}

TEST_CASE("a context looks again at a certificate that was shown before") {
  if (lacking()) return;
  const Site site;
  TlsPair pair = pair_of(site.texts(site.a), site.texts(site.b));
  pump(pair);
  const Certificate shown = pair.server.peer().certificate.value();
  const auto context = [&](const std::vector<long>& serials) {
    const auto lists = revocations_of(site.authority, serials);
    return std::move(TlsContext::of_certificates(site.texts(site.b, lists))).value();
  };
  const auto clean = context({99});
  CHECK(clean.believe(shown, {5000}).is_ok());
  CHECK_FALSE(clean.revokes(shown));
  CHECK(clean.lists()->from == UnixTime{1000});
  CHECK(clean.lists()->until == UnixTime{9000});
  CHECK(clean.believe(shown, {9001}).code() == Code::kAuthFailed);
  const auto revoking = context({11});
  CHECK(revoking.revokes(shown));
  CHECK(revoking.believe(shown, {5000}).message().find("revoked") != std::string::npos);
  const auto without = std::move(TlsContext::of_certificates(site.texts(site.b))).value();
  CHECK_FALSE(without.revokes(shown));
  CHECK_FALSE(without.lists().has_value());
  const auto elsewhere = Site();
  const auto foreign = std::move(TlsContext::of_certificates(elsewhere.texts(site.b))).value();
  CHECK_FALSE(foreign.believe(shown, {5000}).is_ok());
  // A list in the authority's name that somebody else has signed.
  const std::string forged = revocations_of(elsewhere.authority, {11});
  CHECK(TlsContext::of_certificates(site.texts(site.b, forged)).status().message() ==
        "a revocation list is not signed by the authority that it names");
}

// ---- tokens beside certificates

TlsSession server_of_both(const Site& site, const TokenRun& run) {
  const auto context = std::move(TlsContext::of_certificates(site.texts(site.b))).value();
  TlsTerms terms = run.server_terms();
  terms.now = {5000};
  return std::move(TlsSession::server(context, std::move(terms))).value();
}

TEST_CASE("a server with certificates takes tokens beside them, and nobody without either") {
  if (lacking()) return;
  const Site site;
  const TokenRun run;
  const Token token = run.token();
  TlsPair by_token{run.client(token), server_of_both(site, run)};
  pump(by_token);
  REQUIRE_MESSAGE(both_open(by_token), by_token.server.failure().message());
  CHECK(by_token.server.peer().claims == encode_claims(token.claims));
  CHECK_FALSE(by_token.server.peer().certificate.has_value());

  const auto context = std::move(TlsContext::of_certificates(site.texts(site.a))).value();
  TlsPair by_certificate{std::move(TlsSession::client(context, calling())).value(),
                         server_of_both(site, run)};
  pump(by_certificate);
  REQUIRE_MESSAGE(both_open(by_certificate), by_certificate.server.failure().message());
  CHECK(by_certificate.server.peer().certificate->subject == "CN=a");
  CHECK(by_certificate.server.peer().claims.empty());

  OpensslPeer nobody(false, [](SSL_CTX*) {});
  TlsSession server = server_of_both(site, run);
  nobody.talk_to(server);
  CHECK(server.state() == TlsState::kFailed);
  // A token of another secret is none.
  TokenRun other;
  other.ring = std::make_shared<const KeyRing>(ring_of(2));
  TlsPair strange{other.client(other.token()), server_of_both(site, run)};
  pump(strange);
  CHECK(strange.server.state() == TlsState::kFailed);
  CHECK(strange.client.state() == TlsState::kFailed);
}

// The claims of somebody else's token, and no key of them.
ByteList g_claims;

int offer_for_another_hash(SSL* ssl, const EVP_MD*, const unsigned char** identity,
                           std::size_t* size, SSL_SESSION** session) {
  constexpr unsigned char kAes256GcmSha384[] = {0x13, 0x02};
  *session = SSL_SESSION_new();
  const std::vector<unsigned char> key(48, 1);
  SSL_SESSION_set1_master_key(*session, key.data(), key.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kAes256GcmSha384));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *identity = reinterpret_cast<const unsigned char*>(g_claims.data());
  *size = g_claims.size();
  return 1;
}

TEST_CASE("who has a certificate cannot claim another one's token beside it") {
  if (lacking()) return;
  const Site site;
  const TokenRun run;
  g_claims = encode_claims(run.token().claims);
  TlsSession server = server_of_both(site, run);
  OpensslPeer client(false, [&](SSL_CTX* context) {
    SSL_CTX_use_certificate(context, site.a.certificate.get());
    SSL_CTX_use_PrivateKey(context, site.a.key.get());
    SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384");
    SSL_CTX_set_psk_use_session_callback(context, offer_for_another_hash);
  });
  client.talk_to(server);
  REQUIRE_MESSAGE(server.state() == TlsState::kOpen, server.failure().message());
  CHECK(server.peer().claims.empty());
  CHECK(server.peer().certificate->subject == "CN=a");
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
    TlsSession server = std::move(TlsSession::server(context, at())).value();
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
  TlsPair pair{std::move(TlsSession::client(client, calling())).value(),
               std::move(TlsSession::server(served, {})).value()};
  pump(pair);
  REQUIRE_MESSAGE(both_open(pair), pair.client.failure().message()
                                       << " / " << pair.server.failure().message());
  CHECK(pair.client.peer().certificate->subject == "CN=b");
  CHECK_FALSE(pair.server.peer().certificate.has_value());
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

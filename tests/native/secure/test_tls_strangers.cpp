// Peers that are not ours, made of OpenSSL alone: older TLS, keys without Diffie-Hellman, ciphers
// that hide nothing, nobody's certificates. And that one who keeps to the rules gets in.
#include <doctest/doctest.h>

#include "lacking.h"

#ifdef HOLDFAST_OPENSSL
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "openssl_peer.h"
#include "secure/tls_session.h"
#include "tls_pairs.h"

namespace holdfast::secure {
namespace {

// OpenSSL's callbacks ask it what to offer.
struct Offer {
  ByteList claims;
  Secret key;
};

int offer(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* size, SSL_SESSION** key) {
  const auto* offered = static_cast<const Offer*>(SSL_get_app_data(ssl));
  const unsigned char suite[] = {0x13, 0x01};
  *key = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(
      *key, reinterpret_cast<const unsigned char*>(offered->key.bytes().data()), kSecretBytes);
  SSL_SESSION_set_cipher(*key, SSL_CIPHER_find(ssl, suite));
  SSL_SESSION_set_protocol_version(*key, TLS1_3_VERSION);
  *id = reinterpret_cast<const unsigned char*>(offered->claims.data());
  *size = offered->claims.size();
  return 1;
}

Offer offer_of(const Token& token) { return {encode_claims(token.claims), token.key.copy()}; }

TEST_CASE("a stranger that has a token and keeps to the rules gets in") {
  if (lacking()) return;
  const TokenRun run;
  Offer offered = offer_of(run.token());
  OpensslPeer client(false, [](SSL_CTX* ctx) { SSL_CTX_set_psk_use_session_callback(ctx, offer); });
  SSL_set_app_data(client.ssl(), &offered);
  TlsSession server = run.server();
  client.talk_to(server);
  CHECK(client.is_open());
  CHECK_MESSAGE(server.state() == TlsState::kOpen, server.failure().message());
}

TEST_CASE("a key without Diffie-Hellman is refused") {
  if (lacking()) return;
  const TokenRun run;
  Offer offered = offer_of(run.token());
  OpensslPeer client(false, [](SSL_CTX* ctx) {
    SSL_CTX_set_psk_use_session_callback(ctx, offer);
    SSL_CTX_set_options(ctx, SSL_OP_ALLOW_NO_DHE_KEX);
  });
  SSL_set_app_data(client.ssl(), &offered);
  // It still offers Diffie-Hellman as well; what it may send without is taken out of its hello: the
  // list of modes {psk_ke, psk_dhe_ke} becomes one of psk_ke alone, twice.
  client.feed({});
  ByteList hello = client.take_outgoing();
  const ByteList modes = list_of(std::string("\x00\x2d\x00\x03\x02\x01\x00", 7));
  auto at = std::search(hello.begin(), hello.end(), modes.begin(), modes.end());
  REQUIRE(at != hello.end());
  at[5] = std::byte{0};
  TlsSession server = run.server();
  server.feed(hello);
  CHECK(server.state() == TlsState::kFailed);
  CHECK(server.failure().message().find("another key") == std::string::npos);
}

TEST_CASE("TLS 1.2 and older are refused by both sides") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  const auto old = [](SSL_CTX* ctx) {
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(ctx, "ALL:eNULL:aNULL:PSK");
  };
  OpensslPeer client(false, old);
  TlsSession server = run.server();
  client.talk_to(server);
  CHECK(server.state() == TlsState::kFailed);
  CHECK(!client.is_open());
  const Certified anybody = certify({.name = "anybody", .kind = "EC"});
  OpensslPeer old_server(true, [&](SSL_CTX* ctx) {
    old(ctx);
    SSL_CTX_use_certificate(ctx, anybody.certificate.get());
    SSL_CTX_use_PrivateKey(ctx, anybody.key.get());
  });
  TlsSession by_token = run.client(run.token());
  old_server.talk_to(by_token);
  CHECK(by_token.state() == TlsState::kFailed);
}

TEST_CASE("ciphers that hide nothing are refused, with a key and without") {
  if (lacking()) return;
  const TokenRun run;
  for (const char* ciphers : {"eNULL", "PSK-NULL-SHA256", "ECDHE-PSK-NULL-SHA256", "aNULL"}) {
    OpensslPeer client(false, [&](SSL_CTX* ctx) {
      SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
      SSL_CTX_set_cipher_list(ctx, ciphers);
      SSL_CTX_set_psk_client_callback(
          ctx, [](SSL*, const char*, char* id, unsigned, unsigned char* key, unsigned) -> unsigned {
            id[0] = 'x';
            id[1] = 0;
            key[0] = 1;
            return 1;
          });
    });
    TlsSession server = run.server();
    client.talk_to(server);
    CHECK(server.state() == TlsState::kFailed);
    CHECK(!client.is_open());
  }
}

TEST_CASE("a server that ignores the token and shows a certificate is refused") {
  if (lacking()) return;
  const TokenRun run;
  const Certified anybody = certify({.name = "anybody"});
  OpensslPeer server(true, [&](SSL_CTX* ctx) {
    SSL_CTX_use_certificate(ctx, anybody.certificate.get());
    SSL_CTX_use_PrivateKey(ctx, anybody.key.get());
  });
  TlsSession client = run.client(run.token());
  server.talk_to(client);
  CHECK(client.state() == TlsState::kFailed);
  CHECK_MESSAGE(client.failure().message() == "the other side did not use the token's key",
                client.failure().message());
  CHECK(!server.is_open());
}

TEST_CASE("a client without a certificate, or with another kind of key, is no member") {
  if (lacking()) return;
  const Acquaintances two;
  const auto server = [&] {
    return std::move(TlsSession::server(two.b_context, expecting(two.a.fingerprint()))).value();
  };
  OpensslPeer nobody(false, [](SSL_CTX*) {});
  TlsSession first = server();
  nobody.talk_to(first);
  CHECK(first.state() == TlsState::kFailed);
  const Certified other = certify({.name = "holdfast", .kind = "EC"});
  OpensslPeer stranger(false, [&](SSL_CTX* ctx) {
    SSL_CTX_use_certificate(ctx, other.certificate.get());
    SSL_CTX_use_PrivateKey(ctx, other.key.get());
  });
  TlsSession second = server();
  stranger.talk_to(second);
  CHECK(second.state() == TlsState::kFailed);
}

PublicKey public_key(EVP_PKEY* of) {
  PublicKey key{};
  std::size_t size = key.size();
  EVP_PKEY_get_raw_public_key(of, reinterpret_cast<unsigned char*>(key.data()), &size);
  return key;
}

// One key's public half, and another's private one: what a thief of a certificate has.
PeersOwn<EVP_PKEY> stolen(EVP_PKEY* shown, EVP_PKEY* had) {
  PublicKey shown_half = public_key(shown);
  std::array<unsigned char, 32> had_half{};
  std::size_t size = had_half.size();
  EVP_PKEY_get_raw_private_key(had, had_half.data(), &size);
  const OSSL_PARAM halves[] = {OSSL_PARAM_construct_octet_string("pub", shown_half.data(), 32),
                               OSSL_PARAM_construct_octet_string("priv", had_half.data(), 32),
                               OSSL_PARAM_construct_end()};
  EVP_PKEY_CTX* work = EVP_PKEY_CTX_new_from_name(nullptr, "ED25519", nullptr);
  EVP_PKEY* made = nullptr;
  EVP_PKEY_fromdata_init(work);
  EVP_PKEY_fromdata(work, &made, EVP_PKEY_KEYPAIR, const_cast<OSSL_PARAM*>(halves));
  EVP_PKEY_CTX_free(work);
  return PeersOwn<EVP_PKEY>(made);
}

TEST_CASE("a card's certificate without its key proves nothing") {
  if (lacking()) return;
  const Acquaintances two;
  const Certified real = certify({.name = "holdfast"});
  const Certified thief = certify({.name = "holdfast"});
  const auto stolen_key = stolen(real.key.get(), thief.key.get());
  const Fingerprint card = fingerprint_of(public_key(real.key.get())).value();
  const auto admits = [&](EVP_PKEY* key) {
    TlsSession server = std::move(TlsSession::server(two.b_context, expecting(card))).value();
    OpensslPeer client(false, [&](SSL_CTX* ctx) {
      REQUIRE(SSL_CTX_use_certificate(ctx, real.certificate.get()) == 1);
      REQUIRE(SSL_CTX_use_PrivateKey(ctx, key) == 1);
    });
    client.talk_to(server);
    return server.state() == TlsState::kOpen;
  };
  CHECK(admits(real.key.get()));
  CHECK(!admits(stolen_key.get()));
}

TEST_CASE("a fingerprint is the SHA-256 of what OpenSSL writes as the key's info") {
  if (lacking()) return;
  const Certified made = certify({.name = "x"});
  unsigned char* info = nullptr;
  const int size = i2d_PUBKEY(made.key.get(), &info);
  unsigned char digest[32];
  EVP_Digest(info, static_cast<std::size_t>(size), digest, nullptr, EVP_sha256(), nullptr);
  OPENSSL_free(info);
  CHECK(same_bytes(fingerprint_of(public_key(made.key.get())).value().bytes,
                   std::as_bytes(std::span(digest))));
}

TEST_CASE("a server sends no tickets, and takes no early data") {
  if (lacking()) return;
  const TokenRun run;
  Offer offered = offer_of(run.token());
  int tickets = 0;
  OpensslPeer client(false, [&](SSL_CTX* ctx) {
    SSL_CTX_set_psk_use_session_callback(ctx, offer);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_set_app_data(ctx, &tickets);
    SSL_CTX_sess_set_new_cb(ctx, [](SSL* ssl, SSL_SESSION*) {
      ++*static_cast<int*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
      return 0;
    });
  });
  SSL_set_app_data(client.ssl(), &offered);
  TlsSession server = run.server();
  client.talk_to(server);
  CHECK(server.state() == TlsState::kOpen);
  CHECK(tickets == 0);
  CHECK(SSL_get_early_data_status(client.ssl()) != SSL_EARLY_DATA_ACCEPTED);
}

}  // namespace
}  // namespace holdfast::secure
#else
TEST_CASE("peers of OpenSSL are met by a build that has it") { CHECK(holdfast::secure::lacking()); }
#endif

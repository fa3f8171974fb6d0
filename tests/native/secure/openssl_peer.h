// A peer that is OpenSSL alone, with whatever settings a test gives it, and certificates that a
// test makes. Only tests that link a copy of OpenSSL of their own include it.
#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "secure/tls_session.h"

namespace holdfast::secure {

struct FreeOfPeer {
  void operator()(SSL* object) const { SSL_free(object); }
  void operator()(SSL_CTX* object) const { SSL_CTX_free(object); }
  void operator()(EVP_PKEY* object) const { EVP_PKEY_free(object); }
  void operator()(X509* object) const { X509_free(object); }
  void operator()(X509_CRL* object) const { X509_CRL_free(object); }
  void operator()(BIO* object) const { BIO_free(object); }
};
template <class T>
using PeersOwn = std::unique_ptr<T, FreeOfPeer>;

// A raw client or server over memory.
class OpensslPeer {
 public:
  OpensslPeer(bool is_server, const std::function<void(SSL_CTX*)>& settings)
      : context_(SSL_CTX_new(TLS_method())) {
    SSL_CTX_set_security_level(context_.get(), 0);
    settings(context_.get());
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_msg_callback(ssl_.get(), note_alert);
    SSL_set_msg_callback_arg(ssl_.get(), this);
    is_server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }

  OpensslPeer(const OpensslPeer&) = delete;
  OpensslPeer& operator=(const OpensslPeer&) = delete;

  bool is_open() const { return SSL_is_init_finished(ssl_.get()) == 1; }
  SSL* ssl() { return ssl_.get(); }

  void feed(const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    std::array<char, 4096> heard;
    int size = 0;
    while (SSL_do_handshake(ssl_.get()) == 1 &&
           (size = SSL_read(ssl_.get(), heard.data(), heard.size())) > 0) {
      heard_.append(heard.data(), static_cast<std::size_t>(size));
    }
    ERR_clear_error();
  }
  // What was said to it.
  std::string take_heard() { return std::exchange(heard_, {}); }
  // The last alert, by its name in OpenSSL; "" for none.
  const std::string& alert() const { return alert_; }
  bool was_farewelled() const {
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  void say(const std::string& text) {
    SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
  }
  void say_farewell() { SSL_shutdown(ssl_.get()); }
  // `asks`: for the other side's next key as well.
  void change_key(bool asks) {
    SSL_key_update(ssl_.get(), asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(ssl_.get());
  }
  std::vector<std::byte> take_outgoing() {
    std::vector<std::byte> bytes(BIO_ctrl_pending(out_));
    if (!bytes.empty()) BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  // Until neither has anything to say.
  void talk_to(TlsSession& other) {
    feed({});
    for (int round = 0; round < 10; ++round) {
      other.feed(take_outgoing());
      feed(other.take_outgoing());
    }
  }

 private:
  static void note_alert(int written, int, int kind, const void* bytes, std::size_t size, SSL*,
                         void* peer) {
    if (written != 0 || kind != SSL3_RT_ALERT || size != 2) return;
    const int what = static_cast<const unsigned char*>(bytes)[1];
    static_cast<OpensslPeer*>(peer)->alert_ = SSL_alert_desc_string_long(what);
  }

  PeersOwn<SSL_CTX> context_;
  PeersOwn<SSL> ssl_;
  std::string heard_;
  std::string alert_;
  BIO* in_ = nullptr;  // both are ssl_'s
  BIO* out_ = nullptr;
};

template <class Write>
std::string pem_of(const Write& write) {
  const PeersOwn<BIO> out(BIO_new(BIO_s_mem()));
  write(out.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

// A certificate with its key, signed by `issuer`, or by itself.
struct Certified {
  PeersOwn<EVP_PKEY> key;
  PeersOwn<X509> certificate;

  std::string key_pem() const {
    return pem_of([&](BIO* out) {
      PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  std::string pem() const {
    return pem_of([&](BIO* out) { PEM_write_bio_X509(out, certificate.get()); });
  }
};

struct CertificateWish {
  std::string name;
  long serial = 1;
  bool is_authority = false;
  std::int64_t not_before = 1000;
  std::int64_t not_after = 9000;
  std::string kind = "ED25519";  // or "EC"
  std::size_t ballast = 0;       // bytes of a comment
  std::string usage{};           // extendedKeyUsage; "": it is not in it
  std::string hosts{};           // subjectAltName
};

inline Certified certify(const CertificateWish& wish, const Certified* issuer = nullptr) {
  Certified made;
  made.key.reset(wish.kind == "EC" ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")
                                   : EVP_PKEY_Q_keygen(nullptr, nullptr, wish.kind.c_str()));
  made.certificate.reset(X509_new());
  X509* x = made.certificate.get();
  X509_set_version(x, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), wish.serial);
  ASN1_TIME_set(X509_getm_notBefore(x), wish.not_before);
  ASN1_TIME_set(X509_getm_notAfter(x), wish.not_after);
  const auto* name = reinterpret_cast<const unsigned char*>(wish.name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, name, -1, -1, 0);
  X509* signer = issuer != nullptr ? issuer->certificate.get() : x;
  X509_set_issuer_name(x, X509_get_subject_name(signer));
  X509_set_pubkey(x, made.key.get());
  const auto extend = [x](int what, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  };
  if (wish.is_authority) extend(NID_basic_constraints, "critical,CA:TRUE");
  if (!wish.usage.empty()) extend(NID_ext_key_usage, wish.usage);
  if (!wish.hosts.empty()) extend(NID_subject_alt_name, wish.hosts);
  if (wish.ballast > 0) extend(NID_netscape_comment, std::string(wish.ballast, 'x'));
  EVP_PKEY* key = issuer != nullptr ? issuer->key.get() : made.key.get();
  X509_sign(x, key, EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256());
  return made;
}

// A list of `issuer` that revokes these serials, and holds between these times.
inline std::string revocations_of(const Certified& issuer, const std::vector<long>& serials,
                                  std::int64_t from = 1000, std::int64_t until = 9000) {
  const PeersOwn<X509_CRL> list(X509_CRL_new());
  X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer.certificate.get()));
  ASN1_TIME* time = ASN1_TIME_set(nullptr, from);
  X509_CRL_set1_lastUpdate(list.get(), time);
  ASN1_TIME_set(time, until);
  X509_CRL_set1_nextUpdate(list.get(), time);
  ASN1_TIME_set(time, from);
  for (const long serial : serials) {
    X509_REVOKED* entry = X509_REVOKED_new();
    ASN1_INTEGER* number = ASN1_INTEGER_new();
    ASN1_INTEGER_set(number, serial);
    X509_REVOKED_set_serialNumber(entry, number);
    X509_REVOKED_set_revocationDate(entry, time);
    X509_CRL_add0_revoked(list.get(), entry);
    ASN1_INTEGER_free(number);
  }
  ASN1_TIME_free(time);
  X509_CRL_sort(list.get());
  X509_CRL_sign(list.get(), issuer.key.get(), nullptr);
  return pem_of([&](BIO* out) { PEM_write_bio_X509_CRL(out, list.get()); });
}

}  // namespace holdfast::secure

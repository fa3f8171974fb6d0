#include "secure/openssl.h"

#ifdef HOLDFAST_OPENSSL
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace holdfast::secure {

bool available() { return true; }

void OpensslFree::operator()(bio_method_st* object) const { BIO_meth_free(object); }
void OpensslFree::operator()(bio_st* object) const { BIO_free(object); }
void OpensslFree::operator()(evp_cipher_ctx_st* object) const { EVP_CIPHER_CTX_free(object); }
void OpensslFree::operator()(evp_kdf_st* object) const { EVP_KDF_free(object); }
void OpensslFree::operator()(evp_kdf_ctx_st* object) const { EVP_KDF_CTX_free(object); }
void OpensslFree::operator()(evp_md_ctx_st* object) const { EVP_MD_CTX_free(object); }
void OpensslFree::operator()(evp_pkey_st* object) const { EVP_PKEY_free(object); }
void OpensslFree::operator()(ssl_ctx_st* object) const { SSL_CTX_free(object); }
void OpensslFree::operator()(ssl_session_st* object) const { SSL_SESSION_free(object); }
void OpensslFree::operator()(ssl_st* object) const { SSL_free(object); }
void OpensslFree::operator()(X509_crl_st* object) const { X509_CRL_free(object); }
void OpensslFree::operator()(x509_st* object) const { X509_free(object); }
void OpensslFree::operator()(x509_store_ctx_st* object) const { X509_STORE_CTX_free(object); }

void prepare_openssl() {
#ifdef HOLDFAST_OPENSSL_IS_OURS
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
#endif
}

std::string openssl_reason() {
  std::string reason;
  // The last of a row of errors is the outermost; the first is where it began.
  if (const unsigned long code = ERR_peek_error(); code != 0) {
    const char* text = ERR_reason_error_string(code);
    reason = text != nullptr ? text : "error " + std::to_string(code);
  }
  ERR_clear_error();
  return reason;
}

}  // namespace holdfast::secure

#else

namespace holdfast::secure {
bool available() { return false; }
}  // namespace holdfast::secure

#endif

namespace holdfast::secure {

Status lacks_openssl() {
  return {Code::kUnsupported,
          "this build of Holdfast was made without OpenSSL 3: it has no tokens, keys or TLS"};
}

}  // namespace holdfast::secure

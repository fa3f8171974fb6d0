// OpenSSL, as far as headers of this folder may know it: whether this build has it, and owners of
// its objects by their tags. Its own headers are read in .cpp files alone.
// Why: docs/decisions/0153-a-token-is-a-derived-key.md
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

struct bio_method_st;
struct bio_st;
struct evp_cipher_st;
struct evp_cipher_ctx_st;
struct evp_kdf_st;
struct evp_kdf_ctx_st;
struct evp_md_ctx_st;
struct evp_pkey_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;
struct X509_crl_st;
struct x509_st;
struct x509_store_ctx_st;

namespace holdfast::secure {

// Whether this build has OpenSSL. Without it, what needs it fails with `lacks_openssl`. Any thread.
bool available();
Status lacks_openssl();

struct OpensslFree {
  void operator()(bio_method_st* object) const;
  void operator()(bio_st* object) const;
  void operator()(evp_cipher_ctx_st* object) const;
  void operator()(evp_kdf_st* object) const;
  void operator()(evp_kdf_ctx_st* object) const;
  void operator()(evp_md_ctx_st* object) const;
  void operator()(evp_pkey_st* object) const;
  void operator()(ssl_ctx_st* object) const;
  void operator()(ssl_session_st* object) const;
  void operator()(ssl_st* object) const;
  void operator()(X509_crl_st* object) const;
  void operator()(x509_st* object) const;
  void operator()(x509_store_ctx_st* object) const;
};

template <class T>
using Owned = std::unique_ptr<T, OpensslFree>;

// Sets OpenSSL up for this process, when first called: no configuration file, and nothing runs at
// exit, if the copy is ours alone. Any thread.
void prepare_openssl();

// What OpenSSL says of this thread's latest failure, and forgets it then; "" when nothing.
std::string openssl_reason();

}  // namespace holdfast::secure

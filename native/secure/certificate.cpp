#include "secure/certificate.h"

#include <algorithm>
#include <array>
#include <ctime>

#ifdef HOLDFAST_OPENSSL
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "secure/digest.h"
#include "secure/hex.h"
#endif

namespace holdfast::secure {

std::string date_text(UnixTime time) {
  const auto seconds = static_cast<std::time_t>(time.value);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "an unknown date";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string Certificate::span() const {
  return "from " + date_text(not_before) + " until " + date_text(not_after);
}

#ifdef HOLDFAST_OPENSSL
namespace {

std::string text_in(BIO* out) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string subject_of(X509* certificate) {
  const Owned<BIO> text(BIO_new(BIO_s_mem()));
  if (text == nullptr ||
      X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) < 0) {
    return "";
  }
  return text_in(text.get());
}

std::string number_of(X509* certificate) {
  const Owned<BIO> text(BIO_new(BIO_s_mem()));
  if (text == nullptr || i2a_ASN1_INTEGER(text.get(), X509_get0_serialNumber(certificate)) < 0) {
    return "";
  }
  return text_in(text.get());
}

// What ASN.1 cannot say as a date is the earliest one.
UnixTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return {static_cast<std::int64_t>(::timegm(&parts))};
}

std::vector<std::byte> encoded(unsigned char* bytes, int size) {
  const auto* from = reinterpret_cast<const std::byte*>(bytes);
  std::vector<std::byte> copy;
  if (size > 0) copy.assign(from, from + size);
  OPENSSL_free(bytes);
  return copy;
}

Result<Serial> id_of(X509* certificate) {
  unsigned char* issuer = nullptr;
  const int issuer_size = i2d_X509_NAME(X509_get_issuer_name(certificate), &issuer);
  unsigned char* number = nullptr;
  const int number_size = i2d_ASN1_INTEGER(X509_get0_serialNumber(certificate), &number);
  auto both = encoded(issuer, issuer_size);
  const auto last = encoded(number, number_size);
  both.insert(both.end(), last.begin(), last.end());
  const auto digest = sha256(both);
  if (!digest.is_ok()) return digest.status();
  Serial id;
  std::copy_n(digest.value().begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

// "DNS:coordinator.example, IP Address:192.0.2.7"; "" where it names no host.
std::string hosts_of(X509* certificate) {
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  const Owned<BIO> text(BIO_new(BIO_s_mem()));
  if (at < 0 || text == nullptr ||
      X509V3_EXT_print(text.get(), X509_get_ext(certificate, at), 0, 0) != 1) {
    return "";
  }
  return text_in(text.get());
}

bool is_for_host(X509* leaf, const std::string& host) {
  constexpr unsigned kFlags =
      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
  // An address is no name, though a certificate may have it as one.
  constexpr int kNoAddress = -2;
  const int by_address = X509_check_ip_asc(leaf, host.c_str(), 0);
  if (by_address != kNoAddress) return by_address == 1;
  return X509_check_host(leaf, host.c_str(), host.size(), kFlags, nullptr) == 1;
}

bool is_for_servers(X509* leaf) {
  return (X509_get_extension_flags(leaf) & EXFLAG_XKUSAGE) != 0 &&
         (X509_get_extended_key_usage(leaf) & XKU_SSL_SERVER) != 0;
}

// What people call whoever a certificate names; strangers make long names.
std::string brief(const std::string& name) {
  constexpr std::size_t kMost = 128;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
}

std::string dates_of(X509* certificate, UnixTime now) {
  return " (that of " + brief(subject_of(certificate)) + " holds from " +
         date_text(time_of(X509_get0_notBefore(certificate))) + " until " +
         date_text(time_of(X509_get0_notAfter(certificate))) + ", and this host's clock says " +
         date_text(now) + ": renew it, or set the clock)";
}

}  // namespace

std::string refusal_text(X509_STORE_CTX* chain, UnixTime now) {
  const int error = X509_STORE_CTX_get_error(chain);
  X509* at = X509_STORE_CTX_get_current_cert(chain);
  std::string text = X509_verify_cert_error_string(error);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: return at == nullptr ? text : text + dates_of(at, now);
    case X509_V_ERR_CERT_REVOKED:
      return at == nullptr
                 ? text
                 : text + " (number " + number_of(at) + ", of " + brief(subject_of(at)) + ")";
    case X509_V_ERR_UNABLE_TO_GET_CRL:
      return text + " (option tls_crl: there is no list of its authority)";
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE: return text + " (option tls_crl)";
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return text + " (no authority in the option tls_ca has signed it)";
    case X509_V_ERR_INVALID_PURPOSE:
      return text + " (extendedKeyUsage: a coordinator's has serverAuth, a member's clientAuth)";
    default: return text;
  }
}

Result<Certificate> certificate_of(X509* leaf, const std::vector<X509*>& between) {
  Certificate made;
  made.subject = subject_of(leaf);
  if (made.subject.empty() || made.subject.size() > kMaxSubjectBytes) {
    return Status{Code::kConfigError,
                  made.subject.empty()
                      ? "the certificate has no subject; accepted: one that names its holder"
                      : "the certificate has a subject of " + std::to_string(made.subject.size()) +
                            " bytes; accepted: up to " + std::to_string(kMaxSubjectBytes)};
  }
  made.number = number_of(leaf);
  const auto id = id_of(leaf);
  if (!id.is_ok()) return id.status();
  made.id = id.value();
  made.not_before = time_of(X509_get0_notBefore(leaf));
  made.not_after = time_of(X509_get0_notAfter(leaf));
  auto chain = std::make_shared<CertificateChain>();
  X509_up_ref(leaf);
  chain->leaf.reset(leaf);
  for (X509* each : between) {
    X509_up_ref(each);
    chain->between.emplace_back(each);
  }
  made.chain = std::move(chain);
  return made;
}

Result<Certificate> certificate_in(const std::string& pem) {
  const Owned<BIO> in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Owned<X509> leaf(in == nullptr ? nullptr
                                       : PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
  if (leaf == nullptr) {
    openssl_reason();
    return Status{Code::kConfigError, "the certificate is no PEM text of certificates"};
  }
  return certificate_of(leaf.get(), {});
}

Status check_is_server(X509* leaf, const std::vector<std::string>& hosts) {
  const std::string named = hosts_of(leaf);
  if (!is_for_servers(leaf)) {
    return {Code::kAuthFailed, "its certificate is of " + subject_of(leaf) +
                                   " and no coordinator's: that one has serverAuth in its "
                                   "extendedKeyUsage"};
  }
  if (std::ranges::any_of(hosts, [&](const auto& host) { return is_for_host(leaf, host); })) {
    return Status::ok();
  }
  std::string wanted;
  for (const std::string& host : hosts) wanted += (wanted.empty() ? "" : ", ") + host;
  return {Code::kAuthFailed, "its certificate is for " +
                                 (named.empty() ? "no host at all" : named) +
                                 "; accepted: one with the host of the coordinator's address in "
                                 "its subjectAltName: " +
                                 wanted};
}

Status check_serves(const Certificate& own) {
  X509* leaf = own.chain->leaf.get();
  if (is_for_servers(leaf) && !hosts_of(leaf).empty()) return Status::ok();
  return {Code::kConfigError,
          own.name() + (is_for_servers(leaf) ? " names no host" : " is not made for servers") +
              "; accepted: a coordinator's certificate, with extendedKeyUsage=serverAuth, and with "
              "the hosts of its address in subjectAltName, such as DNS:HOST or IP:ADDRESS"};
}

#endif

}  // namespace holdfast::secure

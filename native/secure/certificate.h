// Certificates of an authority, as others than TLS look at them: whose one is, what names it, and
// until when it holds. Whether to believe it, TLS and its context say.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "secure/openssl.h"
#include "secure/token.h"

namespace holdfast::secure {

// Longer subjects are refused: they stand in errors, logs and files of roles.
inline constexpr std::size_t kMaxSubjectBytes = 512;

// A certificate, and those that its holder has shown between it and an authority.
struct CertificateChain {
  Owned<x509_st> leaf;
  std::vector<Owned<x509_st>> between;
};

struct Certificate {
  std::string subject;  // RFC 2253, as `openssl x509 -nameopt RFC2253` prints it
  std::string number;   // its serial number, in hexadecimal digits, as openssl prints it
  Serial id;            // of 128 bits of a digest of issuer and serial number
  UnixTime not_before;
  UnixTime not_after;
  // It never changes. Owners: all copies of this.
  std::shared_ptr<const CertificateChain> chain;

  // "the certificate 0A of CN=alice"
  std::string name() const { return "the certificate " + number + " of " + subject; }
  // "from 2026-01-01 00:00:00 UTC until 2027-01-01 00:00:00 UTC"
  std::string span() const;
};

// "2026-11-27 15:04:05 UTC". Any thread, as all functions here.
std::string date_text(UnixTime time);

// kConfigError for one that names nobody, or at too great length. Copies no certificate: the chain
// counts references of OpenSSL's.
Result<Certificate> certificate_of(x509_st* leaf, const std::vector<x509_st*>& between);
// Of the first certificate of a PEM text.
Result<Certificate> certificate_in(const std::string& pem);

// Why a chain was refused that OpenSSL has just looked at.
std::string refusal_text(x509_store_ctx_st* chain, UnixTime now);

// As a coordinator's or any server's: it must be made for servers, and for one of the hosts (names,
// or numeric addresses). kAuthFailed, with what it is for.
Status check_is_server(x509_st* leaf, const std::vector<std::string>& hosts);
// The same of one's own, before anybody is let down by it: kConfigError.
Status check_serves(const Certificate& own);

}  // namespace holdfast::secure

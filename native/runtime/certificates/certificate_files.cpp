#include "runtime/certificates/certificate_files.h"

#include <sys/stat.h>

#include <span>

#include "base/small_file.h"
#include "runtime/rendezvous/sealer.h"
#include "secure/secret.h"

namespace holdfast::runtime {
namespace {

using secure::Certificate;
using secure::CertificateTexts;
using secure::TlsContext;

// A chain of certificates, and a key of RSA, have a few kilobytes each; a bundle of authorities has
// some hundred.
constexpr std::size_t kMostOwnPemBytes = 64 * 1024;
constexpr std::size_t kMostAuthorityBytes = std::size_t{1} << 20;
// An entry of a list has about 40 bytes.
constexpr std::size_t kMostListBytes = std::size_t{16} << 20;
constexpr std::size_t kMostRoleBytes = std::size_t{16} << 20;

Status keep_text(Result<std::string> from, std::string& into) {
  if (!from.is_ok()) return from.status();
  into = std::move(from).value();
  return Status::ok();
}

Status check_complete(const Options& options) {
  if (!secure::available()) {
    return {Code::kUnsupported,
            "options tls_cert, tls_key and tls_ca: " + secure::lacks_openssl().message()};
  }
  std::string set;
  std::string missing;
  for (const auto& [name, value] : {std::pair{"tls_cert", &options.tls_cert},
                                    {"tls_key", &options.tls_key},
                                    {"tls_ca", &options.tls_ca}}) {
    std::string& list = value->empty() ? missing : set;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return Status::ok();
  if (set.empty()) set = options.tls_crl.empty() ? "tls_roles" : "tls_crl";
  return {Code::kConfigError,
          "option " + set + " is set without " + missing +
              "; accepted: tls_cert, tls_key and tls_ca together, the PEM files of a certificate, "
              "of its key, and of the authorities that are believed; or none of the options tls_*"};
}

Result<CertificateTexts> read_texts(const Options& options) {
  CertificateTexts texts;
  TRY(keep_text(read_small_file({"tls_cert", options.tls_cert, kMostOwnPemBytes}),
                texts.certificates));
  TRY(keep_text(read_small_file({"tls_ca", options.tls_ca, kMostAuthorityBytes}),
                texts.authorities));
  if (!options.tls_crl.empty()) {
    TRY(keep_text(read_small_file({"tls_crl", options.tls_crl, kMostListBytes}),
                  texts.revocations));
    if (texts.revocations.empty()) {
      return Status{Code::kConfigError,
                    "tls_crl " + options.tls_crl +
                        ": the file is empty; accepted: the lists of the authorities in PEM, as "
                        "`openssl ca -gencrl` writes them, or no option tls_crl"};
    }
  }
  TRY(keep_text(read_private_file({"tls_key", options.tls_key, kMostOwnPemBytes},
                                  {"accepted: a PEM file of mode 0600", "key"}),
                texts.key));
  return texts;
}

}  // namespace

bool has_certificate_options(const Options& options) {
  return !options.tls_cert.empty() || !options.tls_key.empty() || !options.tls_ca.empty() ||
         !options.tls_crl.empty();
}

std::vector<FileStamp> certificate_stamps(const Options& options) {
  std::vector<FileStamp> stamps;
  for (const std::string* path : {&options.tls_cert, &options.tls_key, &options.tls_ca,
                                  &options.tls_crl, &options.tls_roles}) {
    FileStamp& stamp = stamps.emplace_back();
    struct stat about {};
    if (path->empty() || ::stat(path->c_str(), &about) != 0) continue;
    stamp = {about.st_dev,         about.st_ino,          about.st_size,
             about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ctim.tv_sec,
             about.st_ctim.tv_nsec};
  }
  return stamps;
}

Result<OwnCertificate> read_own_files(const Options& options) {
  TRY(check_complete(options));
  auto texts = read_texts(options);
  if (!texts.is_ok()) return texts.status();
  auto own = secure::certificate_in(texts.value().certificates);
  auto context = TlsContext::of_certificates(texts.value());
  secure::wipe(std::as_writable_bytes(std::span(texts.value().key)));
  const auto refuse = [&](const Status& why) {
    return Status{Code::kConfigError, "options tls_cert " + options.tls_cert + ", tls_key " +
                                          options.tls_key + ", tls_ca " + options.tls_ca +
                                          (options.tls_crl.empty() ? "" : ", tls_crl ") +
                                          options.tls_crl + ": " + why.message()};
  };
  if (!own.is_ok()) return refuse(own.status());
  if (!context.is_ok()) return refuse(context.status());
  return OwnCertificate{std::move(own).value(), std::move(context).value()};
}

Status check_dates(const Certificate& own, const std::string& path) {
  const secure::UnixTime now = unix_now();
  if (now >= own.not_before && now <= own.not_after) return Status::ok();
  return {Code::kConfigError, "tls_cert " + path + ": " + own.name() + " holds " + own.span() +
                                  ", and this host's clock says " + secure::date_text(now) +
                                  "; renew it, or set the clock"};
}

Result<CertificateRules> read_coordinators_files(const Options& options) {
  auto own = read_own_files(options);
  if (!own.is_ok()) return own.status();
  if (const Status serves = secure::check_serves(own.value().certificate); !serves.is_ok()) {
    return Status{Code::kConfigError, "tls_cert " + options.tls_cert + ": " + serves.message()};
  }
  if (options.tls_roles.empty()) {
    return Status{Code::kConfigError,
                  "option tls_cert is set without tls_roles; accepted: a file with lines ROLE RUN "
                  "SUBJECT, which says whose certificates let into which run, such as: member run7 "
                  "CN=alice,O=Example"};
  }
  const auto text = read_small_file({"tls_roles", options.tls_roles, kMostRoleBytes});
  if (!text.is_ok()) return text.status();
  auto roles = RoleTable::parse(text.value());
  if (!roles.is_ok()) {
    return Status{Code::kConfigError,
                  "tls_roles " + options.tls_roles + ", " + roles.status().message()};
  }
  return CertificateRules{std::move(own.value().certificate), std::move(own.value().context),
                          std::move(roles).value()};
}

}  // namespace holdfast::runtime

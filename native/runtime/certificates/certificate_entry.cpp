#include "runtime/certificates/certificate_entry.h"

#include <utility>

namespace holdfast::runtime {
namespace {

class CertificateEntry final : public WayIn {
 public:
  CertificateEntry(OwnCertificate own, CertificateTarget target)
      : own_(std::move(own)), target_(std::move(target)) {}

  const std::string& run() const override { return target_.run; }

  Result<secure::TlsSession> session() const override {
    secure::TlsTerms terms;
    terms.now = unix_now();
    terms.hosts = target_.hosts;
    return secure::TlsSession::client(own_.context, std::move(terms));
  }

  std::vector<std::byte> papers(const secure::Proof& proof) const override {
    return request_papers({target_.run, proof});
  }

  // The other side has proven that it is the coordinator by the time it judges this one. What it
  // says then is an alert of TLS, one of a few words.
  Status explain(const Status& failure, bool is_open) const override {
    if (is_open && failure.code() == Code::kAuthFailed) {
      return {Code::kAuthFailed, failure.message() + ". What it was shown is " +
                                     own_.certificate.name() + " (option tls_cert), which holds " +
                                     own_.certificate.span() + "; this host's clock says " +
                                     secure::date_text(unix_now())};
    }
    return {Code::kProtocolError, (is_open ? "the greeting was cut off: "
                                           : "no session by certificates (option tls_cert): ") +
                                      failure.message()};
  }

 private:
  const OwnCertificate own_;
  const CertificateTarget target_;
};

}  // namespace

Result<std::unique_ptr<WayIn>> enter_by_certificate(const Options& options,
                                                    CertificateTarget target) {
  auto own = read_own_files(options);
  if (!own.is_ok()) return own.status();
  TRY(check_dates(own.value().certificate, options.tls_cert));
  if (target.run.empty()) {
    return Status{Code::kConfigError,
                  "a certificate names no run, and the coordinator's address, " +
                      options.coordinator + ", names none either; accepted: host:port/RUN"};
  }
  TRY(secure::check_run_name(target.run));
  return std::unique_ptr<WayIn>(
      std::make_unique<CertificateEntry>(std::move(own).value(), std::move(target)));
}

}  // namespace holdfast::runtime

#include "runtime/certificates/certificate_entry.h"

#include <mutex>
#include <utility>

namespace holdfast::runtime {
namespace {

class CertificateEntry final : public WayIn {
 public:
  CertificateEntry(Options options, std::vector<FileStamp> seen, OwnCertificate own,
                   CertificateTarget target)
      : options_(std::move(options)),
        target_(std::move(target)),
        seen_(std::move(seen)),
        own_(std::make_shared<const OwnCertificate>(std::move(own))) {}

  const std::string& run() const override { return target_.run; }

  Result<secure::TlsSession> session() const override {
    secure::TlsTerms terms;
    terms.now = unix_now();
    terms.hosts = target_.hosts;
    return secure::TlsSession::client(renewed()->context, std::move(terms));
  }

  std::vector<std::byte> papers(const secure::Proof& proof) const override {
    return request_papers({target_.run, proof});
  }

  // The other side has proven that it is the coordinator by the time it judges this one. What it
  // says then is an alert of TLS, one of a few words.
  Status explain(const Status& failure, bool is_open) const override {
    if (is_open && failure.code() == Code::kAuthFailed) {
      const std::shared_ptr<const OwnCertificate> own = this->own();
      return {Code::kAuthFailed, failure.message() + ". What it was shown is " +
                                     own->certificate.name() + " (option tls_cert), which holds " +
                                     own->certificate.span() + "; this host's clock says " +
                                     secure::date_text(unix_now())};
    }
    return {Code::kProtocolError, (is_open ? "the greeting was cut off: "
                                           : "no session by certificates (option tls_cert): ") +
                                      failure.message()};
  }

 private:
  std::shared_ptr<const OwnCertificate> own() const {
    const std::lock_guard lock(mutex_);
    return own_;
  }
  // A process may outlive its certificate, and calls again when its connection has broken. Files
  // that cannot be used, such as half of a pair that is being replaced, are left for the next call.
  std::shared_ptr<const OwnCertificate> renewed() const {
    auto stamps = certificate_stamps(options_);
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(seen_, stamps) == stamps) return own_;
    }
    auto read = read_own_files(options_);
    const std::lock_guard lock(mutex_);
    if (read.is_ok()) own_ = std::make_shared<const OwnCertificate>(std::move(read).value());
    return own_;
  }

  const Options options_;
  const CertificateTarget target_;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::vector<FileStamp> seen_;
  mutable std::shared_ptr<const OwnCertificate> own_;  // owners: also calls that are being made
};

}  // namespace

Result<std::unique_ptr<WayIn>> enter_by_certificate(const Options& options,
                                                    CertificateTarget target) {
  auto seen = certificate_stamps(options);
  auto own = read_own_files(options);
  if (!own.is_ok()) return own.status();
  TRY(check_dates(own.value().certificate, options.tls_cert));
  if (target.run.empty()) {
    return Status{Code::kConfigError,
                  "a certificate names no run, and the coordinator's address, " +
                      options.coordinator + ", names none either; accepted: host:port/RUN"};
  }
  TRY(secure::check_run_name(target.run));
  return std::unique_ptr<WayIn>(std::make_unique<CertificateEntry>(
      options, std::move(seen), std::move(own).value(), std::move(target)));
}

}  // namespace holdfast::runtime

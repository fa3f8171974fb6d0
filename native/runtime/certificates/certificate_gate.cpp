#include "runtime/certificates/certificate_gate.h"

#include <utility>

namespace holdfast::runtime {

using secure::UnixTime;

CertificateGate::CertificateGate(Options options, std::vector<FileStamp> seen,
                                 CertificateRules rules)
    : options_(std::move(options)),
      seen_(std::move(seen)),
      rules_(std::make_shared<const CertificateRules>(std::move(rules))) {}

Result<std::shared_ptr<CertificateGate>> CertificateGate::open(const Options& options) {
  auto seen = certificate_stamps(options);
  auto rules = read_coordinators_files(options);
  if (!rules.is_ok()) return rules.status();
  // Later it is known to members by their own clocks, and no reason to keep rules that are older.
  TRY(check_dates(rules.value().own, options.tls_cert));
  return std::shared_ptr<CertificateGate>(
      new CertificateGate(options, std::move(seen), std::move(rules).value()));
}

std::shared_ptr<const CertificateRules> CertificateGate::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

bool CertificateGate::lists_hold(const CertificateRules& rules, UnixTime now) {
  const auto lists = rules.context.lists();
  return !lists || (now >= lists->from && now <= lists->until);
}

Status CertificateGate::check_usable(UnixTime now) const {
  const std::lock_guard lock(mutex_);
  if (unusable_.is_ok() && lists_hold(*rules_, now)) return Status::ok();
  return {Code::kAuthFailed,
          "the coordinator cannot use its files of certificates or revocations at present, and "
          "lets nobody in by a certificate until whoever operates it has mended them"};
}

CertificateGate::Look CertificateGate::look(UnixTime now) {
  Look look;
  if (auto stamps = certificate_stamps(options_); stamps != seen_) {
    seen_ = std::move(stamps);
    auto read = read_coordinators_files(options_);
    look.has_new_rules = read.is_ok() && lists_hold(read.value(), now);
    const std::lock_guard lock(mutex_);
    unusable_ = read.status();
    if (read.is_ok()) rules_ = std::make_shared<const CertificateRules>(std::move(read).value());
  }
  const std::string wrong = what_is_wrong(now);
  if (wrong == told_) return look;
  told_ = wrong;
  look.news.push_back(wrong.empty()
                          ? "the files of certificates can be used again"
                          : wrong +
                                ". Nobody new is let in by a certificate until this is mended; "
                                "who is in stays");
  return look;
}

std::string CertificateGate::what_is_wrong(UnixTime now) const {
  const std::lock_guard lock(mutex_);
  if (!unusable_.is_ok()) return unusable_.message();
  if (lists_hold(*rules_, now)) return "";
  const auto lists = *rules_->context.lists();
  return "tls_crl " + options_.tls_crl + ": the lists hold from " + secure::date_text(lists.from) +
         " until " + secure::date_text(lists.until) + ", which this host's clock is not in";
}

}  // namespace holdfast::runtime

#include "runtime/coordinator/etcd/trust.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/small_file.h"
#include "secure/secret.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMostEtcdPemBytes = std::size_t{1} << 20;

Status refuse_files(const std::string& why) {
  return {Code::kConfigError,
          why +
              "; accepted: --etcd-ca FILE with https:// URLs, and --etcd-cert and --etcd-key "
              "together where etcd asks its clients for a certificate"};
}

}  // namespace

Result<std::shared_ptr<const secure::TlsContext>> read_etcd_trust(const std::vector<EtcdUrl>& urls,
                                                                  const EtcdFiles& files) {
  const auto is_sealed = [](const EtcdUrl& url) { return url.sealed; };
  const bool any = std::any_of(urls.begin(), urls.end(), is_sealed);
  const bool named = !(files.authorities + files.certificate + files.key).empty();
  if (!any && named) return refuse_files("--etcd-ca, --etcd-cert or --etcd-key, and no https://");
  if (!any) return std::shared_ptr<const secure::TlsContext>();
  if (files.authorities.empty()) return refuse_files("--etcd https:// without --etcd-ca");
  if (files.certificate.empty() != files.key.empty()) {
    return refuse_files("one of --etcd-cert and --etcd-key without the other");
  }
  if (!secure::available()) return secure::lacks_openssl();
  secure::CertificateTexts texts;
  auto authorities = read_small_file({"--etcd-ca", files.authorities, kMostEtcdPemBytes});
  if (!authorities.is_ok()) return authorities.status();
  texts.authorities = std::move(authorities).value();
  if (!files.key.empty()) {
    auto own = read_small_file({"--etcd-cert", files.certificate, kMostEtcdPemBytes});
    if (!own.is_ok()) return own.status();
    texts.certificates = std::move(own).value();
    auto key = read_private_file({"--etcd-key", files.key, kMostEtcdPemBytes},
                                 {"accepted: a PEM file of mode 0600", "key"});
    if (!key.is_ok()) return key.status();
    texts.key = std::move(key).value();
  }
  auto context = files.key.empty() ? secure::TlsContext::of_authorities(texts.authorities)
                                   : secure::TlsContext::of_certificates(texts);
  secure::wipe(std::as_writable_bytes(std::span(texts.key)));
  if (!context.is_ok()) {
    return refuse_files("--etcd-ca " + files.authorities + ": " + context.status().message());
  }
  return std::make_shared<const secure::TlsContext>(std::move(context).value());
}

}  // namespace holdfast::runtime

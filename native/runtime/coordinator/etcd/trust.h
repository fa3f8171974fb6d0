// Which servers a coordinator believes to be its etcd, at https://, and what it shows them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/coordinator/etcd/url.h"
#include "secure/tls_context.h"

namespace holdfast::runtime {

// PEM files.
struct EtcdFiles {
  std::string authorities;
  std::string certificate;  // with `key`, for an etcd that asks its clients for one; or neither
  std::string key;
};

// Null: no URL is sealed. kConfigError: a file that is missing, needless or unusable.
Result<std::shared_ptr<const secure::TlsContext>> read_etcd_trust(const std::vector<EtcdUrl>& urls,
                                                                  const EtcdFiles& files);

}  // namespace holdfast::runtime

// Certificate files: what the options tls_* name, read and checked: of a process that comes to its
// coordinator by a certificate, and of the coordinator.
// Why: docs/decisions/0162-certificates-open-the-same-door.md
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "runtime/certificates/role_table.h"
#include "runtime/options.h"
#include "secure/certificate.h"
#include "secure/tls_context.h"

namespace holdfast::runtime {

// Whether any of the options that belong to certificates is set.
bool has_certificate_options(const Options& options);

// One's own certificate, and whom it believes.
struct OwnCertificate {
  secure::Certificate certificate;
  secure::TlsContext context;
};

// kConfigError, here and below: which option or file, what is accepted, what to do.
Result<OwnCertificate> read_own_files(const Options& options);
// Whoever would be refused for the dates of its certificate finds out here, by its own clock.
Status check_dates(const secure::Certificate& own, const std::string& path);

// What a coordinator has, and holds callers' certificates against.
struct CertificateRules {
  secure::Certificate own;
  secure::TlsContext context;
  RoleTable roles;
};

Result<CertificateRules> read_coordinators_files(const Options& options);

}  // namespace holdfast::runtime

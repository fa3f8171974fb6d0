// Certificate files: what the options tls_* name, read and checked: of a process that comes to its
// coordinator by a certificate, and of the coordinator.
// Why: docs/decisions/0162-certificates-open-the-same-door.md
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/certificates/role_table.h"
#include "runtime/options.h"
#include "secure/certificate.h"
#include "secure/tls_context.h"

namespace holdfast::runtime {

// Whether any of the options that belong to certificates is set.
bool has_certificate_options(const Options& options);

// What tells a file's state from its next one. As it is here, of one that is not there.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = -1;
  std::int64_t written_s = 0;
  std::int64_t written_ns = 0;
  std::int64_t changed_s = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// Of all files of certificates that the options name. Whoever reads them looks at these before:
// what changes meanwhile is read again.
std::vector<FileStamp> certificate_stamps(const Options& options);

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

// Certificate gate: what a coordinator holds callers' certificates against, from one look at its
// files to the next. What cannot be used changes nothing for who is in, and nobody else is let in
// by a certificate meanwhile.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/certificates/certificate_files.h"
#include "runtime/options.h"

namespace holdfast::runtime {

// Any thread, but for look().
class CertificateGate {
 public:
  // Fails for files that cannot be used from the start; a revocation list that has ended is told by
  // the first look.
  static Result<std::shared_ptr<CertificateGate>> open(const Options& options);

  // What was read last, of files that could be used.
  std::shared_ptr<const CertificateRules> rules() const;
  // Whether callers are let in now. What a caller is told: nothing of paths.
  Status check_usable(secure::UnixTime now) const;

  struct Look {
    bool has_new_rules = false;     // who is in is to be held against them
    std::vector<std::string> news;  // for whoever operates the coordinator; each once
  };
  // Reads the files again if they have changed; nobody waits for that but the caller. One thread at
  // a time.
  Look look(secure::UnixTime now);

 private:
  CertificateGate(Options options, std::vector<FileStamp> seen, CertificateRules rules);
  static bool lists_hold(const CertificateRules& rules, secure::UnixTime now);
  // "" if nothing is; the same text for as long as it is the same.
  std::string what_is_wrong(secure::UnixTime now) const;

  const Options options_;
  std::vector<FileStamp> seen_;                    // look()'s alone
  std::string told_;                               // the same: what is wrong, and known
  mutable std::mutex mutex_;                       // guards the rest
  std::shared_ptr<const CertificateRules> rules_;  // owners: also callers that are being judged
  Status unusable_;                                // of the last reading; ok: it could be used
};

}  // namespace holdfast::runtime

// Certificate entry: how a process that was given a certificate comes to its coordinator. The two
// show each other certificates of authorities that the other believes; the coordinator's must be
// made for servers, and for a host at which this process calls it. Its own is read again when it
// has been renewed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/certificates/certificate_files.h"
#include "runtime/rendezvous/pass_holder.h"

namespace holdfast::runtime {

// The run, and at which hosts its coordinator may be.
struct CertificateTarget {
  std::string run;
  std::vector<std::string> hosts;
};

// Reads the files that the options name, and again before a call if they have changed.
Result<std::unique_ptr<WayIn>> enter_by_certificate(const Options& options,
                                                    CertificateTarget target);

}  // namespace holdfast::runtime

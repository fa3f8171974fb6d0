// Rows of the option table: who is let in, and what a process shows of itself.
#include "comm/transport/catalogue.h"
#include "health/http_endpoint.h"
#include "runtime/option_rows/rows.h"

namespace holdfast::runtime {
namespace {

Status check_http(const OptionRow&, const Options& options) {
  return options.http.empty() ? Status::ok() : health::parse_http_address(options.http).status();
}

// Such a transport takes data from host to host past the sealed connection.
Status check_secret_file(const OptionRow& row, const Options& options) {
  for (const std::string& name : options.transports) {
    const auto at = comm::transport_index(name);
    if (options.secret_file.empty() || !at || comm::transports()[*at].open == nullptr) continue;
    if (comm::transports()[*at].reach == comm::Reach::kHost) continue;
    return refuse_option(row, options.secret_file + " together with transport " + name,
                         "transports shm and tcp: " + name + " does not encrypt");
  }
  return Status::ok();
}

std::string agreed_secret_file(const Options& options, const comm::PlanTable&) {
  return options.secret_file.empty() ? "" : "set";
}

constexpr OptionRow kAccessRows[] = {
    {.name = "http",
     .field = &Options::http,
     .accepted = "host:port",
     .doc = "Where /metrics, /healthz, /readyz and /flight are served; port 0 lets the system "
            "choose, no host is loopback, 0.0.0.0 all interfaces; empty: nowhere.",
     .check = check_http},
    {.name = "http_credentials",
     .field = &Options::http_credentials,
     .accepted = "a file of mode 0600 with lines ROLE bearer TOKEN, or ROLE basic USER PASSWORD",
     .doc = "File of who may read the pages, as observer (metrics, status) or admin (stacks and "
            "flight records, too): ROLE bearer TOKEN or ROLE basic USER PASSWORD, a line each; "
            "empty: whoever reaches them reads all."},
    {.name = "http_cert",
     .field = &Options::http_cert,
     .accepted = "a file with a certificate in PEM, and those between it and its authority",
     .doc = "File with the certificate by which pages are served over TLS 1.3, as https; empty: "
            "they go as they are."},
    {.name = "http_key",
     .field = &Options::http_key,
     .accepted = "a file of mode 0600 with the certificate's key in PEM, without a password",
     .doc = "File with the key of the certificate of http_cert."},
    {.name = "http_insecure",
     .field = &Options::http_insecure,
     .accepted = "1 or 0",
     .doc = "Whether pages may be served on more than loopback without what locks them."},
    {.name = "secret_file",
     .field = &Options::secret_file,
     .accepted = "a file that `holdfast secret` has written, which others cannot read",
     .doc = "File with the secret that all processes of a job share, its coordinator included: "
            "TLS 1.3 keeps everybody else out of their connections; empty: these go as they are.",
     .agreement = Agreement::kIfSet,
     .check = check_secret_file,
     .agreed = agreed_secret_file},
    {.name = "flight_dir",
     .field = &Options::flight_dir,
     .accepted = "",
     .doc = "Folder of the flight record, a file that outlives the process; empty: in memory "
            "only."},
};

}  // namespace

std::span<const OptionRow> access_rows() { return kAccessRows; }

}  // namespace holdfast::runtime

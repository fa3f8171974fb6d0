// Rows of the option table: who is let in, and what a process shows of itself.
#include "comm/transport/catalogue.h"
#include "health/http_endpoint.h"
#include "runtime/option_rows/rows.h"
#include "runtime/rendezvous/witness_note.h"

namespace holdfast::runtime {
namespace {

Status check_http(const OptionRow&, const Options& options) {
  return options.http.empty() ? Status::ok() : health::parse_http_address(options.http).status();
}

// Such a transport takes data from host to host past the sealed connection.
Status check_encrypting(const OptionRow& row, const std::string& value, const Options& options) {
  for (const std::string& name : options.transports) {
    const auto at = comm::transport_index(name);
    if (!at || comm::transports()[*at].open == nullptr) continue;
    if (comm::transports()[*at].reach == comm::Reach::kHost) continue;
    std::string given = value;
    given += " together with transport " + name;
    return refuse_option(row, given, "transports shm and tcp: " + name + " does not encrypt");
  }
  return Status::ok();
}

Status check_secret_file(const OptionRow& row, const Options& options) {
  if (options.secret_file.empty()) return Status::ok();
  return check_encrypting(row, options.secret_file, options);
}

std::string agreed_secret_file(const Options& options, const comm::PlanTable&) {
  return options.secret_file.empty() ? "" : "set";
}

bool has_token(const Options& options) {
  return !options.token_file.empty() || !options.token.empty();
}

// A token's text is in no error.
Status check_token_file(const OptionRow& row, const Options& options) {
  if (!has_token(options)) return Status::ok();
  const std::string given = options.token_file.empty() ? "(given as text)" : options.token_file;
  if (!options.secret_file.empty()) {
    return refuse_option(row, given + " together with secret_file " + options.secret_file,
                         "one of the two: who has the secret needs no token");
  }
  return check_encrypting(row, given, options);
}

// Members with a token and with a certificate show each other passes: they are in one group.
std::string agreed_token_file(const Options& options, const comm::PlanTable&) {
  return has_token(options) || !options.tls_cert.empty() ? "set" : "";
}

// Of a coordinator, too, which takes certificates and has the secret: that the two do not go
// together elsewhere is told where it is known what a process is.
Status check_tls_cert(const OptionRow& row, const Options& options) {
  return options.tls_cert.empty() ? Status::ok() : check_encrypting(row, options.tls_cert, options);
}

Status check_witness(const OptionRow& row, const Options& options) {
  if (options.witness.empty() || parse_witness(options.witness).is_ok()) return Status::ok();
  return refuse_option(row, "\"" + options.witness + "\"", row.accepted);
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
     .accepted = "a file that `holdfast secret` has written, which others cannot read; or two, "
                 "with a comma between them",
     .doc = "File with the secret that all processes of a job share, its coordinator included: "
            "TLS 1.3 keeps everybody else out of their connections; two files with a comma between "
            "them while the first replaces the second; empty: connections go as they are.",
     .agreement = Agreement::kIfSet,
     .check = check_secret_file,
     .agreed = agreed_secret_file},
    {.name = "token_file",
     .field = &Options::token_file,
     .accepted = "a file with what `holdfast token new` has printed, which others cannot read",
     .doc = "File with the token by which a coordinator lets this process into an elastic group, "
            "in place of the secret.",
     .agreement = Agreement::kIfSet,
     .check = check_token_file,
     .agreed = agreed_token_file},
    {.name = "tls_cert",
     .field = &Options::tls_cert,
     .accepted = "a file with a certificate in PEM, and those between it and its authority",
     .doc = "File with the certificate by which a coordinator lets this process into an elastic "
            "group, in place of a token; or that of a coordinator that takes certificates.",
     .check = check_tls_cert},
    {.name = "tls_key",
     .field = &Options::tls_key,
     .accepted = "a file of mode 0600 with the certificate's key in PEM, without a password",
     .doc = "File with the key of the certificate of tls_cert."},
    {.name = "tls_ca",
     .field = &Options::tls_ca,
     .accepted = "a file with the certificates of authorities in PEM",
     .doc = "File with the authorities that this process believes: each may name anybody."},
    {.name = "tls_crl",
     .field = &Options::tls_crl,
     .accepted = "a file with the revocation lists of those authorities in PEM",
     .doc = "File with the revocation lists of the authorities; while it cannot be used, nobody "
            "new is believed; empty: no list is asked."},
    {.name = "tls_roles",
     .field = &Options::tls_roles,
     .accepted = "a file with lines ROLE RUN SUBJECT",
     .doc = "File, of a coordinator, of who may do what by a certificate: ROLE RUN SUBJECT, a line "
            "each, with the role member, observer or admin, a run's name or *, and the subject "
            "as RFC 2253 writes it."},
    {.name = "witness",
     .field = &Options::witness,
     .accepted = "KEY:FOLDER, as `holdfast run` sets it for its ranks: 64 hexadecimal digits and a "
                 "folder",
     .doc = "Whoever started this process, waits for it, and tells the others of its end where "
            "there is a secret: its public key, and the folder where this process says where they "
            "are; empty: nobody.",
     .check = check_witness},
    {.name = "audit_file",
     .field = &Options::audit_file,
     .accepted = "",
     .doc = "File with a line of JSON for each caller that was let in or refused: at most ten a "
            "second after the first hundred, in four files of 4 MiB; empty: none."},
    {.name = "flight_dir",
     .field = &Options::flight_dir,
     .accepted = "",
     .doc = "Folder of the flight record, a file that outlives the process; empty: in memory "
            "only."},
};

}  // namespace

std::span<const OptionRow> access_rows() { return kAccessRows; }

}  // namespace holdfast::runtime

// A fingerprint's text, which a build without OpenSSL reads and writes, too.
#include "secure/hex.h"
#include "secure/identity.h"

namespace holdfast::secure {

std::string fingerprint_text(const Fingerprint& fingerprint) { return hex(fingerprint.bytes); }

Result<Fingerprint> parse_fingerprint(std::string_view text) {
  Fingerprint fingerprint;
  if (!unhex(text, fingerprint.bytes)) {
    return Status{Code::kConfigError, "a key's fingerprint is 64 hexadecimal digits"};
  }
  return fingerprint;
}

}  // namespace holdfast::secure

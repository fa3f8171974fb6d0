// Papers: what the two sides of a sealed connection show each other in their greetings, where the
// seal alone does not say who is there. Whose papers they are is the sealer's business; this is
// their encoding. They come from outside: parsing is total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/audit_log.h"
#include "runtime/rendezvous/card.h"
#include "secure/identity.h"
#include "secure/proof.h"
#include "secure/tls_session.h"

namespace holdfast::runtime {

// One connection's, while it is made. As it is here, of sides that show nothing: the seal says
// enough.
class Papers {
 public:
  virtual ~Papers() = default;
  // For this side's greeting.
  virtual Result<std::vector<std::byte>> show(const secure::TlsSession& session,
                                              const Greeting& own);
  // Not ok: the other side is not let in, and is told the message.
  virtual Status check(const secure::TlsSession& session, const Greeting& theirs);
  // What it means that the session has failed, before the two have greeted. `is_open`: hands were
  // shaken, as far as this side can tell; a caller by a certificate is judged after that.
  virtual Status explain(const Status& failure, bool is_open) const;
  // What check() has found of the other side.
  virtual CallerFacts facts() const { return {}; }
};

// What a coordinator gives to a process that it lets in: who signs passes, and its own.
struct Admission {
  std::vector<secure::PublicKey> issuers;
  std::vector<std::byte> pass;
};

// What a caller that has a certificate asks for: it may be let into several runs.
struct EntryRequest {
  std::string run;
  secure::Proof proof{};
};

std::vector<std::byte> proof_papers(const secure::Proof& proof);
std::vector<std::byte> request_papers(const EntryRequest& request);
std::vector<std::byte> admission_papers(const Admission& admission);
std::vector<std::byte> pass_papers(std::span<const std::byte> pass);
std::vector<std::byte> refusal_papers(const std::string& why);

// Each fails with the refusal if there is one, and for papers of another kind. kAuthFailed.
Result<secure::Proof> parse_proof_papers(std::span<const std::byte> papers);
Result<EntryRequest> parse_request_papers(std::span<const std::byte> papers);
Result<Admission> parse_admission_papers(std::span<const std::byte> papers);
Result<std::vector<std::byte>> parse_pass_papers(std::span<const std::byte> papers);

}  // namespace holdfast::runtime

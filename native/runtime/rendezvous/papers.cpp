#include "runtime/rendezvous/papers.h"

#include <algorithm>

#include "base/bytes.h"
#include "secure/pass.h"
#include "secure/token.h"

namespace holdfast::runtime {
namespace {

using secure::KeyRing;
using secure::kMaxPassBytes;
using secure::kPublicKeyBytes;
using secure::Proof;
using secure::PublicKey;

enum class PaperKind : std::uint8_t { kProof = 1, kAdmission, kPass, kRefusal, kRequest };

constexpr std::size_t kMaxRefusalBytes = kMaxPaperBytes - 8;
static_assert(1 + 1 + KeyRing::kMaxSecrets * kPublicKeyBytes + 2 + kMaxPassBytes <= kMaxPaperBytes);

Writer begin(PaperKind kind) {
  Writer out;
  out.number(static_cast<std::uint8_t>(kind));
  return out;
}

Status read_kind(Reader& in, PaperKind wanted) {
  const auto kind = static_cast<PaperKind>(in.number<std::uint8_t>());
  if (in.failed()) {
    return {Code::kAuthFailed,
            "the other side shows no papers: one of the two has a secret where the other has a "
            "token or a certificate (options secret_file, token_file and tls_cert), and the "
            "members of one job have all the secret, or none of them"};
  }
  if (kind == PaperKind::kRefusal) {
    const std::string why = in.text(kMaxRefusalBytes);
    const bool printable = std::ranges::all_of(why, [](char c) { return c >= ' '; });
    return {Code::kAuthFailed, in.ended() && printable ? why : "refused"};
  }
  if (kind != wanted) return {Code::kAuthFailed, "the other side shows papers of another kind"};
  return Status::ok();
}

Status damaged_papers() { return {Code::kAuthFailed, "the other side shows damaged papers"}; }

}  // namespace

Result<std::vector<std::byte>> Papers::show(const secure::TlsSession&, const Greeting&) {
  return std::vector<std::byte>();
}

Status Papers::check(const secure::TlsSession&, const Greeting&) { return Status::ok(); }

// A session that ends is no proof that the process has.
Status Papers::explain(const Status& failure, bool is_open) const {
  const std::string what = is_open ? "the greeting was cut off: "
                                   : "the two sides share no secret (option secret_file): ";
  return {Code::kProtocolError, what + failure.message()};
}

std::vector<std::byte> proof_papers(const Proof& proof) {
  Writer out = begin(PaperKind::kProof);
  out.raw(proof);
  return out.take();
}

std::vector<std::byte> request_papers(const EntryRequest& request) {
  Writer out = begin(PaperKind::kRequest);
  out.raw(request.proof);
  out.text(request.run);
  return out.take();
}

std::vector<std::byte> admission_papers(const Admission& admission) {
  Writer out = begin(PaperKind::kAdmission);
  out.list(admission.issuers, [&](const PublicKey& issuer) { out.raw(issuer); });
  out.bytes(admission.pass);
  return out.take();
}

std::vector<std::byte> pass_papers(std::span<const std::byte> pass) {
  Writer out = begin(PaperKind::kPass);
  out.bytes(pass);
  return out.take();
}

std::vector<std::byte> refusal_papers(const std::string& why) {
  Writer out = begin(PaperKind::kRefusal);
  out.text(why.substr(0, kMaxRefusalBytes));
  return out.take();
}

Result<Proof> parse_proof_papers(std::span<const std::byte> papers) {
  Reader in(papers);
  TRY(read_kind(in, PaperKind::kProof));
  Proof proof{};
  const auto bytes = in.raw(proof.size());
  if (!in.ended()) return damaged_papers();
  std::ranges::copy(bytes, proof.begin());
  return proof;
}

Result<EntryRequest> parse_request_papers(std::span<const std::byte> papers) {
  Reader in(papers);
  TRY(read_kind(in, PaperKind::kRequest));
  EntryRequest request;
  const auto bytes = in.raw(request.proof.size());
  request.run = in.text(secure::kMaxRunName);
  if (!in.ended()) return damaged_papers();
  std::ranges::copy(bytes, request.proof.begin());
  TRY(secure::check_run_name(request.run));
  return request;
}

Result<Admission> parse_admission_papers(std::span<const std::byte> papers) {
  Reader in(papers);
  TRY(read_kind(in, PaperKind::kAdmission));
  Admission admission;
  in.list(KeyRing::kMaxSecrets, kPublicKeyBytes, [&] {
    const auto bytes = in.raw(kPublicKeyBytes);
    PublicKey issuer{};
    std::ranges::copy(bytes, issuer.begin());
    admission.issuers.push_back(issuer);
  });
  admission.pass = in.bytes(kMaxPassBytes);
  if (!in.ended() || admission.issuers.empty()) return damaged_papers();
  return admission;
}

Result<std::vector<std::byte>> parse_pass_papers(std::span<const std::byte> papers) {
  Reader in(papers);
  TRY(read_kind(in, PaperKind::kPass));
  auto pass = in.bytes(kMaxPassBytes);
  if (!in.ended()) return damaged_papers();
  return pass;
}

}  // namespace holdfast::runtime

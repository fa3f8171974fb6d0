// Everything else that comes from outside: member cards from the store, greetings and the papers in
// them, view notices, what was sent before a connection broke, calls and summaries from sockets.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/view/message_resume.h"
#include "comm/view/view_notice.h"
#include "health/rank_summary.h"
#include "runtime/rendezvous/card.h"
#include "runtime/rendezvous/papers.h"
#include "runtime/rendezvous/witness_note.h"
#include "secure/pass.h"
#include "secure/testimony.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast;
  const auto bytes = std::as_bytes(std::span(data, size));
  auto card = runtime::parse_card(std::string(reinterpret_cast<const char*>(data), size));
  constexpr std::size_t kFarBelowTheLimit =
      2048;  // saying it again adds the fields that were left out
  if (card.is_ok() && size < kFarBelowTheLimit) {
    // What was understood can be said again.
    if (!runtime::parse_card(runtime::encode_card(card.value())).is_ok()) __builtin_trap();
  }
  auto greeting = runtime::parse_greeting(bytes);
  if (greeting.is_ok() && runtime::encode_greeting(greeting.value()).size() > size + 2) {
    __builtin_trap();
  }
  [[maybe_unused]] const auto proof = runtime::parse_proof_papers(bytes);
  if (const auto request = runtime::parse_request_papers(bytes); request.is_ok()) {
    if (!secure::check_run_name(request.value().run).is_ok()) __builtin_trap();
    if (runtime::request_papers(request.value()) != std::vector(bytes.begin(), bytes.end())) {
      __builtin_trap();
    }
  }
  if (const auto pass = runtime::parse_pass_papers(bytes); pass.is_ok()) {
    // Nobody has signed it.
    if (secure::check_pass(pass.value(), {}, {0}).is_ok()) __builtin_trap();
  }
  if (const auto admission = runtime::parse_admission_papers(bytes); admission.is_ok()) {
    if (admission.value().issuers.size() > secure::KeyRing::kMaxSecrets) __builtin_trap();
  }
  if (const auto said = secure::parse_testimony(bytes)) {
    // Nobody has signed it.
    static const auto key = secure::Identity::generate();
    if (key.is_ok() && secure::is_true(*said, key.value().public_key())) __builtin_trap();
  }
  const auto witness =
      runtime::parse_witness(std::string(reinterpret_cast<const char*>(data), size));
  if (witness.is_ok() && witness.value().folder.empty()) __builtin_trap();
  if (auto summary = health::parse_summary(bytes); summary.is_ok()) {
    if (health::encode_summary(summary.value()) != std::vector(bytes.begin(), bytes.end())) {
      __builtin_trap();
    }
  }
  auto notice = comm::decode_notice(bytes, 8);
  if (notice.is_ok()) {
    for (const Rank r : notice.value().ranks) {
      if (r.value < 0 || r.value >= 8) __builtin_trap();
    }
  }
  if (auto sent = comm::decode_sent(bytes); sent.is_ok() && size > 0) {
    if (comm::encode_sent(sent.value()).at(0) != std::vector(bytes.begin(), bytes.end())) {
      __builtin_trap();
    }
  }
  if (auto call = comm::decode_call(bytes); call.is_ok()) {
    if (comm::encode_call(call.value()) != std::vector(bytes.begin(), bytes.end())) {
      __builtin_trap();
    }
    if (comm::call_text(call.value()).empty()) __builtin_trap();
  }
  return 0;
}

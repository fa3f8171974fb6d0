#include "runtime/relay/relay_call.h"

#include <algorithm>
#include <cctype>

namespace holdfast::runtime {
namespace {

// Who answers in place of a relay, by its first bytes.
std::string who_says(std::span<const std::byte> said) {
  std::string text;
  for (const std::byte b : said) {
    const auto c = std::to_integer<unsigned char>(b);
    if (c == '\r' || c == '\n') break;
    text += std::isprint(c) != 0 ? static_cast<char>(c) : '?';
  }
  if (text.starts_with("HTTP/") || text.starts_with("<")) {
    return "an HTTP server (\"" + text + "\")";
  }
  if (text.starts_with("SSH-")) return "an SSH server (\"" + text + "\")";
  if (text.starts_with("HF")) return "another process of Holdfast's";
  if (said[0] == std::byte{0x15} || said[0] == std::byte{0x16}) {
    return "something that speaks TLS, such as a rank or an https server";
  }
  return "something else (\"" + text + "\")";
}

Status no_relay(const std::string& what) {
  return {Code::kProtocolError, "what answers there is no relay: " + what +
                                    "; accepted: the address of `holdfast relay`, or of `holdfast "
                                    "coordinator` with a secret, of this version"};
}

}  // namespace

RelayCall::RelayCall(Preface preface, secure::Token token)
    : preface_(std::move(preface)),
      token_(std::move(token)),
      out_(kRelayMagic.begin(), kRelayMagic.end()) {
  preface_.claims = secure::encode_claims(token_.claims);
}

std::size_t RelayCall::wants() const {
  if (verdict_) return 0;
  if (!greeted_) return kRelayGreetingBytes - in_.size();
  if (in_.size() < 2) return 2 - in_.size();
  return 2 + std::to_integer<std::size_t>(in_[1]) - in_.size();
}

Status RelayCall::hear(std::span<const std::byte> bytes) {
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  if (!greeted_) {
    const std::size_t known = std::min(in_.size(), kRelayMagic.size());
    if (!std::equal(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(known),
                    kRelayMagic.begin())) {
      return no_relay(who_says(in_));
    }
    if (in_.size() < kRelayGreetingBytes) return Status::ok();
    RelayChallenge challenge;
    std::copy(in_.end() - static_cast<std::ptrdiff_t>(challenge.size()), in_.end(),
              challenge.begin());
    auto sealed = seal_preface(preface_, token_.key, challenge);
    if (!sealed.is_ok()) return sealed.status();
    out_ = std::move(sealed).value();
    in_ = {};
    greeted_ = true;
    return Status::ok();
  }
  if (in_.size() < 2 || wants() > 0) return Status::ok();
  const auto code = std::to_integer<std::uint8_t>(in_[0]);
  if (code > static_cast<std::uint8_t>(RelayVerdict::kFull))
    return no_relay("it speaks another version");
  verdict_ = static_cast<RelayVerdict>(code);
  for (std::size_t i = 2; i < in_.size(); ++i) {
    const auto c = std::to_integer<unsigned char>(in_[i]);
    reason_ += std::isprint(c) != 0 ? static_cast<char>(c) : '?';
  }
  return Status::ok();
}

Status RelayCall::ended() const {
  if (greeted_ || !in_.empty()) {
    return {Code::kPeerLost, "the relay closed the connection before it had answered"};
  }
  return no_relay("it closed the connection without a word");
}

}  // namespace holdfast::runtime

// What answers where an etcd should be: HTTP, and JSON in its body.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "runtime/coordinator/etcd/http_answer.h"
#include "runtime/coordinator/etcd/messages.h"
#include "runtime/coordinator/etcd/url.h"

namespace {

using namespace holdfast;
using namespace holdfast::runtime;
using AnswerState = HttpAnswer::AnswerState;

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

void read_body(std::string_view body) {
  const auto grant = read_grant(body);
  if (grant.is_ok()) expect(grant.value().lease > 0 && grant.value().ttl_s > 0);
  const auto kept = read_kept(body);
  if (kept.is_ok()) expect(kept.value().lease > 0 && kept.value().ttl_s >= 0);
  const auto outcome = read_outcome(body);
  if (outcome.is_ok()) {
    expect(outcome.value().header.cluster != 0);
    for (const auto& entry : outcome.value().entries) expect(!entry || entry->create_revision > 0);
  } else {
    expect(!outcome.status().message().empty());
  }
  if (read_given_back(body).is_ok()) expect(!body.empty());
  if (const auto said = read_refusal(body)) {
    for (const char c : *said) expect(c >= ' ' && c <= '~');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HttpAnswer whole = parse_answer(bytes, true);
  expect(whole.state != AnswerState::kIncomplete);
  expect(whole.body.size() <= kMostAnswerBytes);
  expect((whole.state == AnswerState::kBad) == !whole.why.empty());
  // More bytes do not change what a whole answer says, nor make a bad one good.
  const HttpAnswer half = parse_answer(bytes.substr(0, size / 2), false);
  const HttpAnswer open = parse_answer(bytes, false);
  if (half.state == AnswerState::kBad) expect(open.state == AnswerState::kBad);
  if (half.state == AnswerState::kWhole) {
    expect(open.state == AnswerState::kWhole && open.body == half.body);
  }
  if (whole.state == AnswerState::kWhole) read_body(whole.body);
  read_body(bytes);
  if (const auto decoded = decode_base64(bytes)) expect(encode_base64(*decoded) == bytes);
  expect(decode_base64(encode_base64(bytes)) == bytes);
  const auto urls = parse_etcd_urls(std::string(bytes));
  if (urls.is_ok()) {
    for (const EtcdUrl& url : urls.value()) {
      const auto again = parse_etcd_urls(to_string(url));
      expect(again.is_ok() && again.value().front() == url);
    }
  }
  return 0;
}

// What an operator asks of a coordinator by its pages, from whoever has a credential; and quotas.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/coordinator/admin/administration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ft::Quotas quotas;
  const bool sound = quotas.add(std::string(bytes)).is_ok();
  const bool limits = quotas.of("run7").members || quotas.of("run7").groups;
  if (limits && !sound) __builtin_trap();
  if (bytes.empty()) return 0;
  ft::CoordinatorService service({});
  runtime::Administration administration(
      service, {[](MemberId, const std::string&) { return runtime::MemberFacts{}; },
                [](const secure::Serial&) { return Status::ok(); },
                [](const secure::Serial&) { return std::string("run7"); },
                [](const health::PageOrder&, const std::string&) {}});
  constexpr std::array kPages = {health::Page::kKick,   health::Page::kRevoke,
                                 health::Page::kDrain,  health::Page::kPause,
                                 health::Page::kResume, health::Page::kMembers};
  health::PageOrder order;
  order.page = kPages[data[0] % kPages.size()];
  order.caller = {health::PageReader::kAdmin, "fuzz", "", "run7"};
  auto fields = read_json(bytes.substr(1), {health::kMaxBodyBytes, 64, 16, 2});
  if (!fields.is_ok() || !fields.value().is(JsonKind::kObject)) return 0;
  order.fields = std::move(fields).value();
  const health::HttpResponse response = administration.carry_out(order, Instant{});
  // There are no jobs: only a token can be revoked.
  const bool revokes = order.page == health::Page::kRevoke && response.status == 200;
  if (!revokes && (response.status < 400 || response.status > 499)) __builtin_trap();
  if (!read_json(response.body).is_ok()) __builtin_trap();
  return 0;
}

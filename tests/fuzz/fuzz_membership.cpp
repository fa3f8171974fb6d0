// Messages of membership, the reports of groups inside them, and what members say of the memory
// that they share: what is understood can be said again, and nothing is sized by a stranger's
// number.
#include <cstdint>
#include <span>

#include "ft/group_report.h"
#include "ft/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = ft::decode(bytes); message.is_ok()) {
    const auto again = ft::decode(ft::encode(message.value()));
    if (!again.is_ok() || again.value() != message.value()) __builtin_trap();
    if (ft::to_string(message.value()).empty()) __builtin_trap();
  }
  if (const auto reports = ft::decode_reports(bytes); reports.is_ok()) {
    const auto again = ft::decode_reports(ft::encode(reports.value()));
    if (!again.is_ok() || again.value() != reports.value()) __builtin_trap();
  }
  if (const auto notice = ft::decode_area_notice(bytes); notice.is_ok()) {
    const auto again = ft::decode_area_notice(ft::encode(notice.value()));
    if (!again.is_ok() || again.value() != notice.value()) __builtin_trap();
  }
  return 0;
}

// Messages of membership, the reports of groups inside them, and what members say of the memory
// that they share: what is understood can be said again, and nothing is sized by a stranger's
// number.
#include <algorithm>
#include <cstdint>
#include <span>

#include "ft/message.h"
#include "ft/view_change.h"
#include "group/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = ft::decode(bytes); message.is_ok()) {
    const auto again = ft::decode(encode(message.value()));
    if (!again.is_ok() || again.value() != message.value()) __builtin_trap();
    if (ft::to_string(message.value()).empty()) __builtin_trap();
    ft::Message whole = message.value();
    const ft::WorldView view{whole.epoch, {{1}, {2}}, {"a", "b"}, 0, {}};
    if (ft::spell_out(whole, view) && whole.change) __builtin_trap();
    const std::size_t lost = whole.lost.size() + whole.lost_ranks.size();
    if (ft::losses_of(whole, view).size() > lost) __builtin_trap();
  }
  // The first byte says where what the groups are ends, and how far they have come begins.
  if (!bytes.empty()) {
    const auto rest = bytes.subspan(1);
    const auto groups = rest.first(std::min<std::size_t>(rest.size(), data[0]));
    const auto ops = rest.subspan(groups.size());
    const auto reports =
        group::decode_reports(ft::Body{{groups.begin(), groups.end()}, {ops.begin(), ops.end()}});
    if (reports.is_ok()) {
      const auto again = group::decode_reports(encode(reports.value()));
      if (!again.is_ok() || again.value() != reports.value()) __builtin_trap();
    }
  }
  if (const auto notice = group::decode_area_notice(bytes); notice.is_ok()) {
    const auto again = group::decode_area_notice(encode(notice.value()));
    if (!again.is_ok() || again.value() != notice.value()) __builtin_trap();
  }
  return 0;
}

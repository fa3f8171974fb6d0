#include "comm/view/view_notice.h"

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace holdfast::comm {

// Layout: code (1 byte), number of ranks (4 bytes), ranks (4 bytes each), whether a report follows
// (1 byte), the report, text to the end.
std::vector<std::byte> encode_notice(const ViewNotice& notice) {
  Writer w;
  w.number(static_cast<std::uint8_t>(notice.code));
  const auto count = static_cast<std::uint32_t>(std::min(notice.ranks.size(), kMaxNoticeRanks));
  w.number(count);
  for (std::size_t i = 0; i < count; ++i) w.number(std::int32_t{notice.ranks[i].value});
  w.number(static_cast<std::uint8_t>(notice.report ? 1 : 0));
  if (notice.report) write(w, *notice.report);
  const auto text = std::as_bytes(std::span(notice.text));
  w.raw(text.first(std::min(text.size(), kMaxNoticeText)));
  return w.take();
}

Result<ViewNotice> decode_notice(std::span<const std::byte> bytes, int size) {
  Reader r(bytes);
  ViewNotice notice;
  const auto code = r.number<std::uint8_t>();
  r.require(code > 0 && code <= static_cast<std::uint8_t>(Code::kSystem));
  const auto count = r.number<std::uint32_t>();
  r.require(count <= kMaxNoticeRanks);
  for (std::size_t i = 0; i < count && !r.failed(); ++i) {
    const Rank rank{r.number<std::int32_t>()};
    r.require(rank.value >= 0 && rank.value < size);
    notice.ranks.push_back(rank);
  }
  if (r.flag()) notice.report = read_report(r);
  const std::span<const std::byte> text = r.rest();
  r.require(text.size() <= kMaxNoticeText);
  if (r.failed()) return Status{Code::kProtocolError, "malformed view notice"};
  notice.code = static_cast<Code>(code);
  notice.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return notice;
}

}  // namespace holdfast::comm

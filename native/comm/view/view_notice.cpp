#include "comm/view/view_notice.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace holdfast::comm {
namespace {

Status malformed_notice() { return {Code::kProtocolError, "malformed view notice"}; }

}  // namespace

// Layout: code (1 byte), number of ranks (4 bytes), ranks (4 bytes each), whether a report follows
// (1 byte), the report, text to the end.
std::vector<std::byte> encode_notice(const ViewNotice& notice) {
  const auto count = static_cast<std::uint32_t>(std::min(notice.ranks.size(), kMaxNoticeRanks));
  std::vector<std::byte> out(5 + 4 * std::size_t{count});
  out[0] = static_cast<std::byte>(notice.code);
  std::memcpy(out.data() + 1, &count, 4);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + 5 + 4 * i, &notice.ranks[i].value, 4);
  }
  out.push_back(static_cast<std::byte>(notice.report.has_value()));
  if (notice.report) {
    const std::vector<std::byte> report = encode_report(*notice.report);
    out.insert(out.end(), report.begin(), report.end());
  }
  const auto text = std::as_bytes(std::span(notice.text));
  out.insert(out.end(), text.begin(),
             text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kMaxNoticeText)));
  return out;
}

Result<ViewNotice> decode_notice(std::span<const std::byte> bytes, int size) {
  if (bytes.size() < 5) return malformed_notice();
  ViewNotice notice;
  const auto code = std::to_integer<std::uint8_t>(bytes[0]);
  if (code == 0 || code > static_cast<std::uint8_t>(Code::kSystem)) return malformed_notice();
  notice.code = static_cast<Code>(code);
  std::uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 1, 4);
  if (count > kMaxNoticeRanks || bytes.size() - 5 < 4 * std::size_t{count})
    return malformed_notice();
  for (std::size_t i = 0; i < count; ++i) {
    Rank rank;
    std::memcpy(&rank.value, bytes.data() + 5 + 4 * i, 4);
    if (rank.value < 0 || rank.value >= size) return malformed_notice();
    notice.ranks.push_back(rank);
  }
  auto text = bytes.subspan(5 + 4 * std::size_t{count});
  if (text.empty()) return malformed_notice();
  const auto has_report = std::to_integer<std::uint8_t>(text[0]);
  if (has_report > 1) return malformed_notice();
  text = text.subspan(1);
  if (has_report == 1) {
    auto report = decode_report(text);
    if (!report.is_ok()) return report.status();
    notice.report = report.value();
  }
  if (text.size() > kMaxNoticeText) return malformed_notice();
  notice.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return notice;
}

}  // namespace holdfast::comm

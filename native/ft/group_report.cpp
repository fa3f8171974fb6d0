#include "ft/group_report.h"

#include "ft/codec.h"

namespace holdfast::ft {
namespace {

constexpr std::size_t kMaxGroups = 4096;
constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxFailureText = 1U << 16;
constexpr std::size_t kMaxOps = 65536;
constexpr std::size_t kMaxRuns = 1U << 20;

void write(Writer& w, const OpReport& op) {
  w.number(op.sequence.value);
  w.number(static_cast<std::uint8_t>((op.complete ? 1 : 0) | (op.flat ? 2 : 0)));
  w.number(op.completed_in.value);
  w.list(op.held, [&](const HeldBlock& held) {
    w.number(held.block);
    w.list(held.held.runs(), [&](const Range& run) {
      w.number(run.begin);
      w.number(run.end);
    });
  });
}

OpReport read_op(Reader& r) {
  OpReport op;
  op.sequence = {r.number<std::uint64_t>()};
  const auto flags = r.number<std::uint8_t>();
  op.complete = (flags & 1) != 0;
  op.flat = (flags & 2) != 0;
  op.completed_in = {r.number<std::uint32_t>()};
  r.list(kMaxRuns, 8, [&] {
    HeldBlock held;
    held.block = r.number<std::uint32_t>();
    r.list(kMaxRuns, 16, [&] {
      const auto begin = r.number<std::uint64_t>();
      held.held.add({begin, r.number<std::uint64_t>()});
    });
    op.held.push_back(std::move(held));
  });
  return op;
}

}  // namespace

Bytes encode(const std::vector<GroupReport>& reports) {
  Writer w;
  w.list(reports, [&](const GroupReport& report) {
    w.number(report.id.value);
    w.text(report.name);
    w.list(report.world_ranks, [&](Rank rank) { w.number(rank.value); });
    w.number(report.next_sequence);
    w.number(static_cast<std::uint8_t>((report.shares_memory ? 1 : 0) | (report.whole ? 2 : 0)));
    w.number(static_cast<std::uint8_t>(report.shared));
    w.list(report.ops, [&](const OpReport& op) { write(w, op); });
    w.number(static_cast<std::uint8_t>(report.failure));
    w.list(report.failed_ranks, [&](Rank rank) { w.number(rank.value); });
    w.text(report.failure_text);
  });
  return w.take();
}

Result<std::vector<GroupReport>> decode_reports(std::span<const std::byte> bytes) {
  Reader r(bytes);
  std::vector<GroupReport> reports;
  r.list(kMaxGroups, 8, [&] {
    GroupReport report;
    report.id = {r.number<std::uint64_t>()};
    report.name = r.text(kMaxName);
    r.list(kMaxRanks, 4, [&] { report.world_ranks.push_back({r.number<std::int32_t>()}); });
    report.next_sequence = r.number<std::uint64_t>();
    const auto flags = r.number<std::uint8_t>();
    report.shares_memory = (flags & 1) != 0;
    report.whole = (flags & 2) != 0;
    const auto shared = r.number<std::uint8_t>();
    if (shared < kSharedMemoryCount) report.shared = static_cast<SharedMemory>(shared);
    r.list(kMaxOps, 17, [&] { report.ops.push_back(read_op(r)); });
    const auto failure = r.number<std::uint8_t>();
    report.failure = failure < kCodeCount ? static_cast<Code>(failure) : Code::kProtocolError;
    r.list(kMaxRanks, 4, [&] { report.failed_ranks.push_back({r.number<std::int32_t>()}); });
    report.failure_text = r.text(kMaxFailureText);
    reports.push_back(std::move(report));
  });
  if (!r.ended()) return Status{Code::kProtocolError, "malformed group report"};
  return reports;
}

}  // namespace holdfast::ft

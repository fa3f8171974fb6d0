#include "group/report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/bytes.h"

namespace holdfast::group {
namespace {

constexpr std::size_t kMaxGroups = 32 * 1024;
// Ranks of all groups of all members together, equal groups counted once: a few bytes may encode
// many ranks. A world of kMaxRanks has half of them if each member has groups of its own besides
// that of all.
constexpr std::size_t kMaxRanksOfGroups = 1U << 25;
constexpr std::size_t kMaxName = 1024;
// A map of 1024 ranks, pair by pair, has about 12 MiB.
constexpr std::size_t kMaxMap = 16U << 20;
constexpr std::size_t kMaxFailureText = 1U << 16;
constexpr std::size_t kMaxOps = 65536;
constexpr std::size_t kMaxRuns = 1U << 20;
static_assert(kSharedMemoryCount <= 4, "it is said in two bits");

// Encodes signed differences as counts, the small ones short.
std::uint64_t zigzag(std::uint64_t from, std::uint64_t to) {
  const std::uint64_t difference = to - from;
  return difference >> 63 == 0 ? difference << 1 : ~(difference << 1);
}
std::uint64_t unzigzag(std::uint64_t from, std::uint64_t code) {
  return from + ((code & 1) == 0 ? code >> 1 : ~(code >> 1));
}

std::uint64_t as_count(Rank rank) { return static_cast<std::uint32_t>(rank.value); }

// Ranks of a group mostly lie at equal distances, so runs are written: (first, distance to the
// next, how many).
void write_ranks(Writer& w, const std::vector<Rank>& ranks) {
  w.count(ranks.size());
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    const std::uint64_t first = as_count(ranks[i]);
    const std::uint64_t step = i + 1 < ranks.size() ? as_count(ranks[i + 1]) - first : 0;
    std::size_t end = i + 1;
    while (end < ranks.size() && as_count(ranks[end]) - as_count(ranks[end - 1]) == step) ++end;
    w.count(zigzag(last, first));
    w.count(end - i - 1);
    if (end - i > 1) w.count(zigzag(0, step));
    last = as_count(ranks[end - 1]);
    i = end;
  }
}

std::vector<Rank> read_ranks(Reader& r, std::size_t& room) {
  std::vector<Rank> ranks;
  const std::uint64_t count = r.count(std::min(ft::kMaxRanks, room));
  std::uint64_t last = 0;
  while (ranks.size() < count && !r.failed()) {
    last = unzigzag(last, r.count());
    ranks.push_back({static_cast<std::int32_t>(last)});
    const std::uint64_t more = r.count(count - ranks.size());
    const std::uint64_t step = more > 0 ? unzigzag(0, r.count()) : 0;
    for (std::uint64_t i = 0; i < more && !r.failed(); ++i) {
      last += step;
      ranks.push_back({static_cast<std::int32_t>(last)});
    }
  }
  room -= ranks.size();
  return ranks;
}

void write_groups(Writer& w, const std::vector<GroupReport>& reports) {
  w.list(reports, [&](const GroupReport& report) {
    const GroupIdentity& group = *report.group;
    w.number(group.id.value);
    w.text(group.name);
    write_ranks(w, group.world_ranks);
    w.number(static_cast<std::uint8_t>((group.shares_memory ? 1 : 0) | (group.whole ? 2 : 0) |
                                       (group.derived ? 4 : 0) | (group.map != nullptr ? 8 : 0)));
    if (group.map == nullptr) return;
    w.number(group.map_version);
    w.text(*group.map);
  });
}

std::vector<GroupReport> read_groups(Reader& r, std::size_t& room) {
  std::vector<GroupReport> reports;
  r.list(kMaxGroups, 11, [&] {
    GroupIdentity group;
    group.id = {r.number<std::uint64_t>()};
    group.name = r.text(kMaxName);
    group.world_ranks = read_ranks(r, room);
    const auto flags = r.number<std::uint8_t>();
    group.shares_memory = (flags & 1) != 0;
    group.whole = (flags & 2) != 0;
    group.derived = (flags & 4) != 0;
    if ((flags & 8) != 0) {
      group.map_version = r.number<std::uint32_t>();
      group.map = std::make_shared<const std::string>(r.text(kMaxMap));
    }
    reports.emplace_back();
    reports.back().group = std::make_shared<const GroupIdentity>(std::move(group));
  });
  return reports;
}

// Each range is written from the end of the last one; length 0: to the end of all.
void write(Writer& w, const ft::Ranges& ranges) {
  std::uint64_t last = 0;
  w.list(ranges.runs(), [&](const ft::Range& run) {
    w.count(run.begin - last);
    w.count(run.end == ft::kEndless ? 0 : run.size());
    last = run.end;
  });
}

ft::Ranges read_ranges(Reader& r) {
  ft::Ranges ranges;
  std::uint64_t last = 0;
  r.list(kMaxRuns, 2, [&] {
    const std::uint64_t begin = last + r.count(ft::kEndless - last);
    const std::uint64_t size = r.count(ft::kEndless - begin);
    last = size == 0 ? ft::kEndless : begin + size;
    ranges.add({begin, last});
  });
  return ranges;
}

void write(Writer& w, const OpReport& op, std::uint64_t next) {
  w.count(zigzag(next, op.sequence.value));
  w.count(std::uint64_t{op.held.size()} << 2 | (op.flat ? 2U : 0U) | (op.complete ? 1U : 0U));
  if (op.complete) w.count(op.completed_in.value);
  for (const HeldBlock& held : op.held) {
    w.count(held.block);
    write(w, held.held);
  }
}

OpReport read_op(Reader& r, std::uint64_t next) {
  OpReport op;
  op.sequence = {unzigzag(next, r.count())};
  const std::uint64_t flags = r.count(kMaxRuns << 2 | 3);
  op.complete = (flags & 1) != 0;
  op.flat = (flags & 2) != 0;
  if (op.complete) op.completed_in = {static_cast<std::uint32_t>(r.count(UINT32_MAX))};
  while (op.held.size() < flags >> 2 && !r.failed()) {
    HeldBlock held;
    held.block = static_cast<std::uint32_t>(r.count(UINT32_MAX));
    held.held = read_ranges(r);
    op.held.push_back(std::move(held));
  }
  return op;
}

void write_ops(Writer& w, const GroupReport& report) {
  w.count(report.next_sequence);
  w.count(std::uint64_t{report.ops.size()} << 3 | (report.failure != Code::kOk ? 4U : 0U) |
          static_cast<std::uint64_t>(report.shared));
  for (const OpReport& op : report.ops) write(w, op, report.next_sequence);
  if (report.failure == Code::kOk) return;
  w.number(static_cast<std::uint8_t>(report.failure));
  w.list(report.failed_ranks, [&](Rank rank) { w.number(rank.value); });
  w.text(report.failure_text);
}

void read_ops(Reader& r, GroupReport& report) {
  report.next_sequence = r.count();
  const std::uint64_t flags = r.count(kMaxOps << 3 | 7);
  report.shared = static_cast<SharedMemory>(flags & 3);
  while (report.ops.size() < flags >> 3 && !r.failed()) {
    report.ops.push_back(read_op(r, report.next_sequence));
  }
  if ((flags & 4) == 0) return;
  const auto failure = r.number<std::uint8_t>();
  r.require(failure != static_cast<std::uint8_t>(Code::kOk));
  report.failure = failure < kCodeCount ? static_cast<Code>(failure) : Code::kProtocolError;
  r.list(ft::kMaxRanks, 4, [&] { report.failed_ranks.push_back({r.number<std::int32_t>()}); });
  report.failure_text = r.text(kMaxFailureText);
}

Status malformed() { return {Code::kProtocolError, "malformed group report"}; }

// `room`: number of ranks that may still be decoded.
Result<std::vector<GroupReport>> decode_groups(const ft::Bytes& bytes, std::size_t& room) {
  if (bytes.empty()) return std::vector<GroupReport>{};
  Reader r(bytes);
  std::vector<GroupReport> reports = read_groups(r, room);
  if (!r.ended()) return malformed();
  return reports;
}

bool decode_ops(const ft::Bytes& bytes, std::vector<GroupReport>& reports) {
  Reader r(bytes);
  for (GroupReport& report : reports) read_ops(r, report);
  return r.ended();
}

}  // namespace

ft::Body encode(const std::vector<GroupReport>& reports) {
  if (reports.empty()) return {};
  Writer groups;
  write_groups(groups, reports);
  Writer ops;
  for (const GroupReport& report : reports) write_ops(ops, report);
  return {groups.take(), ops.take()};
}

Result<std::vector<GroupReport>> decode_reports(const ft::Body& body) {
  std::size_t room = kMaxRanksOfGroups;
  auto reports = decode_groups(body.groups, room);
  if (!reports.is_ok()) return reports.status();
  std::vector<GroupReport> all = std::move(reports).value();
  if (!decode_ops(body.ops, all)) return malformed();
  return all;
}

WorldReports decode_reports(const ft::Reports& reports) {
  using All = std::vector<GroupReport>;
  std::vector<std::optional<All>> groups;
  std::size_t room = kMaxRanksOfGroups;
  for (const ft::Bytes& bytes : reports.groups()) {
    auto decoded = decode_groups(bytes, room);
    groups.push_back(decoded.is_ok() ? std::optional(std::move(decoded).value()) : std::nullopt);
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<const All>> known;
  WorldReports result;
  for (const ft::Reports::Said& said : reports.said()) {
    const auto [at, is_new] = known.try_emplace({said.groups, said.ops});
    if (is_new) {
      auto all = groups[said.groups];
      if (all && decode_ops(reports.ops()[said.ops], *all)) {
        at->second = std::make_shared<const All>(std::move(*all));
      }
    }
    if (at->second) result.emplace_back(said.member, at->second);
  }
  return result;
}

GroupReports reports_on(CommId group, const WorldReports& reports) {
  GroupReports result;
  for (const auto& [member, all] : reports) {
    for (const GroupReport& report : *all) {
      if (report.group->id != group) continue;
      result.emplace_back(member, std::shared_ptr<const GroupReport>(all, &report));
    }
  }
  return result;
}

std::map<CommId, GroupReports> by_group(const WorldReports& reports) {
  std::map<CommId, GroupReports> result;
  for (const auto& [member, all] : reports) {
    for (const GroupReport& report : *all) {
      result[report.group->id].emplace_back(member,
                                            std::shared_ptr<const GroupReport>(all, &report));
    }
  }
  return result;
}

bool operator==(const GroupIdentity& a, const GroupIdentity& b) {
  const auto parts = [](const GroupIdentity& g) {
    return std::tie(g.id, g.name, g.world_ranks, g.shares_memory, g.whole, g.derived,
                    g.map_version);
  };
  const bool same_map = a.map == b.map || (a.map && b.map && *a.map == *b.map);
  return parts(a) == parts(b) && same_map;
}

bool operator==(const GroupReport& a, const GroupReport& b) {
  const auto parts = [](const GroupReport& r) {
    return std::tie(*r.group, r.next_sequence, r.shared, r.ops, r.failure, r.failed_ranks,
                    r.failure_text);
  };
  return parts(a) == parts(b);
}

}  // namespace holdfast::group

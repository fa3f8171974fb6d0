#include "comm/call/call.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fnv.h"

namespace holdfast::comm {
namespace {

// Flags of an encoded call.
constexpr unsigned kEqualBlocks = 1;
constexpr unsigned kOnDevice = 2;
constexpr unsigned kWeighted = 4;
// The codec's text in an encoded call, with a zero at its end.
constexpr std::size_t kCodecBytes = kMostCodingText + 1;

// The size that must be the same on all ranks; nothing where blocks differ by rank.
std::optional<std::uint64_t> common_size(const Call& call) {
  switch (common_side(call.collective, call.equal_blocks)) {
    case CommonSide::kNone: return std::nullopt;
    case CommonSide::kInput: return call.input;
    case CommonSide::kOutput: return call.output;
  }
  return std::nullopt;
}

std::string answer_text(const std::optional<CallReport>& report, OpSeq number) {
  if (!report) return "did not answer";
  if (const Call* call = report->find(number)) return "called " + call_text(*call);
  const std::string text = "has not called #" + std::to_string(number.value);
  if (report->calls.empty()) return text + ", nor anything before";
  return text + " (last: " + call_text(report->calls.back()) + ")";
}

// The first number at which two ranks' calls conflict.
std::optional<OpSeq> first_conflict(const std::vector<std::optional<CallReport>>& reports) {
  std::map<std::uint64_t, const Call*> calls;
  std::optional<OpSeq> first;
  for (const auto& report : reports) {
    if (!report) continue;
    for (const Call& call : report->calls) {
      const auto [at, is_new] = calls.emplace(call.sequence.value, &call);
      if (is_new || !conflict(*at->second, call)) continue;
      first = first ? std::min(*first, call.sequence) : call.sequence;
    }
  }
  return first;
}

// Layout: sequence (8), collective, dtype, op, flags (1 each), root (4), input, output (8
// each), map (4), codec (text, filled up with zeros).
void write(Writer& w, const Call& call) {
  w.number(call.sequence.value);
  w.number(static_cast<std::uint8_t>(call.collective));
  w.number(static_cast<std::uint8_t>(call.dtype));
  w.number(static_cast<std::uint8_t>(call.op));
  w.number(static_cast<std::uint8_t>((call.equal_blocks ? kEqualBlocks : 0) |
                                     (call.on_device ? kOnDevice : 0) |
                                     (call.weighted ? kWeighted : 0)));
  w.number(static_cast<std::int32_t>(call.root.value));
  w.number(call.input);
  w.number(call.output);
  w.number(call.map);
  const std::string_view codec = call.codec.view();
  w.raw(std::as_bytes(std::span(codec)));
  w.zeros(kCodecBytes - codec.size());
}

CodingText read_codec(Reader& r) {
  const std::span<const std::byte> bytes = r.raw(kCodecBytes);
  std::string_view codec(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  codec = codec.substr(0, codec.find_last_not_of('\0') + 1);
  // The text will be printed.
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  r.require(codec.size() <= kMostCodingText && std::all_of(codec.begin(), codec.end(), printable));
  return r.failed() ? CodingText() : CodingText(codec);
}

Call read_call(Reader& r) {
  Call call;
  call.sequence = {r.number<std::uint64_t>()};
  const auto collective = r.number<std::uint8_t>();
  const auto dtype = r.number<std::uint8_t>();
  const auto op = r.number<std::uint8_t>();
  const auto flags = r.number<std::uint8_t>();
  r.require(collective < kCollectiveCount && dtype < kDTypeCount && op < kReduceOpCount &&
            flags <= (kEqualBlocks | kOnDevice | kWeighted));
  call.root = {r.number<std::int32_t>()};
  call.input = r.number<std::uint64_t>();
  call.output = r.number<std::uint64_t>();
  call.map = r.number<std::uint32_t>();
  call.codec = read_codec(r);
  if (r.failed()) return {};
  call.collective = static_cast<Collective>(collective);
  call.dtype = static_cast<DType>(dtype);
  call.op = static_cast<ReduceOp>(op);
  call.equal_blocks = (flags & kEqualBlocks) != 0;
  call.on_device = (flags & kOnDevice) != 0;
  call.weighted = (flags & kWeighted) != 0;
  return call;
}

}  // namespace

std::string rank_list(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i].value);
  }
  return text;
}

Call call_of(const OpRequest& request, OpSeq sequence) {
  if (request.step.stands_for != nullptr) {
    Call call = *request.step.stands_for;
    call.sequence = sequence;
    return call;
  }
  // Elements of a user operator count as the bytes that they are, for that is their dtype.
  const std::uint64_t each = request.user == nullptr ? 1 : request.user->element_bytes;
  return {sequence,
          request.called_collective(),
          request.dtype,
          request.op,
          request.root,
          elements(request.input) * each,
          elements(request.output) * each,
          request.equal_blocks,
          coding_text(request),
          request.how.on_device,
          0,
          request.weight.has_value()};
}

CodingText coding_text(const OpRequest& request) {
  if (!request.codec) return {};
  // An all-reduce with a residual may go another way than one without.
  const bool feeds_back = request.collective == Collective::kAllReduce && !request.residual.empty();
  return CodingText(request.codec->text() + (feeds_back ? " with a residual" : ""));
}

bool conflict(const Call& a, const Call& b) {
  if (a.collective != b.collective) return true;
  if (a.map != b.map && a.map != 0 && b.map != 0) return true;
  if (!has_elements(a.collective)) return false;
  if (a.dtype != b.dtype || a.codec != b.codec || a.on_device != b.on_device) return true;
  if (is_rooted(a.collective) && a.root != b.root) return true;
  if (reduces(a.collective) && (a.op != b.op || a.weighted != b.weighted)) return true;
  return common_size(a) != common_size(b);
}

std::uint32_t history_after(std::uint32_t history, const Call& call) {
  Fnv1a32 hash(history);
  const auto mix = [&](std::uint64_t value) {
    hash.mix(static_cast<std::uint32_t>(value));
    hash.mix(static_cast<std::uint32_t>(value >> 32));
  };
  mix(static_cast<std::uint64_t>(call.collective));
  if (!has_elements(call.collective)) return hash.value();
  mix(static_cast<std::uint64_t>(call.dtype));
  if (is_rooted(call.collective)) mix(static_cast<std::uint64_t>(call.root.value));
  if (reduces(call.collective)) mix(static_cast<std::uint64_t>(call.op));
  mix(common_size(call).value_or(0));
  for (const char c : call.codec.view()) mix(static_cast<unsigned char>(c));
  if (call.on_device) mix(kOnDevice);
  if (call.weighted) mix(kWeighted);
  return hash.value();
}

const Call* CallReport::find(OpSeq number) const {
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [&](const Call& call) { return call.sequence == number; });
  return found == calls.end() ? nullptr : &*found;
}

std::string call_text(const Call& call) {
  std::string name =
      std::string(collective_name(call.collective)) + " #" + std::to_string(call.sequence.value);
  if (call.map > 1) name += " by map " + std::to_string(call.map - 1);
  if (!has_elements(call.collective)) return name;
  const std::uint64_t count = common_size(call).value_or(std::max(call.input, call.output));
  std::string text = name + " (" + std::string(dtype_name(call.dtype)) + ", " +
                     std::to_string(count) + " elements";
  if (reduces(call.collective)) text += ", " + std::string(reduce_op_name(call.op));
  if (call.weighted) text += " by weights";
  if (!call.codec.empty()) text += ", codec " + std::string(call.codec.view());
  if (call.equal_blocks) text += ", in equal blocks";
  if (call.on_device) text += ", in device memory";
  if (is_rooted(call.collective)) text += ", root " + std::to_string(call.root.value);
  return text + ")";
}

std::string reports_text(const std::vector<std::optional<CallReport>>& reports,
                         const std::vector<Rank>& names) {
  std::optional<OpSeq> asked;
  for (const auto& report : reports) {
    if (report) asked = asked ? std::min(*asked, report->sequence) : report->sequence;
  }
  OpSeq number = asked.value_or(OpSeq{});
  number = first_conflict(reports).value_or(number);
  std::vector<std::pair<std::string, std::vector<Rank>>> groups;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    const std::string answer = answer_text(reports[r], number);
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return group.first == answer; });
    if (found == groups.end()) {
      groups.push_back({answer, {names[r]}});
    } else {
      found->second.push_back(names[r]);
    }
  }
  std::string text;
  for (const auto& [answer, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + rank_list(ranks) + " " + answer;
  }
  return text;
}

std::vector<std::byte> encode_call(const Call& call) {
  Writer w;
  write(w, call);
  return w.take();
}

Result<Call> decode_call(std::span<const std::byte> bytes) {
  Reader r(bytes);
  Call call = read_call(r);
  if (!r.ended()) return Status{Code::kProtocolError, "malformed call"};
  return call;
}

// Layout: sequence (8), number of calls (1), the calls.
void write(Writer& w, const CallReport& report) {
  CHECK(report.calls.size() <= kReportedCalls);
  w.number(report.sequence.value);
  w.number(static_cast<std::uint8_t>(report.calls.size()));
  for (const Call& call : report.calls) write(w, call);
}

CallReport read_report(Reader& r) {
  CallReport report;
  report.sequence = {r.number<std::uint64_t>()};
  const auto count = r.number<std::uint8_t>();
  r.require(count <= kReportedCalls);
  for (int i = 0; i < count && !r.failed(); ++i) report.calls.push_back(read_call(r));
  return report;
}

}  // namespace holdfast::comm

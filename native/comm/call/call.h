// Call: what a rank called at one place of its program, compared with what the others called there.
// A group's collectives are numbered in call order on every rank, so equal numbers must be equal
// calls. Pure values; calls of others come from the network, so decoding is total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/short_text.h"
#include "comm/communicator.h"

namespace holdfast {

class Reader;
class Writer;

namespace comm {

// A codec's text, and whether a residual keeps what the codec loses.
inline constexpr std::size_t kMostCodingText =
    compress::kMostCodecText + sizeof " with a residual" - 1;
using CodingText = ShortText<kMostCodingText>;

struct Call {
  OpSeq sequence;
  Collective collective{};
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  Rank root{};
  std::uint64_t input = 0;   // elements of all blocks together
  std::uint64_t output = 0;  // elements of all blocks together
  bool equal_blocks = false;
  CodingText codec = {};  // empty: none
  bool on_device = false;
  // Version of the map of links that the op goes by, and 1 more; 0: not said.
  std::uint32_t map = 0;
  bool weighted = false;
  friend bool operator==(const Call&, const Call&) = default;
};

// A rank's answer when it is asked for its call of a number: that call and those shortly before it,
// for the first difference may have gone unnoticed; and its latest call.
struct CallReport {
  OpSeq sequence;           // the number in question
  std::vector<Call> calls;  // by number, rising

  const Call* find(OpSeq number) const;
};
// Calls in a report, at most.
inline constexpr std::size_t kReportedCalls = 16;

inline constexpr std::size_t kCallBytes = 36 + kMostCodingText + 1;

CodingText coding_text(const OpRequest& request);

// "rank 3", "ranks 1, 2".
std::string rank_list(const std::vector<Rank>& ranks);

Call call_of(const OpRequest& request, OpSeq sequence);

// Whether two ranks that make these calls can never end them. Sizes count where the collective
// needs equal sizes everywhere; blocks that differ by rank are checked message by message.
bool conflict(const Call& a, const Call& b);

// "all_reduce #3 (f32, 1000 elements, sum)"
std::string call_text(const Call& call);

// A hash of the calls so far, which conflicting calls make different, so that a rank with different
// past calls is found at its next message.
std::uint32_t history_after(std::uint32_t history, const Call& call);

// Which ranks called what at the first number where calls conflict (else at the number in
// question), ranks with equal calls together; `reports[i]`: nothing when rank `ranks[i]` did not
// answer.
std::string reports_text(const std::vector<std::optional<CallReport>>& reports,
                         const std::vector<Rank>& ranks);

std::vector<std::byte> encode_call(const Call& call);
// kProtocolError for anything encode_call() does not make.
Result<Call> decode_call(std::span<const std::byte> bytes);

void write(Writer& w, const CallReport& report);
// The reader has failed after anything that write() does not make.
CallReport read_report(Reader& r);

}  // namespace comm
}  // namespace holdfast

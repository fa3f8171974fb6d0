#include "comm/schedule/reference.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "comm/reduce/kernels.h"

namespace holdfast::comm {
namespace {

// Messages under way: (from, to, ordinal) -> bytes.
using Mail = std::map<std::tuple<int, int, std::uint32_t>, std::vector<std::byte>>;

class ReferenceRun {
 public:
  ReferenceRun(const Schedule& schedule, const ReferenceRank& rank, DType dtype, ReduceOp op,
               const UserOp* user)
      : schedule_(schedule),
        dtype_(dtype),
        op_(op),
        user_(user),
        element_(user == nullptr ? dtype_bytes(dtype) : user->element_bytes),
        layout_(make_layout(schedule, rank.input, rank.output, element_)) {
    for (const std::uint64_t count : layout_.scratch) scratch_.emplace_back(count * element_);
  }

  bool finished() const { return next_ == schedule_.steps.size(); }

  // Runs steps in order until one must wait for a message; returns whether any ran.
  bool advance(Mail& mail) {
    const std::size_t before = next_;
    while (!finished() && run(schedule_.steps[next_], mail)) ++next_;
    return next_ != before;
  }

 private:
  struct MemoryView {
    std::byte* data;
    std::uint64_t count;
  };

  MemoryView view(const Slot& slot) {
    if (slot.space == Space::kScratch) {
      return {scratch_[slot.chunk].data(), layout_.scratch[slot.chunk]};
    }
    const Block& b = (slot.space == Space::kInput ? layout_.input : layout_.output)[slot.chunk];
    return {b.data, b.count};
  }

  bool run(const Step& step, Mail& mail) {
    const int self = schedule_.rank.value;
    switch (step.kind) {
      case StepKind::kSend: {
        const MemoryView from = view(step.lhs);
        mail[{self, step.peer.value, step.ordinal}] = {from.data,
                                                       from.data + from.count * element_};
        return true;
      }
      case StepKind::kRecv: {
        const auto found = mail.find({step.peer.value, self, step.ordinal});
        if (found == mail.end()) return false;
        move(view(step.dst).data, found->second.data(), found->second.size());
        mail.erase(found);
        return true;
      }
      case StepKind::kCopy: {
        const MemoryView to = view(step.dst);
        move(to.data, view(step.lhs).data, to.count * element_);
        return true;
      }
      case StepKind::kReduce: reduce(step); return true;
      default: return false;  // codecs have a reference of their own
    }
  }

  static void move(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }

  void reduce(const Step& step) {
    const MemoryView to = view(step.dst);
    if (to.count == 0) return;
    if (user_ != nullptr) {
      return combine_by(*user_, to.data, view(step.lhs).data, view(step.rhs).data, to.count);
    }
    reference_reduce_kernel(dtype_, op_)(to.data, view(step.lhs).data, view(step.rhs).data,
                                         to.count);
    if (step.final && op_ == ReduceOp::kAvg) {
      reference_divide_kernel(dtype_)(to.data, to.count,
                                      static_cast<std::uint32_t>(schedule_.size));
    }
  }

  const Schedule& schedule_;
  const DType dtype_;
  const ReduceOp op_;
  const UserOp* const user_;
  const std::uint64_t element_;
  const Layout layout_;
  std::vector<std::vector<std::byte>> scratch_;
  std::size_t next_ = 0;
};

}  // namespace

Status run_reference(const std::vector<Schedule>& schedules, std::vector<ReferenceRank>& ranks,
                     DType dtype, ReduceOp op, const UserOp* user) {
  std::deque<ReferenceRun> runs;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    runs.emplace_back(schedules[r], ranks[r], dtype, op, user);
  }
  Mail mail;
  for (bool moved = true; moved;) {
    moved = false;
    for (ReferenceRun& run : runs) moved = run.advance(mail) || moved;
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].finished()) continue;
    return {Code::kProtocolError, "rank " + std::to_string(r) + " waits for ever"};
  }
  return Status::ok();
}

}  // namespace holdfast::comm

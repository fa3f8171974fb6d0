// Blocking calls of small ops that shared memory alone carries: from call to end on the caller's
// thread, while it drives, without a work. What lasts longer than a few looks goes on as any op.
// Why: docs/decisions/0037-a-small-call-needs-no-work.md
#include "comm/call/request_check.h"
#include "group/group.h"
#include "group/repair.h"

namespace holdfast::ft {

using comm::OpWork;

namespace {

// What is copied and added in a few microseconds.
constexpr std::uint64_t kInstantBytes = 16 * 1024;

}  // namespace

bool Group::is_instant(const comm::OpRequest& request) const {
  return shares_memory_.load(std::memory_order_relaxed) && executor_->has_cores() &&
         comm::payload_bytes(request) <= kInstantBytes;
}

Result<comm::Ran> Group::run(comm::OpRequest&& request) {
  if (shares_memory_.load(std::memory_order_relaxed) && !request.atomic &&
      request.algorithm.empty() && config_.algorithm.empty()) {
    InlineOp inline_op{request};
    executor_->drive_inline([this, &inline_op](bool last) { return step(inline_op, last); });
    if (inline_op.sequence) return std::move(inline_op.ran);
  }
  return Communicator::run(std::move(request));
}

// Whether nothing is left to do in inline_op.
bool Group::step(InlineOp& inline_op, bool last) {
  if (!inline_op.sequence && !begin_inline(inline_op)) return true;
  if (inline_op.ran.work) {
    if (comm_) comm_->poll_memory();
    return !ops_.contains(inline_op.sequence->value);
  }
  if (comm_->ends_inline()) {
    end_inline(inline_op);
    return true;
  }
  if (last) go_on(inline_op);
  return false;
}

// A request of a shape that the last one did not have.
bool Group::is_inline_at_first(const comm::OpRequest& request) const {
  return comm_->can_run_at_once(request) &&
         check_request(request, config_.rank, static_cast<int>(present_.size())).is_ok();
}

// Only where nothing is unusual; everything else takes the long way.
bool Group::begin_inline(InlineOp& inline_op) {
  const comm::OpRequest& request = inline_op.request;
  if (!comm_ || !ops_.empty() || !line_.empty() || request.how.gate || advance_ ||
      !broken_.is_ok() || !incidents_.empty() || !leavers_.empty() ||
      present_.size() != config_.members.size() || !comm_->is_idle()) {
    return false;
  }
  const bool usual = comm_->is_usual(request);
  if (!usual && !is_inline_at_first(request)) return false;
  {
    const std::lock_guard lock(mutex_);
    // A call of another thread may have its number already.
    if (!ended_.is_ok() || closed_ || advancing_ || at_entrance_ || executor_->has_tasks()) {
      return false;
    }
    inline_op.sequence = OpSeq{next_sequence_++};
  }
  if (!usual && !comm_->can_run_inline(request)) {
    // Through slices: with all that an op has, but begun here.
    const auto work = make_work(inline_op);
    inline_op.ran.work = work;
    launch(work, clock_->now() + work->request().timeout);
    return true;
  }
  launched_ = std::max(launched_, inline_op.sequence->value + 1);
  if (!usual) comm_->set_usual(request);
  inline_op.call = call_of(request, *inline_op.sequence);
  comm_->begin_inline(request, inline_op.call);
  // The others are at it meanwhile.
  observe_inline_begin(inline_op);
  return true;
}

void Group::end_inline(InlineOp& inline_op) {
  note_flat_end(inline_op.call, epoch_);
  inline_op.ran.outcome = outcome_of(usual_fate());
  observe_inline_end(inline_op);
}

std::shared_ptr<OpWork> Group::make_work(InlineOp& inline_op) const {
  comm::OpRequest& request = inline_op.request;
  request.how.expect_wait = true;
  if (request.timeout == Duration::zero()) request.timeout = config_.timeout;
  auto work = new_work(std::move(request), *inline_op.sequence);
  work->tell_wait(comm::OtherWait::kWhole);
  return work;
}

void Group::go_on(InlineOp& inline_op) {
  const auto work = make_work(inline_op);
  work->ticket() = inline_op.ticket;
  const Instant deadline = clock_->now() + work->request().timeout;
  Op& op = ops_[inline_op.sequence->value];
  op.work = work;
  op.deadline = deadline;
  op.fate = usual_fate();
  inline_op.ran.work = work;
  comm_->go_on({work, std::shared_ptr<const comm::OpRequest>(work, &work->request()), deadline});
}

}  // namespace holdfast::ft

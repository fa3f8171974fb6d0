// Inline op: a blocking call of a small op that runs in shared memory alone: from call to end on
// the caller's thread, while that thread drives the runtime, without a work of its own. An op that
// lasts longer than a few polls goes on as any other op. A template, since it is the shortest path
// there is: the group makes no virtual call, and allocates nothing.
//
// Host: the group, or a test. For a request that can run in shared memory, it has
//   is_settling(request)           its members are about to know each other's memory
//   can_begin_inline(request)      nothing is in the way, and nothing about the group is unusual
//   inline_shape(request)          whether it is known, new, or no request for this
//   number_inline()                the op's number; nothing: a call of another thread has one
//   begin_inline(request, number, shape, ticket)
//   has_ended_inline()             asked until it has
//   end_inline(ticket)             the outcome
//   launch_inline(request, number) all that an op has, but begun here
//   go_on_inline(request, number, ticket)
//   look_inline(number)            moves a launched op; whether it has ended
// Why: docs/decisions/0037-a-small-call-needs-no-work.md
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "comm/communicator.h"
#include "comm/observer.h"

namespace holdfast::group {

enum class InlineShape : std::uint8_t {
  kNone,    // the op takes the long way
  kUsual,   // as the last op: nothing about it need be checked
  kNew,     // differs from the last op, and accepted
  kSliced,  // accepted, and goes through slices
};

template <class Host>
class InlineOp {
 public:
  // `host` and `request` outlive it; `request` is moved from where the op needs a work.
  InlineOp(Host& host, comm::OpRequest& request) : host_(host), request_(request) {}

  // Returns whether nothing is left to do inline.
  bool step(bool last) {
    if (!number_ && !last && host_.is_settling(request_)) return false;
    if (!number_ && !begin()) return true;
    if (ran_.work) return host_.look_inline(*number_);
    if (host_.has_ended_inline()) {
      ran_.outcome = host_.end_inline(ticket_);
      return true;
    }
    if (last) ran_.work = host_.go_on_inline(request_, *number_, ticket_);
    return false;
  }

  bool has_begun() const { return number_.has_value(); }
  comm::Ran take() { return std::move(ran_); }

 private:
  // Begins only where nothing is unusual; all other ops take the long way.
  bool begin() {
    if (!host_.can_begin_inline(request_)) return false;
    const InlineShape shape = host_.inline_shape(request_);
    if (shape == InlineShape::kNone) return false;
    number_ = host_.number_inline();
    if (!number_) return false;
    if (shape == InlineShape::kSliced) {
      ran_.work = host_.launch_inline(request_, *number_);
    } else {
      host_.begin_inline(request_, *number_, shape, ticket_);
    }
    return true;
  }

  Host& host_;
  comm::OpRequest& request_;
  std::optional<OpSeq> number_;
  comm::Ran ran_;
  comm::OpTicket ticket_;
};

}  // namespace holdfast::group

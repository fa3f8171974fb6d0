#include "comm/schedule/pairing.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace holdfast::comm {
namespace {

// One end of a message.
struct MessageEnd {
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t ordinal;
  std::uint32_t step;

  auto key() const { return std::tie(from, to, ordinal); }
};

std::vector<MessageEnd> ends_of(const std::vector<Schedule>& schedules, const StepNumbers& numbers,
                                StepKind kind) {
  std::vector<MessageEnd> ends;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    const auto self = static_cast<std::uint32_t>(r);
    for (std::size_t i = 0; i < schedules[r].steps.size(); ++i) {
      const Step& step = schedules[r].steps[i];
      if (step.kind != kind) continue;
      const auto peer = static_cast<std::uint32_t>(step.peer.value);
      const bool sends = kind == StepKind::kSend;
      ends.push_back({sends ? self : peer, sends ? peer : self, step.ordinal, numbers.of(r, i)});
    }
  }
  std::sort(ends.begin(), ends.end(), [](const MessageEnd& a, const MessageEnd& b) {
    return std::tie(a.from, a.to, a.ordinal, a.step) < std::tie(b.from, b.to, b.ordinal, b.step);
  });
  return ends;
}

// The first step that says again what an earlier one has said; kNoStep: none.
std::uint32_t repeated(const std::vector<MessageEnd>& ends) {
  std::uint32_t first = kNoStep;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    if (ends[i - 1].key() == ends[i].key()) first = std::min(first, ends[i].step);
  }
  return first;
}

// The step of the first one that has no other end; kNoStep: none.
std::uint32_t alone(const std::vector<MessageEnd>& ends, const std::vector<MessageEnd>& others) {
  auto other = others.begin();
  for (const MessageEnd& end : ends) {
    while (other != others.end() && other->key() < end.key()) ++other;
    if (other == others.end() || other->key() != end.key()) return end.step;
  }
  return kNoStep;
}

}  // namespace

StepNumbers::StepNumbers(const std::vector<Schedule>& schedules) : first{0} {
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    first.push_back(first.back() + static_cast<std::uint32_t>(schedules[r].steps.size()));
    rank_of.resize(first.back(), static_cast<std::uint32_t>(r));
  }
}

Status broken_step(const std::vector<Schedule>& schedules, const StepNumbers& numbers,
                   std::uint32_t step, const char* what) {
  const std::uint32_t rank = numbers.rank_of[step];
  return {Code::kProtocolError, "rank " + std::to_string(schedules[rank].rank.value) + ", step " +
                                    std::to_string(step - numbers.first[rank]) + ": " + what};
}

Result<std::vector<std::uint32_t>> pair_messages(const std::vector<Schedule>& schedules,
                                                 const StepNumbers& numbers) {
  const auto broken = [&](std::uint32_t step, const char* what) {
    return broken_step(schedules, numbers, step, what);
  };
  const std::vector<MessageEnd> sends = ends_of(schedules, numbers, StepKind::kSend);
  const std::vector<MessageEnd> receives = ends_of(schedules, numbers, StepKind::kRecv);
  const std::uint32_t received = repeated(receives);
  const std::uint32_t sent = repeated(sends);
  if (received < sent) return broken(received, "received twice");
  if (sent != kNoStep) return broken(sent, "sent twice");
  const std::uint32_t unheard = alone(sends, receives);
  if (unheard != kNoStep) return broken(unheard, "nobody receives");
  const std::uint32_t unsaid = alone(receives, sends);
  if (unsaid != kNoStep) return broken(unsaid, "nobody sends");
  std::vector<std::uint32_t> partner(numbers.count(), kNoStep);
  for (std::size_t m = 0; m < sends.size(); ++m) {
    const std::uint32_t send = sends[m].step;
    const std::uint32_t receive = receives[m].step;
    const Schedule& from = schedules[sends[m].from];
    const Schedule& to = schedules[sends[m].to];
    if (form_of(from, from.steps[send - numbers.first[sends[m].from]].lhs) !=
        form_of(to, to.steps[receive - numbers.first[sends[m].to]].dst)) {
      return broken(receive, "receives another form than is sent");
    }
    partner[send] = receive;
    partner[receive] = send;
  }
  return partner;
}

}  // namespace holdfast::comm

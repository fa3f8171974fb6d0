#include "comm/view/message_ops.h"

#include <algorithm>

#include "comm/call/call.h"
#include "comm/view/message_resume.h"

namespace holdfast::comm {
namespace {

// The group's messages have an id apart from its collectives, whose views end.
CommId messages_of(CommId group) { return {group.value ^ 0x6d65'7373'6167'6573ULL}; }

// Both ends of a message agree on its dtype only.
std::uint32_t message_signature(DType dtype) { return 99 + static_cast<std::uint32_t>(dtype); }

Schedule message_schedule(Collective collective, Rank rank) {
  Schedule schedule;
  schedule.collective = collective;
  schedule.rank = rank;
  schedule.chunks = 1;
  Step step;
  const bool sends = collective == Collective::kSend;
  step.kind = sends ? StepKind::kSend : StepKind::kRecv;
  (sends ? step.lhs : step.dst) = {sends ? Space::kInput : Space::kOutput, 0};
  schedule.steps.push_back(step);
  return schedule;
}

}  // namespace

MessageOps::MessageOps(CommId group, Rank rank, int size)
    : id_(messages_of(group)),
      rank_(rank),
      send_(message_schedule(Collective::kSend, rank)),
      recv_(message_schedule(Collective::kRecv, rank)) {
  resize(size);
}

MessageOps::~MessageOps() { CHECK(active_.empty()); }

void MessageOps::resize(int size) {
  links_.resize(static_cast<std::size_t>(size));
  since_.resize(links_.size());
  awaits_link_.resize(links_.size());
  gone_.resize(links_.size());
}

void MessageOps::seat(Rank rank, Link* link, Epoch since) {
  const auto r = static_cast<std::size_t>(rank.value);
  for (std::size_t i = 0; i < active_.size();) {
    const bool with = active_[i].run != nullptr && active_[i].peer == rank;
    const bool waits = active_[i].unbound && active_[i].peer == rank;
    if (!with && !waits) {
      ++i;
      continue;
    }
    const std::string why = gone_[r].is_ok() ? "it is no member any more" : gone_[r].message();
    end(i, Status(Code::kPeerLost, why).about({rank}, {}));
  }
  if (links_[r] != nullptr) links_[r]->session().retire(id_, key(rank, 0).epoch);
  links_[r] = link;
  since_[r] = since;
  awaits_link_[r] = false;
  if (link == nullptr) return;
  clear(rank);
}

void MessageOps::clear(Rank rank) {
  gone_[static_cast<std::size_t>(rank.value)] = Status::ok();
  std::erase_if(messages_,
                [&](const auto& entry) { return std::get<1>(entry.first) == rank.value; });
  std::erase_if(resumed_, [&](const auto& entry) { return entry.first.first == rank.value; });
}

void MessageOps::await_link(Rank rank) {
  awaits_link_[static_cast<std::size_t>(rank.value)] = true;
  clear(rank);
}

void MessageOps::link(Rank rank, Link* link) {
  const auto r = static_cast<std::size_t>(rank.value);
  if (!awaits_link_[r]) return;
  awaits_link_[r] = false;
  links_[r] = link;
}

MessageKey MessageOps::key(Rank peer, std::uint32_t tag) const {
  const Epoch since = std::max(since_[static_cast<std::size_t>(peer.value)],
                               since_[static_cast<std::size_t>(rank_.value)]);
  return {id_, since, kPointToPoint | tag, 0};
}

void MessageOps::make(ActiveMessage& active, std::uint32_t ordinal) {
  const OpRequest& request = active.work->request();
  FusedSchedule& message = request.collective == Collective::kSend ? send_ : recv_;
  message.schedule.steps[0].peer = active.peer;
  make_layout(message.schedule, request.input, request.output, dtype_bytes(request.dtype),
              space_.layout);
  const MessageKey name = key(active.peer, request.tag);
  const RunKey run_key{name.comm, name.epoch,      name.op, message_signature(request.dtype),
                       ordinal,   request.priority};
  const Arithmetic arithmetic{request.dtype, request.op, 1};
  active.ordinal = ordinal;
  active.run.reset(new (recycler_) Run(lower(message, space_.layout, arithmetic, pool_, {}, space_),
                                       run_key, links_, &space_));
}

void MessageOps::launch(std::shared_ptr<OpWork> work, Instant deadline) {
  ActiveMessage active;
  active.work = std::move(work);
  active.deadline = deadline;
  const OpRequest& request = active.work->request();
  active.peer = request.peer;
  const bool vacant = request.peer != kAnySource && !awaits_link(request.peer) &&
                      links_[static_cast<std::size_t>(request.peer.value)] == nullptr;
  if (vacant) {
    const Status& gone = gone_[static_cast<std::size_t>(request.peer.value)];
    const std::string why = gone.is_ok() ? "the rank is vacant" : gone.message();
    ended_.push_back({active.work, Status(Code::kPeerLost, why).about({request.peer}, {})});
    return;
  }
  active.unbound = request.collective == Collective::kRecv || is_broken(request.peer);
  if (!active.unbound) {
    make(active, next_message(request.collective, request.peer, request.tag)++);
  }
  next_deadline_ = std::min(next_deadline_, deadline);
  active_.push_back(std::move(active));
}

bool MessageOps::moves_bulk() const {
  return std::any_of(active_.begin(), active_.end(), [](const ActiveMessage& a) {
    const OpRequest& request = a.work->request();
    const auto& blocks = request.input.empty() ? request.output : request.input;
    return blocks[0].count * dtype_bytes(request.dtype) > kBulkBytes;
  });
}

bool MessageOps::progress(Instant now) {
  if (active_.empty()) return false;
  bool moved = bind_receives();
  for (std::size_t i = 0; i < active_.size();) {
    Run* run = active_[i].run.get();
    if (run == nullptr || !run->touched()) {
      ++i;
      continue;
    }
    moved = true;
    run->advance();
    if (run->failed()) {
      const Status failure = run->failure();
      const bool broken = is_broken(active_[i].peer);
      if (broken && !is_gone(active_[i].peer)) {
        ++i;  // until there is another connection, or the rank is known to have gone
        continue;
      }
      const Code code = broken ? Code::kPeerLost : failure.code();
      const Status status = Status(code, "with rank " + std::to_string(active_[i].peer.value) +
                                             ": " + failure.message())
                                .about({code == Code::kPeerLost ? active_[i].peer : rank_}, {});
      if (code != Code::kPeerLost) failure_ = {active_[i].work, status};
      if (failure_) return true;
      end(i, status);
    } else if (run->finished()) {
      end(i, Status::ok());
    } else {
      ++i;
    }
  }
  if (any_gone_ && !moved) moved = check_gone();
  if (now >= next_deadline_) check_deadlines(now);
  return moved;
}

void MessageOps::end(std::size_t index, Status status) {
  ActiveMessage active = std::move(active_[index]);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  if (active.run) {
    pool_.give(active.run->stop());
  }
  ended_.push_back({std::move(active.work), std::move(status)});
}

// A receive from any source takes the first message of its tag; receives of that tag that were
// posted later wait until it has, so that messages go to receives in the order of posting.
bool MessageOps::bind_receives() {
  bool moved = false;
  std::vector<std::uint32_t> held_back;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    ActiveMessage& active = active_[i];
    if (!active.unbound) continue;
    const OpRequest& request = active.work->request();
    const bool receives = request.collective == Collective::kRecv;
    if (receives && std::find(held_back.begin(), held_back.end(), request.tag) != held_back.end()) {
      continue;
    }
    const std::optional<Rank> source =
        request.peer == kAnySource ? find_message(request.tag) : request.peer;
    if (!source) {
      held_back.push_back(request.tag);
      continue;
    }
    if (is_broken(*source) && !is_gone(*source)) continue;
    if (awaits_link(*source)) {
      // It has gone, and has never been reached.
      const Status& gone = gone_[static_cast<std::size_t>(source->value)];
      end(i--, Status(gone.code(), gone.message()).about({*source}, {}));
      moved = true;
      continue;
    }
    active.peer = *source;
    active.unbound = false;
    moved = true;
    if (receives) active.work->set_source(*source);
    const std::uint32_t ordinal = next_message(request.collective, *source, request.tag)++;
    if (receives && is_lost(*source, request.tag, ordinal)) {
      end(i--, lost_message(*source));
    } else {
      make(active, ordinal);
    }
  }
  return moved;
}

// A rank whose next message with this tag has come, or waits to be fetched. Ranks take turns.
std::optional<Rank> MessageOps::find_message(std::uint32_t tag) {
  for (int i = 0; i < size(); ++i) {
    const Rank rank{(first_asked_ + i) % size()};
    Link* link = links_[static_cast<std::size_t>(rank.value)];
    if (link == nullptr) continue;
    MessageKey name = key(rank, tag);
    name.ordinal = next_message(Collective::kRecv, rank, tag);
    if (!link->session().has_arrived(name) && !is_lost(rank, tag, name.ordinal)) continue;
    first_asked_ = (rank.value + 1) % size();
    return rank;
  }
  return std::nullopt;
}

std::vector<Rank> MessageOps::waited_for(const ActiveMessage& active) const {
  if (active.run != nullptr) return active.run->waited_for();
  if (!active.unbound || active.peer != kAnySource) return {};
  // The message may come from any rank: one death ends the wait, departures only when no rank is
  // left.
  std::vector<Rank> present;
  std::vector<Rank> others;
  for (std::int32_t r = 0; r < size(); ++r) {
    if (Rank{r} == rank_) continue;
    others.push_back({r});
    if (!is_gone({r})) present.push_back({r});
  }
  return any_died_ || present.empty() ? others : present;
}

void MessageOps::on_gone(Rank rank, bool died, const Status& why) {
  gone_[static_cast<std::size_t>(rank.value)] = why;
  any_gone_ = true;
  any_died_ = any_died_ || died;
}

// What a departed peer had sent is still used.
bool MessageOps::check_gone() {
  for (std::int32_t r = 0; r < size(); ++r) {
    if (!is_gone({r})) continue;
    Link* link = links_[static_cast<std::size_t>(r)];
    if (link != nullptr && link->pump()) return true;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const std::vector<Rank> waits = waited_for(active_[i]);
      if (std::find(waits.begin(), waits.end(), Rank{r}) == waits.end()) continue;
      const Status& gone = gone_[static_cast<std::size_t>(r)];
      end(i, Status(gone.code(), gone.message()).about({Rank{r}}, {}));
      return true;
    }
  }
  return false;
}

void MessageOps::check_deadlines(Instant now) {
  next_deadline_ = {Duration::max()};
  for (ActiveMessage& active : active_) {
    if (now < active.deadline) {
      next_deadline_ = std::min(next_deadline_, active.deadline);
      continue;
    }
    const double seconds = std::chrono::duration<double>(active.work->request().timeout).count();
    const std::vector<Rank> waits = waited_for(active);
    failure_ = {active.work, Status(Code::kTimeout,
                                    "rank " + std::to_string(rank_.value) +
                                        " gave up when the timeout of " + std::to_string(seconds) +
                                        " s had passed (option timeout), waiting for " +
                                        (waits.empty() ? "nobody" : rank_list(waits)))
                                 .about(waits, {})};
    return;
  }
}

void MessageOps::fail_all(const Status& status) {
  while (!active_.empty()) end(0, status);
  for (std::int32_t r = 0; r < size(); ++r) {
    Link* link = links_[static_cast<std::size_t>(r)];
    if (link != nullptr) link->session().retire(id_, key({r}, 0).epoch);
  }
}

}  // namespace holdfast::comm

#include "comm/op_runs.h"

#include <algorithm>

#include "comm/algorithms/catalogue.h"

namespace holdfast::comm {
namespace {

// Both ends of a message agree on its dtype only.
std::uint32_t message_signature(DType dtype) { return 99 + static_cast<std::uint32_t>(dtype); }

Schedule message_schedule(Collective collective, Rank peer, Rank rank, int size) {
  Schedule schedule;
  schedule.collective = collective;
  schedule.rank = rank;
  schedule.size = size;
  schedule.chunks = 1;
  Step step;
  step.peer = peer;
  const bool sends = collective == Collective::kSend;
  step.kind = sends ? StepKind::kSend : StepKind::kRecv;
  (sends ? step.lhs : step.dst) = {sends ? Space::kInput : Space::kOutput, 0};
  schedule.steps.push_back(step);
  return schedule;
}

}  // namespace

bool is_point_to_point(Collective c) { return c == Collective::kSend || c == Collective::kRecv; }

// FNV-1a.
std::uint32_t signature_of(const OpRequest& request, std::uint32_t history) {
  std::uint32_t hash = 2166136261U;
  const auto mix = [&](std::uint32_t value) { hash = (hash ^ value) * 16777619U; };
  mix(history);
  mix(static_cast<std::uint32_t>(request.collective));
  mix(static_cast<std::uint32_t>(request.dtype));
  mix(static_cast<std::uint32_t>(request.op));
  mix(static_cast<std::uint32_t>(request.root.value));
  return hash;
}

std::uint64_t payload_bytes(const OpRequest& request) {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (const Block& b : request.input) in += b.count;
  for (const Block& b : request.output) out += b.count;
  return std::max(in, out) * dtype_bytes(request.dtype);
}

std::unique_ptr<Run> OpRuns::make(const OpWork& work, std::uint32_t history) {
  const OpRequest& request = work.request();
  return make(request, schedule_for(request),
              {config_.id, config_.view.epoch, work.sequence().value & ~kPointToPoint,
               signature_of(request, history), 0});
}

std::unique_ptr<Run> OpRuns::make_message(const OpWork& work, Rank peer) {
  const OpRequest& request = work.request();
  const std::uint32_t ordinal = next_message(request.collective, peer, request.tag)++;
  return make(request, message_schedule(request.collective, peer, config_.rank, size()),
              {config_.id, config_.view.epoch, kPointToPoint | request.tag,
               message_signature(request.dtype), ordinal});
}

std::unique_ptr<Run> OpRuns::make(const OpRequest& request, const Schedule& schedule,
                                  const RunKey& key) {
  const Layout layout =
      make_layout(schedule, request.input, request.output, dtype_bytes(request.dtype));
  const Arithmetic arithmetic{request.dtype, request.op, static_cast<std::uint32_t>(size())};
  return std::make_unique<Run>(lower(schedule, layout, arithmetic, pool_), key, links_);
}

void OpRuns::end(Run& run) {
  run.cancel();
  pool_.give(run.take_scratch());
}

std::optional<Rank> OpRuns::find_message(std::uint32_t tag) {
  for (int i = 0; i < size(); ++i) {
    const Rank rank{(first_asked_ + i) % size()};
    const Link* link = links_[static_cast<std::size_t>(rank.value)];
    if (link == nullptr) continue;
    const MessageKey key{config_.id, config_.view.epoch, kPointToPoint | tag,
                         next_message(Collective::kRecv, rank, tag)};
    if (!link->session().has_arrived(key)) continue;
    first_asked_ = (rank.value + 1) % size();
    return rank;
  }
  return std::nullopt;
}

const Schedule& OpRuns::schedule_for(const OpRequest& request) {
  const int hosts =
      config_.hosts.empty() ? 1 : 1 + *std::max_element(config_.hosts.begin(), config_.hosts.end());
  const AlgorithmRow& row = request.algorithm.empty()
                                ? choose_algorithm({request.collective, size(), hosts,
                                                    payload_bytes(request), config_.link_model})
                                : *find_algorithm(request.collective, request.algorithm);
  const std::tuple key{request.collective, std::string(row.algorithm), request.root.value};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) return found->second;
  const BuildSpec spec{request.collective, config_.rank, size(), request.root, config_.hosts};
  return schedules_.emplace(key, row.build(spec)).first->second;
}

}  // namespace holdfast::comm

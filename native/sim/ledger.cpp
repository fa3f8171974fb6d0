#include "sim/ledger.h"

#include <algorithm>

namespace holdfast::sim {
namespace {

std::string list(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += (text.empty() ? "" : ",") + std::to_string(r.value);
  return "[" + text + "]";
}

std::string text(const comm::Outcome& o) {
  return "epoch " + std::to_string(o.epoch.value) + " contributors " + list(o.contributors) +
         " missing " + list(o.missing) + (o.retried ? " retried" : "");
}

}  // namespace

void Ledger::on_wrong(int process, const std::string& what) {
  if (violation_.empty()) violation_ = "process " + std::to_string(process) + ": " + what;
}

void Ledger::on_ended(int process, int op, const OpData& data, const Status& status,
                      const comm::Outcome& outcome) {
  ++ops_;
  mix(static_cast<std::uint64_t>(op) << 8 | static_cast<std::uint64_t>(status.code()));
  if (data.op().is_shift) return;
  if (status.is_ok()) {
    mix(data.fingerprint());
    const std::string wrong = data.check(outcome);
    if (!wrong.empty()) {
      on_wrong(process, "G2: op " + std::to_string(op) + ", " +
                            std::string(comm::collective_name(data.op().collective)) + ": " +
                            wrong + "; " + text(outcome));
    }
  } else if (const std::string wrong = data.check_failed(status, outcome); !wrong.empty()) {
    on_wrong(process, "G6: op " + std::to_string(op) + ", " +
                          std::string(comm::collective_name(data.op().collective)) + ": " + wrong +
                          ": " + status.message() + "; " + text(outcome));
  }
  Ended ended{static_cast<std::uint32_t>(status.code()),
              data.fingerprint(),
              data.fingerprint() != 0,
              outcome,
              {}};
  // With on_peer_loss=raise each names whom its latest view has lost.
  if (status.code() == Code::kPeerLost && !data.op().losses_raise) ended.lost = status.ranks();
  ended_[op][process] = std::move(ended);
}

void Ledger::on_view(int process, const comm::View& view) {
  const auto last = epochs_.find(process);
  if (last != epochs_.end() && last->second == view.epoch) return;
  if (last != epochs_.end() && view.epoch < last->second) {
    on_wrong(process, "G4: from epoch " + std::to_string(last->second.value) + " back to " +
                          std::to_string(view.epoch.value));
  }
  epochs_[process] = view.epoch;
  views_[view.epoch.value][process] = view.members;
  mix(view.epoch.value);
}

void Ledger::compare(const std::vector<int>& survivors) {
  const auto survived = [&](int process) {
    return std::find(survivors.begin(), survivors.end(), process) != survivors.end();
  };
  for (const auto& [epoch, by_process] : views_) {
    const std::vector<MemberId>* first = nullptr;
    for (const auto& [process, members] : by_process) {
      if (!survived(process)) continue;
      if (first != nullptr && *first != members) {
        on_wrong(process, "G4: another view of epoch " + std::to_string(epoch));
      }
      first = &members;
    }
  }
  for (const auto& [op, by_process] : ended_) {
    const Ended* first = nullptr;
    for (const auto& [process, ended] : by_process) {
      if (!survived(process)) continue;
      if (first == nullptr) {
        first = &ended;
        continue;
      }
      const std::string name = "op " + std::to_string(op);
      if (ended.code != first->code) {
        on_wrong(process, "G6: " + name + " ended with code " + std::to_string(ended.code) +
                              ", elsewhere with " + std::to_string(first->code));
      } else if (ended.lost != first->lost) {
        on_wrong(process, "G6: " + name + " failed for the loss of " + list(ended.lost) +
                              ", elsewhere of " + list(first->lost));
      } else if (ended.code != 0) {
        continue;
      } else if (ended.replicated && ended.fingerprint != first->fingerprint) {
        on_wrong(process, "G1: " + name + " has other bits; " + text(ended.outcome) + " and " +
                              text(first->outcome));
      } else if (ended.outcome != first->outcome) {
        on_wrong(process, "G1: " + name + " has another outcome: " + text(ended.outcome) +
                              ", elsewhere " + text(first->outcome));
      }
    }
  }
}

}  // namespace holdfast::sim

#include "group/parts/op_text.h"

#include <utility>
#include <vector>

#include "comm/call/call.h"

namespace holdfast::group {

std::string op_text(const comm::OpWork& work, const std::string& group) {
  const comm::Call call = call_of(work.request(), work.sequence());
  return std::string(comm::collective_name(call.collective)) + " #" +
         std::to_string(work.sequence().value) + " of group " + group;
}

Status describe(const comm::OpWork& work, const Status& cause, const std::string& group,
                const Roster& roster, Epoch epoch) {
  std::vector<Rank> ranks = cause.ranks();
  std::string text = op_text(work, group) + " (epoch " + std::to_string(epoch.value) + ", rank " +
                     std::to_string(roster.self.value) + " of " +
                     std::to_string(roster.members.size()) + ") failed";
  if (cause.code() == Code::kPeerLost && !ranks.empty()) text += ": lost " + comm::rank_list(ranks);
  text += ": " + cause.message();
  return Status(cause.code(), std::move(text)).about(std::move(ranks), epoch);
}

}  // namespace holdfast::group

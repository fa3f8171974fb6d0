#include "group/view_news.h"

#include <algorithm>

#include "group/network.h"

namespace holdfast::group {
namespace {

using comm::LossCause;

// The system ends the connections of a dead process within milliseconds; those of a dead host,
// never.
constexpr Duration kExplanationTime = std::chrono::seconds(1);

std::string rank_text(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

void ViewNews::on_stopped(Instant now) {
  if (!stopped_since_) stopped_since_ = now;
  stands(comm::Standing::kChanging);
}

void ViewNews::on_view(const NewsOfView& view, Instant now) {
  const auto& [before, after, self, at_boundary] = view;
  ViewChanged change{after.epoch, after.present().size(), after.members.size(), {}, {}, now};
  for (std::size_t r = 0; r < after.members.size(); ++r) {
    const MemberId was = r < before.members.size() ? before.members[r] : ft::kNobody;
    if (was == after.members[r]) continue;
    if (was != ft::kNobody) change.out.push_back({r, was, std::nullopt});
    if (after.members[r] != ft::kNobody) change.joined.push_back(r);
  }
  if (comm::Observer* observer = network_.observer()) {
    const Duration stopped = stopped_since_ ? now - *stopped_since_ : Duration::zero();
    observer->on_view_begun(
        {after.epoch, self, change.present, change.joined.size(), change.out.size(), stopped});
    stands(comm::Standing::kMember);
  }
  stopped_since_.reset();
  for (ViewChanged::Out& out : change.out) {
    if (at_boundary) explain(out, LossCause::kLeft);
  }
  if (!change.out.empty()) change.until = now + kExplanationTime;
  if (!change.out.empty() || !change.joined.empty()) untold_.push_back(std::move(change));
  progress(now);
  std::erase_if(goodbyes_, [&view](MemberId member) { return !view.after.has(member); });
}

void ViewNews::tell(const ViewChanged& change) {
  std::vector<std::size_t> lost;
  std::vector<std::size_t> left;
  std::vector<std::size_t> out;  // ranks whose loss is not explained before this process leaves
  for (const ViewChanged::Out& one : change.out) {
    (!one.cause ? out : one.cause == LossCause::kLeft ? left : lost).push_back(one.rank);
  }
  std::string text = "view " + std::to_string(change.epoch.value) + ": ";
  if (!lost.empty()) text += "lost " + rank_text(lost) + "; ";
  if (!out.empty()) text += "without " + rank_text(out) + "; ";
  if (!left.empty()) text += rank_text(left) + " left; ";
  if (!change.joined.empty()) text += rank_text(change.joined) + " joined; ";
  network_.say(text + std::to_string(change.present) + " of " + std::to_string(change.size) +
               " ranks go on");
}

std::optional<LossCause> ViewNews::cause_of(MemberId lost) const {
  const bool said_goodbye = std::find(goodbyes_.begin(), goodbyes_.end(), lost) != goodbyes_.end();
  const Loss* loss = network_.loss_of(lost);
  if (said_goodbye || (loss != nullptr && loss->left)) return LossCause::kLeft;
  if (loss != nullptr) return loss->gone ? LossCause::kDied : LossCause::kCut;
  return std::nullopt;
}

void ViewNews::explain(ViewChanged::Out& out, LossCause cause) {
  if (out.cause) return;
  out.cause = cause;
  if (comm::Observer* observer = network_.observer()) observer->on_member_lost(cause);
}

void ViewNews::progress(Instant now) {
  for (ViewChanged& change : untold_) {
    for (ViewChanged::Out& out : change.out) {
      std::optional<LossCause> cause = cause_of(out.member);
      if (!cause && now >= change.until) cause = LossCause::kSilent;
      if (cause) explain(out, *cause);
    }
  }
  const auto is_known = [](const ViewChanged& change) {
    return std::all_of(change.out.begin(), change.out.end(),
                       [](const ViewChanged::Out& out) { return out.cause.has_value(); });
  };
  while (!untold_.empty() && is_known(untold_.front())) {
    tell(untold_.front());
    untold_.pop_front();
  }
}

Instant ViewNews::next_deadline() const {
  return untold_.empty() ? Instant{Duration::max()} : untold_.front().until;
}

void ViewNews::on_goodbye(MemberId member, bool in_view) {
  if (in_view) goodbyes_.push_back(member);
  for (ViewChanged& change : untold_) {
    for (ViewChanged::Out& out : change.out) {
      if (out.member == member) explain(out, LossCause::kLeft);
    }
  }
}

void ViewNews::end(Instant now) {
  progress(now);
  for (const ViewChanged& change : untold_) tell(change);
  untold_.clear();
  stands(comm::Standing::kAlone);
}

void ViewNews::stands(comm::Standing standing) {
  if (comm::Observer* observer = network_.observer()) observer->on_standing(standing);
}

}  // namespace holdfast::group

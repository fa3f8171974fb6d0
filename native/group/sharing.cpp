#include "group/sharing.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/planted.h"
#include "comm/engine/slice_exchange.h"
#include "group/network.h"

namespace holdfast::group {

ft::Bytes encode(const AreaNotice& notice) {
  Writer w;
  w.text(notice.area);
  w.number(static_cast<std::uint8_t>(notice.can));
  w.number(static_cast<std::uint8_t>(notice.asks ? 1 : 0));
  return w.take();
}

Result<AreaNotice> decode_area_notice(std::span<const std::byte> bytes) {
  Reader r(bytes);
  AreaNotice notice;
  notice.area = r.text(kMaxAreaName);
  const auto can = r.number<std::uint8_t>();
  const auto asks = r.number<std::uint8_t>();
  if (!r.ended() || can >= kSharedMemoryCount || asks > 1) {
    return Status{Code::kProtocolError, "malformed notice of a shared area"};
  }
  notice.can = static_cast<SharedMemory>(can);
  notice.asks = asks != 0;
  return notice;
}

SharedMemory what_is_shared(const std::vector<comm::HostPeer>& areas, Rank self) {
  if (areas.empty()) return SharedMemory::kNone;
  return comm::reach_each_other(areas, self) ? SharedMemory::kReach : SharedMemory::kAreas;
}

void Sharing::begin(Epoch epoch, std::vector<MemberId> members) {
  stop();
  epoch_ = epoch;
  members_ = std::move(members);
  const auto self = std::find(members_.begin(), members_.end(), self_);
  CHECK(self != members_.end());
  own_ = static_cast<std::size_t>(self - members_.begin());
  notices_.assign(members_.size(), std::nullopt);
  AreaNotice own;
  if (auto made = network_.make_area(); made.is_ok()) {
    own.area = made.value().name;
    own_area_ = std::move(made).value().peer;
  }
  notices_[own_] = own;
  say_to_all(true);
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const auto early = early_.find(members_[m]);
    if (early != early_.end() && early->second.first == epoch) hear(m, early->second.second);
  }
  std::erase_if(early_, [&](const auto& entry) { return entry.second.first <= epoch; });
  look();
}

void Sharing::stop() {
  members_.clear();
  areas_.clear();
  own_area_ = {};
}

void Sharing::hear(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  const auto notice = decode_area_notice(payload);
  if (!notice.is_ok() || from == self_) return;
  if (epoch > epoch_) {
    if (early_.size() < ft::kMaxRanks || early_.contains(from)) {
      early_[from] = {epoch, notice.value()};
    }
    return;
  }
  const auto at = std::find(members_.begin(), members_.end(), from);
  if (epoch < epoch_ || at == members_.end()) return;
  hear(static_cast<std::size_t>(at - members_.begin()), notice.value());
  if (notice.value().asks) say(from, false);
  look();
}

// What a member has said it can do stands: later notices do not change it.
void Sharing::hear(std::size_t member, const AreaNotice& notice) {
  std::optional<AreaNotice>& known = notices_[member];
  if (!known || known->can == SharedMemory::kUnknown) known = notice;
}

// Once all have offered their areas, decides what this member can do.
void Sharing::look() {
  if (notices_[own_]->can != SharedMemory::kUnknown) return;
  const bool all_offer = std::all_of(notices_.begin(), notices_.end(),
                                     [](const auto& notice) { return notice.has_value(); });
  if (!all_offer) return;
  notices_[own_]->can = map_all();
  say_to_all(false);
}

SharedMemory Sharing::map_all() {
  const bool all_have = std::none_of(notices_.begin(), notices_.end(),
                                     [](const auto& notice) { return notice->area.empty(); });
  if (!all_have) return SharedMemory::kNone;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (m == own_) {
      areas_.push_back(own_area_);
      continue;
    }
    auto area = network_.open_area(members_[m], notices_[m]->area);
    if (!area) {
      areas_.clear();
      return SharedMemory::kNone;
    }
    areas_.push_back(std::move(*area));
  }
  return what_is_shared(areas_, {static_cast<std::int32_t>(own_)});
}

std::optional<SharedMemory> Sharing::agreed() const {
  if (!is_under_way()) return std::nullopt;
  if (is_planted(Planted::kShareAlone) && notices_[own_]->can != SharedMemory::kUnknown) {
    return notices_[own_]->can;
  }
  SharedMemory least = SharedMemory::kReach;
  for (const auto& notice : notices_) {
    if (!notice || notice->can == SharedMemory::kUnknown) return std::nullopt;
    least = std::min(least, notice->can);
  }
  return least;
}

std::vector<MemberId> Sharing::awaited() const {
  std::vector<MemberId> members;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const auto& notice = notices_[m];
    if (!notice || notice->can == SharedMemory::kUnknown) members.push_back(members_[m]);
  }
  return members;
}

// All have mapped what they will: no member needs the area's name any more.
std::vector<comm::HostPeer> Sharing::take_areas() {
  const SharedMemory shared = agreed().value_or(SharedMemory::kNone);
  if (own_area_.segment) own_area_.segment->unlink();
  own_area_ = {};
  if (shared < SharedMemory::kAreas) areas_.clear();
  for (comm::HostPeer& area : areas_) {
    if (shared < SharedMemory::kReach) area.memory.reset();
  }
  return std::exchange(areas_, {});
}

void Sharing::say(MemberId to, bool asks) {
  AreaNotice notice = *notices_[own_];
  notice.asks = asks;
  network_.send(to, group_, epoch_, comm::FrameKind::kArea, encode(notice));
}

void Sharing::say_to_all(bool asks) {
  for (const MemberId member : members_) {
    if (member != self_) say(member, asks);
  }
}

}  // namespace holdfast::group

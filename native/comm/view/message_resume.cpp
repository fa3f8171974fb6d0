#include "comm/view/message_resume.h"

#include <algorithm>

#include "base/bytes.h"
#include "comm/view/message_ops.h"

namespace holdfast::comm {
namespace {

constexpr std::size_t kNoticeBytes = 9;
constexpr std::size_t kNoticesPerFrame = 4096;
// Tags that one rank has sent with, and messages that it sends again.
constexpr std::size_t kMaxResumed = 1U << 20;

}  // namespace

// Layout of a notice: tag, ordinal (4 bytes each), again (1 byte).
std::vector<std::vector<std::byte>> encode_sent(const std::vector<SentNotice>& notices) {
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t at = 0; at < notices.size(); at += kNoticesPerFrame) {
    const std::size_t count = std::min(kNoticesPerFrame, notices.size() - at);
    Writer w;
    for (const SentNotice& notice : std::span(notices).subspan(at, count)) {
      w.number(notice.tag);
      w.number(notice.ordinal);
      w.number(static_cast<std::uint8_t>(notice.again ? 1 : 0));
    }
    parts.push_back(w.take());
  }
  return parts;
}

Result<std::vector<SentNotice>> decode_sent(std::span<const std::byte> bytes) {
  Reader r(bytes);
  r.require(bytes.size() <= kNoticesPerFrame * kNoticeBytes);
  std::vector<SentNotice> notices;
  while (!r.failed() && !r.ended()) {
    SentNotice& notice = notices.emplace_back();
    notice.tag = r.number<std::uint32_t>();
    notice.ordinal = r.number<std::uint32_t>();
    notice.again = r.flag();
  }
  if (r.failed()) return Status{Code::kProtocolError, "a malformed word of what was sent"};
  return notices;
}

Status lost_message(Rank from) {
  return Status(Code::kPeerLost, "with rank " + std::to_string(from.value) +
                                     ": the message was lost with a connection that broke; the "
                                     "rank lives, and the connection was made anew")
      .about({from}, {});
}

bool MessageOps::is_broken(Rank rank) const {
  if (rank == kAnySource) return false;
  const Link* link = links_[static_cast<std::size_t>(rank.value)];
  return awaits_link(rank) || (link != nullptr && !link->status().is_ok());
}

bool MessageOps::is_lost(Rank peer, std::uint32_t tag, std::uint32_t ordinal) const {
  const auto found = resumed_.find({peer.value, tag});
  if (found == resumed_.end()) return false;
  const Resumed& resumed = found->second;
  Link* link = links_[static_cast<std::size_t>(peer.value)];
  if (link == nullptr) return false;
  if (ordinal >= resumed.until || resumed.again.contains(ordinal)) return false;
  MessageKey name = key(peer, tag);
  name.ordinal = ordinal;
  return !link->session().has_arrived(name);
}

std::vector<std::vector<std::byte>> MessageOps::relink(Rank rank, Link* link) {
  const auto goes_on = [&](const ActiveMessage& active) {
    return active.run != nullptr && active.peer == rank && !active.run->finished();
  };
  // Buffers that these messages have posted are taken back from the old link.
  for (ActiveMessage& active : active_) {
    if (goes_on(active)) pool_.give(active.run->stop());
  }
  links_[static_cast<std::size_t>(rank.value)] = link;
  std::vector<SentNotice> notices;
  for (const auto& [message, next] : messages_) {
    const auto& [collective, peer, tag] = message;
    if (collective == Collective::kSend && peer == rank.value)
      notices.push_back({tag, next, false});
  }
  for (ActiveMessage& active : active_) {
    if (!goes_on(active)) continue;
    const OpRequest& request = active.work->request();
    make(active, active.ordinal);
    if (request.collective == Collective::kSend) {
      notices.push_back({request.tag, active.ordinal, true});
    }
  }
  return encode_sent(notices);
}

Status MessageOps::hear_sent(Rank from, std::span<const std::byte> said) {
  const auto notices = decode_sent(said);
  if (!notices.is_ok()) return notices.status();
  std::size_t known = notices.value().size();
  for (auto at = resumed_.lower_bound({from.value, 0});
       at != resumed_.end() && at->first.first == from.value; ++at) {
    known += 1 + at->second.again.size();
  }
  if (known > kMaxResumed) {
    return {Code::kProtocolError, "rank " + std::to_string(from.value) + " names " +
                                      std::to_string(known) +
                                      " tags and messages of its sends; "
                                      "at most " +
                                      std::to_string(kMaxResumed) + " are accepted"};
  }
  for (const SentNotice& notice : notices.value()) {
    Resumed& resumed = resumed_[{from.value, notice.tag}];
    if (notice.again) {
      resumed.again.insert(notice.ordinal);
    } else {
      resumed = {notice.ordinal, {}};
    }
  }
  for (std::size_t i = 0; i < active_.size();) {
    const ActiveMessage& active = active_[i];
    const OpRequest& request = active.work->request();
    const bool waits = active.run != nullptr && active.peer == from && !active.run->finished() &&
                       request.collective == Collective::kRecv;
    if (waits && is_lost(from, request.tag, active.ordinal)) {
      end(i, lost_message(from));
    } else {
      ++i;
    }
  }
  return Status::ok();
}

}  // namespace holdfast::comm

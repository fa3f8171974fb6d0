#include "comm/message/mail_ways.h"

#include <algorithm>

namespace holdfast::comm {
namespace {

// Frames of one rank before the others have their turn.
constexpr int kFramesPerLook = 64;
// Of what all ranks of a host have together for each rank, whatever their number: each two of them
// have two rings.
constexpr std::size_t kRingsPerRank = 1024 * 1024;
constexpr std::size_t kBestMailRing = 256 * 1024;

std::size_t ring_bytes_for(int ranks) {
  std::size_t bytes = kBestMailRing;
  while (bytes > kLeastMailRing && bytes * static_cast<std::size_t>(ranks) > kRingsPerRank) {
    bytes /= 2;
  }
  return bytes;
}

}  // namespace

void MailWays::seat(Rank rank, std::optional<Bell> bell) {
  MailWay& to = way(rank);
  to = {};
  ++peers_;
  to.trunk = std::make_unique<MailTrunk>(stirred_);
  to.bell = bell;
  core_.seat(rank, nullptr);
  greet(rank);
}

// The lower rank makes the memory for both rings.
void MailWays::greet(Rank rank) {
  MailWay& to = way(rank);
  MailHello hello;
  hello.owner = memory_.self();
  if (to.bell && core_.self() < rank) {
    const std::size_t bytes = ring_bytes_for(core_.size());
    auto segment = memory_.make(2 * mail_ring_memory(bytes));
    // Without memory the link carries all.
    if (segment.is_ok()) {
      to.segment = std::move(segment).value();
      hello.segment = to.segment->name();
      hello.ring_bytes = static_cast<std::uint32_t>(bytes);
      map_rings(to, bytes, true);
    }
  }
  const std::vector<std::byte> said = encode(hello);
  std::byte* at =
      to.trunk->begin({MailKind::kHello, {}, 0, static_cast<std::uint32_t>(said.size())});
  std::copy(said.begin(), said.end(), at);
  to.trunk->commit();
}

void MailWays::map_rings(MailWay& way, std::size_t ring_bytes, bool first) {
  const std::size_t half = mail_ring_memory(ring_bytes);
  std::byte* const memory = way.segment->data();
  way.out.emplace(memory + (first ? 0 : half), ring_bytes);
  way.in.emplace(memory + (first ? half : 0), ring_bytes);
}

void MailWays::hear(Rank from, std::span<const std::byte> frame) {
  MailWay& to = way(from);
  if (to.trunk == nullptr) return;
  const auto heard = to.trunk->hear(frame);
  if (!heard.is_ok()) return break_off(from, heard.status());
  if (!heard.value().is_new) return;
  take(from, heard.value().header, heard.value().payload);
  if (!core_.gone(from).is_ok()) break_off(from, core_.gone(from));
}

void MailWays::take(Rank from, const MailHeader& header, std::span<const std::byte> payload) {
  if (header.kind == MailKind::kHello) return take_hello(from, payload);
  if (header.kind == MailKind::kSwitch) return take_switch(from, header.tag == 0);
  core_.hear(from, header, payload);
}

void MailWays::take_hello(Rank from, std::span<const std::byte> payload) {
  MailWay& to = way(from);
  const auto hello = decode_mail_hello(payload);
  if (!hello.is_ok()) return break_off(from, hello.status());
  if (to.greeted) return break_off(from, {Code::kProtocolError, "broken peer: it greets twice"});
  to.greeted = true;
  MailPeer& peer = *core_.peer(from);
  if (to.bell) peer.set_memory(memory_.reach(hello.value().owner));
  peer.set_lane(to.trunk.get());
  if (hello.value().segment.empty() || from > core_.self()) return;
  const std::size_t bytes = hello.value().ring_bytes;
  if (to.bell) {
    auto segment = memory_.open(hello.value().segment, 2 * mail_ring_memory(bytes));
    if (segment.is_ok()) {
      to.segment = std::move(segment).value();
      map_rings(to, bytes, false);
    }
  }
  switching_.push_back(from);
  say_switch(from);
}

// The other end's frames come through its ring from now on, or never will.
void MailWays::take_switch(Rank from, bool can) {
  MailWay& to = way(from);
  if (!to.greeted || to.heard || !to.in) {
    return break_off(from, {Code::kProtocolError, "broken peer: a switch out of place"});
  }
  to.heard = true;
  to.segment->unlink();
  if (!can) {
    to.out.reset();
    to.in.reset();
    to.segment.reset();
    return;
  }
  heard_.push_back(from);
  core_.peer(from)->set_attention(
      [this, from] { return way(from).in && way(from).in->is_attended(); });
  if (core_.self() > from) return;
  switching_.push_back(from);
  say_switch(from);
}

// After this frame, all go through the ring.
void MailWays::say_switch(Rank rank) {
  MailWay& to = way(rank);
  const bool can = to.out.has_value();
  if (to.trunk->begin({MailKind::kSwitch, {}, can ? 0 : 1, 0}) == nullptr) return;
  to.trunk->commit();
  std::erase(switching_, rank);
  if (!can) return;
  core_.peer(rank)->set_lane(&*to.out);
  ringed_.push_back(rank);
}

void MailWays::on_gone(Rank rank, bool died, const Status& why) {
  // What it had sent is still there.
  while (look_at_ring(rank)) {
  }
  core_.on_gone(rank, died, why);
  break_off(rank, why);
}

// The rank's rings and frames are used no more.
void MailWays::break_off(Rank rank, const Status& why) {
  if (way(rank).trunk == nullptr) return;
  --peers_;
  core_.on_gone(rank, true, why);
  std::erase(heard_, rank);
  std::erase(ringed_, rank);
  std::erase(switching_, rank);
  way(rank) = {};
}

void MailWays::end(const Status& why) {
  core_.end(why);
  heard_.clear();
  ringed_.clear();
  switching_.clear();
  for (MailWay& to : ways_) to = {};
  peers_ = 0;
}

void MailWays::relink(Rank rank, std::optional<Bell> bell) {
  MailWay& to = way(rank);
  if (to.trunk == nullptr) return;
  to.bell = bell;
  to.trunk->relink();
}

void MailWays::take_outgoing(MailOutgoing& into) {
  stirred_ = false;
  for (std::size_t r = 0; r < ways_.size(); ++r) {
    MailTrunk* trunk = ways_[r].trunk.get();
    while (trunk != nullptr && trunk->has_outgoing()) {
      into.emplace_back(Rank{static_cast<std::int32_t>(r)}, trunk->take_outgoing());
    }
  }
}

bool MailWays::progress() {
  bool moved = look_at_rings();
  moved = core_.progress() || moved;
  for (std::size_t i = switching_.size(); i-- > 0;) say_switch(switching_[i]);
  return moved;
}

bool MailWays::look_at_rings() {
  bool moved = false;
  for (std::size_t i = 0; i < heard_.size(); ++i) moved = look_at_ring(heard_[i]) || moved;
  return moved;
}

bool MailWays::look_at_ring(Rank rank) {
  MailWay& from = way(rank);
  if (!from.heard || !from.in) return false;
  int count = 0;
  for (; count < kFramesPerLook && from.in->has_next(); ++count) {
    const auto mail = from.in->peek();
    if (!mail.is_ok()) {
      break_off(rank, mail.status());
      return true;
    }
    if (!mail.value()) break;
    core_.hear(rank, mail.value()->header, mail.value()->payload);
    if (!core_.gone(rank).is_ok()) {
      break_off(rank, core_.gone(rank));
      return true;
    }
    if (from.in->consume()) wake(from);
  }
  return count > 0;
}

void MailWays::ring(Rank rank) {
  MailWay& to = way(rank);
  if (to.out->take_written()) wake(to);
}

void MailWays::wake(MailWay& to) {
  if (to.bell && to.bell->ring() == Sleep::kOnSocket) to.trunk->tell();
}

}  // namespace holdfast::comm

#include "health/far/far_link_json.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace holdfast::health {
namespace {

double shown_seconds(std::int64_t ns) {
  return std::round(static_cast<double>(ns) / 1e9 * 1e6) / 1e6;
}

// How long ago the last cut was; -1: there was none.
std::int64_t cut_age(const FarLinkText& text) {
  return text.link->cut_ns < 0 ? -1 : text.link->cut_ns + text.told_before.count();
}

std::string controls_text(std::uint32_t controls) {
  std::string text;
  for (std::size_t i = 0; i < comm::kTcpControls.size(); ++i) {
    if ((controls >> i & 1) == 0) continue;
    text += (text.empty() ? "" : "+") + std::string(comm::kTcpControls[i]);
  }
  return text;
}

void age_field(std::string_view name, std::int64_t ns, JsonWriter& out) {
  if (ns < 0) return out.nothing(name);
  out.number(name, shown_seconds(ns));
}

void write_far_link(const FarLinkText& text, JsonWriter& out) {
  const FarLink& link = *text.link;
  out.open("", '{');
  out.number("rank", std::uint64_t{text.rank});
  if (link.peer == kOtherPeers) {
    out.text("peer", "other");
  } else {
    out.number("peer", static_cast<std::uint64_t>(link.peer.value));
  }
  const bool is_recent = link.cut_ns >= 0 && cut_age(text) < comm::kRecentCut.count();
  out.text("state", link.down ? "cut" : is_recent ? "mended" : "well");
  out.flag("relayed", link.relayed);
  out.number("lanes", std::uint64_t{link.lanes});
  out.text("control", controls_text(link.controls));
  out.number("bytes_per_s", link.bytes_per_s);
  out.number("rtt_s", shown_seconds(link.round_trip_ns));
  out.number("sent_again_bytes", link.sent_again);
  out.number("resumed", link.resumed);
  out.number("cuts", link.cuts);
  out.number("recent_cuts", std::uint64_t{link.recent_cuts});
  out.text("cut_why", link.cut_ns < 0 ? "" : comm::lane_cut_name(link.last_cut));
  age_field("cut_s", cut_age(text), out);
  age_field("down_s", link.down_ns < 0 ? -1 : link.down_ns + text.told_before.count(), out);
  out.close('}');
}

}  // namespace

void write_far_links_of(std::vector<FarLinkText> links, JsonWriter& out) {
  if (links.empty()) return;
  std::stable_sort(links.begin(), links.end(), [](const FarLinkText& a, const FarLinkText& b) {
    if (a.link->down != b.link->down) return a.link->down;
    // None: the largest.
    return static_cast<std::uint64_t>(cut_age(a)) < static_cast<std::uint64_t>(cut_age(b));
  });
  const std::size_t shown = std::min(links.size(), kFarLinksShown);
  out.open("far_links", '[');
  for (std::size_t i = 0; i < shown; ++i) write_far_link(links[i], out);
  out.close(']');
  out.number("far_links_left_out", std::uint64_t{links.size() - shown});
}

}  // namespace holdfast::health

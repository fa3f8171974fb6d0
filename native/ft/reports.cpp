#include "ft/reports.h"

#include <algorithm>

#include "base/bytes.h"
#include "ft/digest.h"
#include "ft/message.h"

namespace holdfast::ft {
namespace {

std::uint32_t number_of(std::vector<Bytes>& parts, const Bytes& part) {
  // Most members say what the last one said, or what no other member says.
  if (!parts.empty() && parts.back() == part) return static_cast<std::uint32_t>(parts.size() - 1);
  const auto at = std::find(parts.begin(), parts.end(), part);
  const auto number = static_cast<std::uint32_t>(at - parts.begin());
  if (at == parts.end()) parts.push_back(part);
  return number;
}

bool say_the_same(const Reports::Said& a, const Reports::Said& b) {
  return a.groups == b.groups && a.ops == b.ops;
}

void write_parts(Writer& w, const std::vector<Bytes>& parts) {
  w.list(parts, [&](const Bytes& part) { w.bytes(part); });
}

std::vector<Bytes> read_parts(Reader& r) {
  std::vector<Bytes> parts;
  r.list(kMaxRanks, 1, [&] { parts.push_back(r.bytes(kMaxMessageBytes)); });
  return parts;
}

}  // namespace

std::uint64_t digest_of(const Bytes& bytes) {
  Digest digest;
  digest.mix(std::span(bytes));
  return digest.value();
}

void Reports::add(MemberId member, const Bytes& groups, const Bytes& ops) {
  said_.push_back({member, number_of(groups_, groups), number_of(ops_, ops)});
}

void Reports::forget_members() {
  for (Said& said : said_) said.member = kNobody;
}

bool Reports::name_members(const std::vector<MemberId>& members) {
  if (members.size() != said_.size()) return false;
  for (std::size_t i = 0; i < members.size(); ++i) said_[i].member = members[i];
  return true;
}

std::uint64_t Reports::digest() const {
  Digest digest;
  for (const auto* parts : {&groups_, &ops_}) {
    digest.mix(parts->size());
    for (const Bytes& part : *parts) digest.mix(std::span(part));
  }
  for (const Said& said : said_) {
    digest.mix(said.member.value);
    digest.mix(std::uint64_t{said.groups} << 32 | said.ops);
  }
  return digest.value();
}

// Consecutive members that say the same are one entry.
void write(Writer& w, const Reports& reports) {
  write_parts(w, reports.groups_);
  write_parts(w, reports.ops_);
  const auto& said = reports.said_;
  w.count(said.size());
  for (auto begin = said.begin(); begin != said.end();) {
    const bool named = begin->member != kNobody;
    const auto end = std::find_if(begin, said.end(), [&](const Reports::Said& other) {
      return !say_the_same(*begin, other) || (other.member != kNobody) != named;
    });
    w.count(static_cast<std::uint64_t>(end - begin) << 1 | (named ? 1 : 0));
    w.count(begin->groups);
    w.count(begin->ops);
    for (; begin != end; ++begin) {
      if (named) w.number(begin->member.value);
    }
  }
}

Reports read_reports(Reader& r) {
  Reports reports;
  reports.groups_ = read_parts(r);
  reports.ops_ = read_parts(r);
  const std::uint64_t members = r.count(kMaxRanks);
  while (reports.said_.size() < members && !r.failed()) {
    const std::uint64_t run = r.count(kMaxRanks << 1 | 1);
    Reports::Said said;
    said.groups = static_cast<std::uint32_t>(r.index(reports.groups_.size()));
    said.ops = static_cast<std::uint32_t>(r.index(reports.ops_.size()));
    r.require(run >> 1 > 0 && run >> 1 <= members - reports.said_.size());
    for (std::uint64_t i = 0; i < run >> 1 && !r.failed(); ++i) {
      if ((run & 1) != 0) said.member = {r.number<std::uint64_t>()};
      r.require((run & 1) == 0 || said.member != kNobody);
      reports.said_.push_back(said);
    }
  }
  return reports;
}

}  // namespace holdfast::ft

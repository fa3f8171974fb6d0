// Sim notary: what a job's secret is in a simulation: who has it signs views, and no statement
// holds that was not made so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "ft/notary.h"
#include "ft/record.h"

namespace holdfast::sim {

class SimNotary final : public ft::Notary {
 public:
  ft::Bytes digest(std::span<const std::byte> text) override {
    return numbered(digests_, text, ft::kDigestBytes);
  }
  ft::Bytes sign(std::span<const std::byte> text) override {
    if (!signed_.contains(key(text))) note(text);
    return numbered(signed_, text, kSignature);
  }
  bool check(std::span<const std::byte> text, std::span<const std::byte> signature) override {
    if (!signed_.contains(key(text))) return false;
    return sign(text) == ft::Bytes(signature.begin(), signature.end());
  }
  // Whether a later view than that of the epoch was signed, without the member.
  bool is_out(CommId world, Epoch epoch, MemberId member) const {
    return std::any_of(views_.begin(), views_.end(), [&](const auto& view) {
      return view.world == world && view.epoch > epoch &&
             std::find(view.members.begin(), view.members.end(), member) == view.members.end();
    });
  }

 private:
  // Reads what ft::statement_for() has signed.
  void note(std::span<const std::byte> text) {
    constexpr std::size_t kLongestName = 256;
    Reader in(text);
    in.text(kLongestName);
    ft::WorldRecord view;
    view.world = {in.number<std::uint64_t>()};
    view.epoch = {in.number<std::uint32_t>()};
    in.list(ft::kMaxRanks, sizeof(std::uint64_t),
            [&] { view.members.push_back({in.number<std::uint64_t>()}); });
    CHECK(!in.failed());
    views_.push_back(std::move(view));
  }

  static constexpr std::size_t kSignature = 64;
  using Numbers = std::map<std::string, std::uint64_t>;

  static std::string key(std::span<const std::byte> text) {
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  // The number of the text among all that there were.
  static ft::Bytes numbered(Numbers& numbers, std::span<const std::byte> text, std::size_t size) {
    const std::uint64_t next = numbers.size() + 1;
    Writer out;
    out.number(numbers.emplace(key(text), next).first->second);
    out.zeros(size - sizeof next);
    return out.take();
  }

  std::vector<ft::WorldRecord> views_;
  Numbers digests_;
  Numbers signed_;
};

}  // namespace holdfast::sim

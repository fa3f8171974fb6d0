#include "ft/quotas.h"

#include <charconv>
#include <string_view>

namespace holdfast::ft {
namespace {

constexpr std::size_t kMostRunName = 64;

Status refuse_quota(const std::string& text, const std::string& why) {
  return {
      Code::kConfigError,
      "quota " + text + ": " + why +
          "; accepted: RUN=members:N, RUN=groups:N or both with a "
          "comma between them; RUN is a run's name, or * for each run that has none of its own"};
}

std::optional<std::size_t> number_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Status Quotas::add(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals > kMostRunName) {
    return refuse_quota(text, "no run's name and a quota");
  }
  RunQuota quota;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const std::size_t colon = part.find(':');
    const std::string_view what = part.substr(0, colon);
    auto* limit = what == "members" ? &quota.members : what == "groups" ? &quota.groups : nullptr;
    const auto number =
        colon == std::string_view::npos ? std::nullopt : number_of(part.substr(colon + 1));
    if (limit == nullptr || *limit || !number) {
      return refuse_quota(text, "\"" + std::string(part) + "\" is no limit");
    }
    *limit = number;
  }
  if (by_run_.emplace(text.substr(0, equals), quota).second) return Status::ok();
  return refuse_quota(text, "this run has a quota already");
}

RunQuota Quotas::of(const std::string& run) const {
  auto at = by_run_.find(run);
  if (at == by_run_.end()) at = by_run_.find(kEveryRun);
  return at == by_run_.end() ? RunQuota{} : at->second;
}

std::string run_of_world(const std::string& world) { return world.substr(0, world.find('/')); }

}  // namespace holdfast::ft

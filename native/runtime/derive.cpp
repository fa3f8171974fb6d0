#include "runtime/derive.h"

#include <algorithm>
#include <string>

#include "group/admission.h"

namespace holdfast::runtime {
namespace {

std::string name_of(const UserGroup& parent, const DeriveRequest& request, std::uint64_t call) {
  if (!request.name.empty()) return request.name;
  const std::string number =
      request.members_tag ? "t" + std::to_string(*request.members_tag) : std::to_string(call);
  return parent.name() + "/" + number;
}

Status check_members(const UserGroup& parent, const DeriveRequest& request) {
  const int size = parent.size();
  std::vector<bool> seen(static_cast<std::size_t>(size), false);
  for (const Rank rank : request.ranks) {
    const bool is_member = rank.value >= 0 && rank.value < size;
    if (is_member && !seen[static_cast<std::size_t>(rank.value)]) {
      seen[static_cast<std::size_t>(rank.value)] = true;
      continue;
    }
    return {Code::kConfigError, "derive() of group " + parent.name() + ": rank " +
                                    std::to_string(rank.value) +
                                    (is_member ? " twice" : " of " + std::to_string(size)) +
                                    "; accepted: 0 to size - 1, each at most once"};
  }
  if (request.ranks.empty() && request.members_tag) {
    return {Code::kConfigError, "derive() of group " + parent.name() +
                                    " by its members alone: no ranks; accepted: at least this "
                                    "process's own"};
  }
  return Status::ok();
}

// What this process's part begins with. Driving thread only.
Result<group::GroupConfig> config_of(const Runtime& runtime, const UserGroup& parent,
                                     const DeriveRequest& request, Epoch boundary) {
  const group::Group& live = *parent.live();
  TRY(parent.health());
  if (live.world()->derived() >= kMostDerived) {
    return Status{Code::kConfigError, "derive() of group " + parent.name() + ": this process has " +
                                          std::to_string(kMostDerived) +
                                          " derived groups already; close some"};
  }
  JoinRequest base;
  base.group = request.name;
  base.op_timeout = request.op_timeout;
  group::GroupConfig config = runtime.base_config(base);
  if (base.op_timeout == Duration::zero()) config.timeout = live.config().timeout;
  config.epoch = boundary;
  const ft::WorldView* view = live.world()->view_at(config.epoch);
  if (view == nullptr) {
    return Status{Code::kConfigError, "derive() of group " + parent.name() +
                                          ": its world went through too many views since the "
                                          "last step boundary; call advance() first"};
  }
  for (const Rank rank : request.ranks) {
    config.world_ranks.push_back(live.roster().world_ranks[static_cast<std::size_t>(rank.value)]);
  }
  config.members = group::members_of(config.world_ranks, *view);
  config.derived = true;
  config.lessors = live.lessors_of(request.ranks);
  // Members of one host do share memory; those of a group that goes by messages go so, too.
  config.shares_memory = live.shares_memory();
  return config;
}

}  // namespace

Result<std::shared_ptr<group::Group>> derive_group(Runtime& runtime, UserGroup& parent,
                                                   const DeriveRequest& request) {
  const Epoch boundary = parent.boundary();
  const std::uint64_t call = request.members_tag ? 0 : parent.derivation().count_call(boundary);
  TRY(check_members(parent, request));
  const auto self = std::find(request.ranks.begin(), request.ranks.end(), parent.rank());
  if (self == request.ranks.end()) return std::shared_ptr<group::Group>();
  CommId id = parent.derivation().of_call(boundary, call, request.ranks);
  if (request.members_tag) {
    const auto named =
        parent.derivation().of_members(boundary, *request.members_tag, request.ranks);
    if (!named.is_ok()) return named.status();
    id = named.value();
  }
  Result<std::shared_ptr<group::Group>> made = Status(Code::kAborted, "not made");
  runtime.run([&] {
    auto config = config_of(runtime, parent, request, boundary);
    if (!config.is_ok()) {
      made = config.status();
      return;
    }
    config.value().id = id;
    config.value().name = name_of(parent, request, call);
    config.value().rank = {static_cast<std::int32_t>(self - request.ranks.begin())};
    made = runtime.enter_group(std::move(config).value(), parent.live()->world());
  });
  return made;
}

}  // namespace holdfast::runtime

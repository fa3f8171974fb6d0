#include "runtime/node.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "comm/call/request_check.h"
#include "device_comm/devices.h"
#include "runtime/derive.h"
#include "runtime/rendezvous/late_join.h"
#include "runtime/rendezvous/life.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/rendezvous/subgroup.h"
#include "runtime/runtime.h"
#include "runtime/user_group.h"
#include "topology/link_map.h"

namespace holdfast::runtime {
namespace {

class NodeImpl final : public Node {
 public:
  NodeImpl(std::shared_ptr<Runtime> runtime, device::DriverTable driver)
      : runtime_(std::move(runtime)),
        devices_(device_settings(runtime_->parts().options), runtime_->parts().pool,
                 std::move(driver)) {}
  ~NodeImpl() override {
    runtime_->stop();
    const auto go = [this] {
      runtime_->router().each_world([](const auto& world) { world->drop_lingering(); });
      runtime_->router().say_goodbye();
    };
    runtime_->submit(go, false);
    runtime_->drive_until([] { return false; }, runtime_->clock()->now() + kFarewell);
  }

  Result<std::shared_ptr<comm::Communicator>> join(Store& store,
                                                   const JoinRequest& request) override {
    if (request.size < 1 || request.rank.value < 0 || request.rank.value >= request.size) {
      return Status{Code::kConfigError,
                    "group " + request.group + ": rank " + std::to_string(request.rank.value) +
                        " of " + std::to_string(request.size) + "; accepted: 0 to size - 1"};
    }
    const Duration timeout = request.timeout > Duration::zero()
                                 ? request.timeout
                                 : runtime_->parts().options.connect_timeout;
    TRY(check_ranks(request));
    TRY(check_map(request));
    TRY(check_lock(request));
    TRY(runtime_->await_reach());
    const auto& secret = runtime_->parts().secret;
    if (secret == nullptr) return hand_out(meet(store, request, timeout));
    SealedStore sealed(store, secret->store_seal());
    return hand_out(meet(sealed, request, timeout));
  }

  Result<std::shared_ptr<comm::Communicator>> derive(
      const std::shared_ptr<comm::Communicator>& parent, const DeriveRequest& request) override {
    const auto known = std::dynamic_pointer_cast<UserGroup>(parent);
    if (!known || known->runtime() != runtime_) {
      return Status{Code::kConfigError,
                    "derive(): the parent is no group of this node; accepted: what its join() and "
                    "derive() have given"};
    }
    auto made = derive_group(*runtime_, *known, request);
    if (!made.is_ok()) return made.status();
    if (made.value() == nullptr) return std::shared_ptr<comm::Communicator>();
    return std::shared_ptr<comm::Communicator>(
        std::make_shared<UserGroup>(std::move(made).value(), runtime_));
  }

  Result<std::shared_ptr<comm::Communicator>> join_elastic(const JoinRequest& request,
                                                           std::size_t min_peers) override {
    if (!runtime_->coordinator()) {
      return Status{Code::kConfigError, "group " + request.group +
                                            ": an elastic group needs a coordinator (option "
                                            "coordinator: host:port)"};
    }
    TRY(runtime_->await_reach());
    JoinRequest any = request;
    any.rank = {-1};
    const Duration timeout = request.timeout > Duration::zero()
                                 ? request.timeout
                                 : runtime_->parts().options.connect_timeout;
    return hand_out(LateJoin(runtime_, any, runtime_->clock()->now() + timeout, min_peers).join());
  }

  std::shared_ptr<comm::MemoryPool> pool() const override { return runtime_->parts().pool; }

  Result<device::DriverTable> cuda_driver() override { return devices_.driver(); }
  Result<std::shared_ptr<device_comm::Staged>> staged(int device) override {
    return devices_.staged(device, runtime_);
  }

  std::string address() const override { return runtime_->own_card().addresses.front(); }
  std::string http_address() const override { return runtime_->http_address(); }
  std::string domain() const override { return runtime_->own_card().domain; }
  std::string metrics_text(bool openmetrics) const override {
    return runtime_->health().metrics_text(openmetrics ? metrics::TextFormat::kOpenMetrics
                                                       : metrics::TextFormat::kPlain);
  }
  health::LayerMetrics& layers() override { return runtime_->layers(); }
  void set_stack(int file, int signal) override { runtime_->stacks().set(file, signal); }

  void close(Duration timeout) override {
    std::vector<std::weak_ptr<group::Group>> groups;
    {
      const std::lock_guard lock(mutex_);
      groups.swap(groups_);
    }
    const Instant deadline = runtime_->clock()->now() + timeout;
    // Derived groups end before the groups that they were made of.
    std::vector<std::shared_ptr<group::Group>> all = derived_groups();
    for (const auto& weak : groups) all.push_back(weak.lock());
    for (const auto& group : all) {
      if (!group) continue;
      const Duration left = deadline - runtime_->clock()->now();
      [[maybe_unused]] const Status closed = group->close(std::max(Duration::zero(), left));
    }
    runtime_->stop();
  }

 private:
  std::vector<std::shared_ptr<group::Group>> derived_groups() {
    std::vector<std::shared_ptr<group::Group>> derived;
    runtime_->run([&] {
      runtime_->router().each_world([&](const auto& world) {
        for (auto& group : world->groups()) {
          if (group->config().derived) derived.push_back(std::move(group));
        }
      });
    });
    return derived;
  }

  static device_comm::DeviceSettings device_settings(const Options& options) {
    // What every op is to be encoded as, or to run by, goes for device memory, too: no route is
    // asked for what an option rules out.
    const bool direct =
        options.cuda_ipc == "auto" && options.codec.empty() && options.algorithm.empty();
    device_comm::EncodedSettings encoded;
    encoded.on = options.cuda_codec == "auto" && options.algorithm.empty();
    encoded.least_bytes = options.cuda_codec_min_bytes;
    if (auto codec = compress::Codec::parse(options.codec); codec.is_ok()) {
      encoded.unasked = {std::make_shared<const compress::Codec>(std::move(codec).value()),
                         options.codec_min_bytes};
    }
    return {options.cuda_driver,
            {options.cuda_slice_bytes, direct, options.cuda_ipc_min_bytes, std::move(encoded)}};
  }

  Result<std::shared_ptr<comm::Communicator>> hand_out(Result<std::shared_ptr<group::Group>> live) {
    if (!live.is_ok()) return live.status();
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(groups_, [](const auto& group) { return group.expired(); });
      groups_.push_back(live.value());
    }
    return std::shared_ptr<comm::Communicator>(
        std::make_shared<UserGroup>(std::move(live).value(), runtime_));
  }

  static Status check_ranks(const JoinRequest& request) {
    const int outer = request.parent ? request.parent->size() : std::numeric_limits<int>::max();
    const auto is_none = [outer](Rank rank) { return rank.value < 0 || rank.value >= outer; };
    const auto& ranks = request.ranks;
    const bool sized = ranks.size() == static_cast<std::size_t>(request.size) ||
                       (ranks.empty() && !request.parent);
    if (sized && std::none_of(ranks.begin(), ranks.end(), is_none)) return Status::ok();
    return {Code::kConfigError, "group " + request.group + ": its " + std::to_string(request.size) +
                                    " ranks are named by " + std::to_string(ranks.size()) +
                                    " numbers; accepted: one for each, all of the parent's"};
  }

  // Who has a token or a certificate learns from a coordinator alone whom to trust.
  Status check_lock(const JoinRequest& request) const {
    const Options& options = runtime_->parts().options;
    const bool by_token = !options.token.empty() || !options.token_file.empty();
    if (!by_token && options.tls_cert.empty()) return Status::ok();
    return {Code::kConfigError,
            "group " + request.group + ": its ranks meet in a store, and this process has a " +
                (by_token ? "token" : "certificate") +
                ", which lets it into elastic groups alone; accepted: option secret_file in place "
                "of " +
                (by_token ? "token_file" : "tls_cert, tls_key and tls_ca")};
  }

  // A world must be as large as its map.
  Status check_map(const JoinRequest& request) const {
    const auto& map = runtime_->parts().map;
    if (map == nullptr || request.parent || !request.ranks.empty() || request.size == map->size()) {
      return Status::ok();
    }
    return {Code::kConfigError, "group " + request.group + ": " + std::to_string(request.size) +
                                    " ranks; accepted: " + std::to_string(map->size()) +
                                    ", as the map of the option topology has"};
  }

  Result<std::shared_ptr<group::Group>> meet(Store& store, const JoinRequest& request,
                                             Duration timeout) {
    const Instant deadline = runtime_->clock()->now() + timeout;
    if (request.parent) {
      if (auto place = place_in_parent(request)) {
        return Subgroup(runtime_, store, request, std::move(*place), deadline).run();
      }
      TRY(refuse_vacancies(request));
    }
    // If this process joined the group's world later, the other members have made the group
    // already.
    std::shared_ptr<group::Group> known;
    runtime_->run([&] { known = runtime_->known_group(request); });
    if (known) return known;
    for (;;) {
      auto group = meet_in_life(store, request, deadline);
      if (!group.is_ok() || group.value() != nullptr) return group;
      if (runtime_->clock()->now() < deadline) continue;
      return Status{Code::kTimeout, "group " + request.group +
                                        ": its ranks were started again and again, and never met "
                                        "in time (option connect_timeout)"};
    }
  }

  // Null: the life that the store had is over.
  Result<std::shared_ptr<group::Group>> meet_in_life(Store& store, const JoinRequest& request,
                                                     Instant deadline) {
    auto life = Life::find(store, request);
    if (!life.is_ok()) return life.status();
    const auto standing = LateJoin::find_standing(*runtime_, store, request, life.value());
    if (!standing.is_ok()) return standing.status();
    if (standing.value() == LateJoin::LifeStanding::kWasThere) {
      TRY(life.value().end(store));
      return std::shared_ptr<group::Group>();
    }
    if (standing.value() == LateJoin::LifeStanding::kSuccessor) {
      return LateJoin(runtime_, request, deadline).rejoin(store, life.value());
    }
    auto group = Rendezvous(runtime_, store, request, life.value(), deadline).run();
    const bool begun = group.is_ok() && group.value() != nullptr;
    if (begun && runtime_->coordinator()) {
      TRY(meet_coordinator(*runtime_, deadline - runtime_->clock()->now()));
    }
    return group;
  }

  // nullopt: the parent belongs to another node, with options of its own.
  std::optional<Subgroup::GroupPlace> place_in_parent(const JoinRequest& request) const {
    const auto parent = std::dynamic_pointer_cast<UserGroup>(request.parent);
    if (!parent || parent->runtime() != runtime_) return std::nullopt;
    Subgroup::GroupPlace place{parent->live()->world(), {}};
    runtime_->run([&] {
      const std::vector<Rank>& ranks = parent->live()->roster().world_ranks;
      for (const Rank rank : request.ranks) {
        place.ranks.push_back(ranks[static_cast<std::size_t>(rank.value)]);
      }
    });
    return place;
  }

  // A group that is made by the store alone would wait for processes that are gone: fails instead.
  static Status refuse_vacancies(const JoinRequest& request) {
    const std::vector<Rank> alive = request.parent->live_ranks();
    std::vector<Rank> lost;
    for (std::size_t r = 0; r < request.ranks.size(); ++r) {
      const bool is_there = std::find(alive.begin(), alive.end(), request.ranks[r]) != alive.end();
      if (!is_there) lost.push_back({static_cast<std::int32_t>(r)});
    }
    if (lost.empty()) return Status::ok();
    return Status(Code::kPeerLost, "group " + request.group + ": lost " + comm::rank_list(lost) +
                                       "; a group with options of its own is made when all of its "
                                       "ranks are there")
        .about(lost, {});
  }

  // Time for the last frames to reach the kernel.
  static constexpr Duration kFarewell = std::chrono::milliseconds(2);
  // Owners: the node and its communicators.
  std::shared_ptr<Runtime> runtime_;
  device_comm::Devices devices_;
  std::mutex mutex_;                                 // guards groups_
  std::vector<std::weak_ptr<group::Group>> groups_;  // those that were met for
};

}  // namespace

Result<std::shared_ptr<Node>> Node::create(const Options& options,
                                           std::shared_ptr<comm::MemoryPool> pool,
                                           device::DriverTable driver) {
  TRY(validate(options));
  if (pool == nullptr) pool = std::make_shared<comm::MemoryPool>();
  auto runtime = Runtime::create(options, nullptr, std::move(pool));
  if (!runtime.is_ok()) return runtime.status();
  return std::shared_ptr<Node>(
      std::make_shared<NodeImpl>(std::move(runtime).value(), std::move(driver)));
}

}  // namespace holdfast::runtime

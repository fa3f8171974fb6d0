#include "runtime/node.h"

#include <algorithm>
#include <mutex>

#include "runtime/arrival.h"
#include "runtime/meeting.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// What users hold: dropping it without close() cleans up too.
class Handle final : public comm::Communicator {
 public:
  Handle(std::shared_ptr<ft::Group> live, std::shared_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)), live_(std::move(live)) {}
  ~Handle() override {
    // Ops that still run are nobody's now: end them at once.
    [[maybe_unused]] const Status closed = live_->close(Duration::zero());
  }

  Rank rank() const override { return live_->rank(); }
  int size() const override { return live_->size(); }
  comm::View view() const override { return live_->view(); }
  std::vector<Rank> live_ranks() const override { return live_->live_ranks(); }
  const std::string& name() const override { return live_->name(); }
  std::vector<std::string> transports() const override { return live_->transports(); }
  Result<std::shared_ptr<comm::Work>> start(comm::OpRequest request) override {
    return live_->start(std::move(request));
  }
  Result<comm::Ran> run(comm::OpRequest&& request) override {
    return live_->run(std::move(request));
  }
  std::shared_ptr<comm::Work> advance(Duration timeout) override { return live_->advance(timeout); }
  bool is_newcomer() const override { return live_->is_newcomer(); }
  void wake() override { live_->wake(); }
  void abort(const std::string& reason) override { live_->abort(reason); }
  Status close(Duration timeout) override { return live_->close(timeout); }
  Status health() const override { return live_->health(); }

 private:
  // Owners: the node and its communicators; the links that ops use live in it.
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<ft::Group> live_;
};

class LiveNode final : public Node {
 public:
  explicit LiveNode(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~LiveNode() override {
    runtime_->stop();
    runtime_->submit([this] { runtime_->hub().say_goodbye(); }, false);
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
    return hand_out(meet(store, request, timeout));
  }

  Result<std::shared_ptr<comm::Communicator>> join_elastic(const JoinRequest& request,
                                                           std::size_t min_peers) override {
    if (!runtime_->coordinator()) {
      return Status{Code::kConfigError, "group " + request.group +
                                            ": an elastic group needs a coordinator (option "
                                            "coordinator: host:port)"};
    }
    JoinRequest any = request;
    any.rank = {-1};
    const Duration timeout = request.timeout > Duration::zero()
                                 ? request.timeout
                                 : runtime_->parts().options.connect_timeout;
    return hand_out(Arrival(runtime_, any, timeout, min_peers).join());
  }

  std::string address() const override { return runtime_->own_card().addresses.front(); }

  void close(Duration timeout) override {
    std::vector<std::weak_ptr<ft::Group>> groups;
    {
      const std::lock_guard lock(mutex_);
      groups.swap(groups_);
    }
    const Instant deadline = runtime_->clock()->now() + timeout;
    for (const auto& weak : groups) {
      const auto group = weak.lock();
      if (!group) continue;
      const Duration left = deadline - runtime_->clock()->now();
      [[maybe_unused]] const Status closed = group->close(std::max(Duration::zero(), left));
    }
    runtime_->stop();
  }

 private:
  Result<std::shared_ptr<comm::Communicator>> hand_out(Result<std::shared_ptr<ft::Group>> live) {
    if (!live.is_ok()) return live.status();
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(groups_, [](const auto& group) { return group.expired(); });
      groups_.push_back(live.value());
    }
    return std::shared_ptr<comm::Communicator>(
        std::make_shared<Handle>(std::move(live).value(), runtime_));
  }

  Result<std::shared_ptr<ft::Group>> meet(Store& store, const JoinRequest& request,
                                          Duration timeout) {
    // A group of a world that this process came to later: the others have it already.
    std::shared_ptr<ft::Group> known;
    runtime_->run([&] { known = runtime_->known_group(request); });
    if (known) return known;
    auto again = Arrival::is_due(store, request);
    if (!again.is_ok()) return again.status();
    if (again.value()) return Arrival(runtime_, request, timeout).rejoin(store);
    auto group = Meeting(runtime_, store, request, timeout).run();
    if (group.is_ok() && runtime_->coordinator()) TRY(meet_coordinator(*runtime_, timeout));
    return group;
  }

  // Time for the last frames to reach the kernel.
  static constexpr Duration kFarewell = std::chrono::milliseconds(2);
  // Owners: the node and its communicators.
  std::shared_ptr<Runtime> runtime_;
  std::mutex mutex_;  // guards groups_
  std::vector<std::weak_ptr<ft::Group>> groups_;
};

}  // namespace

Result<std::shared_ptr<Node>> Node::create(const Options& options) {
  TRY(validate(options));
  auto runtime = Runtime::create(options);
  if (!runtime.is_ok()) return runtime.status();
  return std::shared_ptr<Node>(std::make_shared<LiveNode>(std::move(runtime).value()));
}

}  // namespace holdfast::runtime

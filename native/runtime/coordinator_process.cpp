#include "runtime/coordinator_process.h"

#include <random>

#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

class LiveCoordinator final : public CoordinatorProcess {
 public:
  explicit LiveCoordinator(const ft::Coordination::Settings& settings) : coordination_(settings) {}
  ~LiveCoordinator() override { close(); }

  Status start(const Options& options) {
    auto runtime = Runtime::create(options, &coordination_);
    if (!runtime.is_ok()) return runtime.status();
    runtime_ = std::move(runtime).value();
    return Status::ok();
  }

  std::uint16_t port() const override { return runtime_->parts().port; }
  std::string http_address() const override { return runtime_->http_address(); }

  std::vector<ft::Coordination::Standing> worlds() override {
    std::vector<ft::Coordination::Standing> worlds;
    runtime_->run([&] { worlds = coordination_.worlds(); });
    return worlds;
  }

  void close() override {
    if (runtime_) runtime_->stop();
  }

 private:
  ft::Coordination coordination_;
  // Before what it refers to.
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace

Result<std::shared_ptr<CoordinatorProcess>> CoordinatorProcess::create(const Options& options,
                                                                       std::size_t min_peers) {
  Options own = options;
  own.coordinator.clear();
  TRY(validate(own));
  std::random_device random;
  ft::Coordination::Settings settings;
  settings.heartbeat = own.heartbeat;
  settings.silence = own.silence;
  settings.instance = (std::uint64_t{random()} << 32) | random();
  settings.min_peers = min_peers;
  auto coordinator = std::make_shared<LiveCoordinator>(settings);
  TRY(coordinator->start(own));
  return std::shared_ptr<CoordinatorProcess>(std::move(coordinator));
}

}  // namespace holdfast::runtime

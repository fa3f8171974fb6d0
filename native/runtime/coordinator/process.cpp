#include "runtime/coordinator/process.h"

#include <random>

#include "runtime/coordinator/etcd/record_etcd.h"
#include "runtime/coordinator/issuer.h"
#include "runtime/coordinator/record_file.h"
#include "runtime/coordinator/record_store.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

Result<std::unique_ptr<ft::Record>> open_record(const CoordinatorOptions& own) {
  if (own.lease) return std::unique_ptr<ft::Record>(std::make_unique<EtcdRecord>(own.lease));
  if (!own.record_file.empty()) return open_record_file(own.record_file);
  if (!own.record_store) return std::unique_ptr<ft::Record>();
  return std::unique_ptr<ft::Record>(std::make_unique<RecordStore>(*own.record_store));
}

class CoordinatorProcessImpl final : public CoordinatorProcess {
 public:
  CoordinatorProcessImpl(const ft::CoordinatorService::Settings& settings,
                         std::unique_ptr<ft::Record> record, std::shared_ptr<Store> store,
                         std::unique_ptr<ViewIssuer> issuer)
      : store_(std::move(store)),
        record_(std::move(record)),
        issuer_(std::move(issuer)),
        service_(settings) {}
  ~CoordinatorProcessImpl() override { close(); }

  Status start(const Options& options) {
    auto runtime = Runtime::create(options, &service_);
    if (!runtime.is_ok()) return runtime.status();
    runtime_ = std::move(runtime).value();
    return Status::ok();
  }

  std::uint16_t port() const override { return runtime_->parts().port; }
  std::string http_address() const override { return runtime_->http_address(); }

  RelayServer::RelayCounts relay_counts() const override {
    const auto& relay = runtime_->parts().relay;
    return relay ? relay->counts() : RelayServer::RelayCounts{};
  }

  std::vector<ft::CoordinatorService::WorldStanding> worlds() override {
    std::vector<ft::CoordinatorService::WorldStanding> worlds;
    runtime_->run([&] { worlds = service_.worlds(); });
    return worlds;
  }

  void revoke(const std::set<secure::Serial>& serials) override { runtime_->revoke(serials); }

  std::vector<std::string> look_at_certificates() override {
    return runtime_->look_at_certificates();
  }

  void close() override {
    if (runtime_) runtime_->stop();
  }

 private:
  std::shared_ptr<Store> store_;
  std::unique_ptr<ft::Record> record_;
  std::unique_ptr<ViewIssuer> issuer_;  // null: there is no secret
  ft::CoordinatorService service_;
  // Last, so that it is destroyed before what it refers to.
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace

Result<std::shared_ptr<CoordinatorProcess>> CoordinatorProcess::create(
    const Options& options, const CoordinatorOptions& own) {
  Options mine = options;
  mine.coordinator.clear();
  TRY(validate(mine));
  auto record = open_record(own);
  if (!record.is_ok()) return record.status();
  std::unique_ptr<ViewIssuer> issuer;
  if (!mine.secret_file.empty()) {
    auto opened = ViewIssuer::open(mine.secret_file);
    if (!opened.is_ok()) return opened.status();
    issuer = std::move(opened).value();
  }
  std::random_device random;
  ft::CoordinatorService::Settings settings;
  settings.heartbeat = mine.heartbeat;
  settings.silence = silence_of(mine);
  settings.instance = (std::uint64_t{random()} << 32) | random();
  // Terms are in order whatever the clocks of the coordinators' hosts say.
  settings.started = own.lease ? own.lease->term() : tenths_since_1970();
  settings.min_peers = own.min_peers;
  settings.grace = own.grace;
  settings.keep = own.keep;
  settings.record = record.value().get();
  settings.quotas = own.quotas;
  settings.notary = issuer.get();
  if (is_sealed(mine)) settings.host_of = host_in_card;
  auto coordinator = std::make_shared<CoordinatorProcessImpl>(settings, std::move(record).value(),
                                                              own.record_store, std::move(issuer));
  TRY(coordinator->start(mine));
  coordinator->revoke(own.revoked);
  return std::shared_ptr<CoordinatorProcess>(std::move(coordinator));
}

}  // namespace holdfast::runtime

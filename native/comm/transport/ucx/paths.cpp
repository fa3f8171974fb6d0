#include "comm/transport/ucx/paths.h"

#include <map>
#include <utility>

#include "comm/transport/ucx/ucx.h"

namespace holdfast::comm {
namespace {

class UcxPath final : public DataPath {
 public:
  explicit UcxPath(std::unique_ptr<UcxLink> link) : link_(std::move(link)) {}
  Link& link() override { return *link_; }

 private:
  std::unique_ptr<UcxLink> link_;
};

class UcxPaths final : public PathMaker {
 public:
  explicit UcxPaths(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}

  Result<std::string> offer(MemberId callee) override {
    auto& link = offered_[callee] = worker_->make_link();
    return link->card();
  }

  // The answerer connects at once: the caller may send as soon as it has the answer.
  std::string accept(MemberId caller, const std::string& offer) override {
    auto& link = offered_[caller] = worker_->make_link();
    link->connect(offer);
    return link->card();
  }

  // `control` is not needed: the control channel itself finds out whether the peer lives.
  std::unique_ptr<DataPath> make(MemberId peer, const std::string& said, bool is_caller,
                                 StreamLink&) override {
    auto offer = offered_.extract(peer);
    if (offer.empty()) return nullptr;
    if (is_caller) offer.mapped()->connect(said);
    return std::make_unique<UcxPath>(std::move(offer.mapped()));
  }

  void forget(MemberId peer) override { offered_.erase(peer); }

  int fd() const override { return worker_->fd(); }
  bool arm() override { return worker_->arm(); }
  bool progress() override { return worker_->progress(); }
  bool busy() const override { return worker_->busy(); }

 private:
  std::unique_ptr<UcxWorker> worker_;  // outlives its links
  std::map<MemberId, std::unique_ptr<UcxLink>> offered_;
};

}  // namespace

Result<std::unique_ptr<PathMaker>> open_ucx(const PathSettings&) {
  auto worker = UcxWorker::create();
  if (!worker.is_ok()) return worker.status();
  return std::unique_ptr<PathMaker>(std::make_unique<UcxPaths>(std::move(worker).value()));
}

}  // namespace holdfast::comm

// User group: the communicator that users hold: a group, what chooses its plans and codecs, and the
// names of groups that are made of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/plan/path_agreement.h"
#include "comm/plan/planner.h"
#include "comm/plan/route.h"
#include "group/group.h"
#include "group/parts/derivation.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// Dropping it without close() cleans up too.
class UserGroup final : public comm::Communicator {
 public:
  UserGroup(std::shared_ptr<group::Group> live, std::shared_ptr<Runtime> runtime);
  ~UserGroup() override;

  Rank rank() const override { return live_->rank(); }
  int size() const override { return live_->size(); }
  CommId id() const override { return live_->id(); }
  comm::View view() const override { return live_->view(); }
  std::vector<Rank> live_ranks() const override { return live_->live_ranks(); }
  const std::string& name() const override { return live_->name(); }
  comm::Placement placement() const override { return live_->placement(); }
  std::vector<int> hosts() const override { return live_->hosts(); }
  Epoch boundary() const override { return live_->boundary(); }
  std::shared_ptr<comm::PathAgreement> path_agreement() override { return agreement_; }
  std::shared_ptr<comm::PathAgreement> codec_agreement() override { return codec_agreement_; }
  comm::PlanTable plan() const override { return planner_->table(); }
  std::vector<std::string> transports() const override { return live_->transports(); }
  Result<std::shared_ptr<comm::Mailbox>> mailbox() override { return live_->mailbox(); }
  void tell_of_wait(const std::shared_ptr<comm::LongWait>& wait, comm::WaitPhase phase) override {
    live_->tell_of_wait(wait, phase);
  }
  Result<std::shared_ptr<comm::Work>> start(comm::OpRequest request) override;
  Result<comm::Ran> run(comm::OpRequest&& request) override;
  // An op whose plan is measured at its first use is not instant.
  bool is_instant(const comm::OpRequest& request) const override {
    return !runtime_->parts().options.tune && live_->is_instant(request);
  }
  std::shared_ptr<comm::Work> advance(Duration timeout) override;
  comm::TakenMap map() const override { return live_->map(); }
  Status take_map(std::shared_ptr<const std::string> text) override {
    return live_->take_map(std::move(text));
  }
  bool is_newcomer() const override { return live_->is_newcomer(); }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const std::shared_ptr<group::Group>& live() const { return live_; }
  group::Derivation& derivation() { return derivation_; }
  void wake() override { live_->wake(); }
  void abort(const std::string& reason) override { live_->abort(reason); }
  Status close(Duration timeout) override { return live_->close(timeout); }
  Status health() const override;
  std::vector<std::byte> flight_record() const override {
    return runtime_->health().flight().snapshot();
  }
  std::string http_address() const override { return runtime_->http_address(); }

 private:
  comm::PlannerSettings planner_settings() const;

  void choose_codec(comm::OpRequest& request) const {
    if (comm::is_encoded_unasked(request, codec_)) request.codec = codec_.codec;
  }

  // Owners: the node and its communicators; the links that ops use live in it.
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<group::Group> live_;
  std::shared_ptr<comm::Planner> planner_;  // owners: this, and a step boundary under way
  const std::shared_ptr<comm::PathAgreement> agreement_ = std::make_shared<comm::PathAgreement>();
  const std::shared_ptr<comm::PathAgreement> codec_agreement_ =
      std::make_shared<comm::PathAgreement>();
  comm::CodecOption codec_;
  group::Derivation derivation_;
};

}  // namespace holdfast::runtime

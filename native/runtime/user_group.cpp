#include "runtime/user_group.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace holdfast::runtime {
namespace {

// Writes the table, merged with what other groups have written to the file since. A table that
// cannot be written costs the next run a measurement, and this run nothing.
void write_plan(const std::string& file, const comm::PlanTable& table) {
  Options options;
  options.plan = file;
  options.tune = true;
  auto known = read_plan(options);
  comm::PlanTable all = known.is_ok() ? std::move(known).value() : comm::PlanTable{};
  all.merge(table);
  const std::string fresh = file + "." + std::to_string(::getpid());
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << all.text();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(fresh, file, error);
  if (!out || error) {
    std::fprintf(stderr, "holdfast: cannot write the plans to %s (option plan)\n", file.c_str());
    std::filesystem::remove(fresh, error);
  }
}

}  // namespace

UserGroup::UserGroup(std::shared_ptr<group::Group> live, std::shared_ptr<Runtime> runtime)
    : runtime_(std::move(runtime)),
      live_(std::move(live)),
      planner_(std::make_shared<comm::Planner>(planner_settings(), runtime_->clock())),
      derivation_(live_->id()) {
  if (live_->is_newcomer()) planner_->forget();
  if (runtime_->parts().options.codec.empty()) return;
  if (auto codec = compress::Codec::parse(runtime_->parts().options.codec); codec.is_ok()) {
    codec_ = {std::make_shared<compress::Codec>(std::move(codec).value()),
              runtime_->parts().options.codec_min_bytes};
  }
}

UserGroup::~UserGroup() {
  // Ops that still run have no owner any more: end them at once.
  [[maybe_unused]] const Status closed = live_->close(Duration::zero());
}

comm::PlannerSettings UserGroup::planner_settings() const {
  const Options& options = runtime_->parts().options;
  if (!options.algorithm.empty()) return {};
  comm::PlannerSettings settings{runtime_->parts().plan, options.tune};
  const bool writes = options.tune && !options.plan.empty() && live_->rank().value == 0;
  if (writes) {
    settings.on_measured = [file = options.plan](const auto& table) { write_plan(file, table); };
  }
  return settings;
}

// A derived group that was left may go on for the other members' sake.
Status UserGroup::health() const {
  Status ended = live_->health();
  if (!ended.is_ok() || !live_->is_closed()) return ended;
  return {Code::kNotMember, "group " + name() + " is closed"};
}

Result<std::shared_ptr<comm::Work>> UserGroup::start(comm::OpRequest request) {
  choose_codec(request);
  TRY(planner_->choose(*live_, request));
  return live_->start(std::move(request));
}

Result<comm::Ran> UserGroup::run(comm::OpRequest&& request) {
  choose_codec(request);
  TRY(planner_->choose(*live_, request));
  return live_->run(std::move(request));
}

std::shared_ptr<comm::Work> UserGroup::advance(Duration timeout) {
  auto work = live_->advance(timeout);
  if (!runtime_->parts().options.tune) return work;
  work->on_done([planner = planner_, passed = work.get()](const Status& status) {
    if (status.is_ok() && !passed->outcome().joined.empty()) planner->forget();
  });
  return work;
}

}  // namespace holdfast::runtime

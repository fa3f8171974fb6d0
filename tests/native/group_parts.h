// What tests of a group's parts have in common: virtual time, an executor that runs everything at
// once, and works of ops that nobody runs.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/call/op_work.h"
#include "comm/executor.h"

namespace holdfast::testing {

class SetClock final : public Clock {
 public:
  Instant now() const override { return time; }
  Instant time = Instant{} + std::chrono::hours(1);
};

class AtOnce final : public comm::Executor {
 public:
  void submit(Task task, bool) override { task(); }
  void defer(Task task) override { task(); }
  bool drive_inline(const std::function<bool(bool)>&) override { return false; }
  bool has_tasks() const override { return tasks; }
  void drive_until(const std::function<bool()>&, Instant) override {}
  bool tasks = false;
};

inline std::shared_ptr<comm::OpWork> make_work(comm::OpRequest request, std::uint64_t number) {
  return std::make_shared<comm::OpWork>(std::move(request), OpSeq{number},
                                        std::make_shared<AtOnce>(), std::make_shared<SetClock>());
}

inline comm::OpRequest sum_in_place(std::vector<float>& data) {
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.input = {{reinterpret_cast<std::byte*>(data.data()), data.size()}};
  request.output = request.input;
  request.timeout = std::chrono::seconds(1);
  return request;
}

}  // namespace holdfast::testing

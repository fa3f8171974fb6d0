// Threads that wait at a post office while another one drives: whatever ends their wait makes the
// driver let go, so that they look at once and not when their time to look again has come.
#include "comm/message/post_office.h"

#include <doctest/doctest.h>

#include <vector>

#include "group_parts.h"

namespace holdfast::testing {
namespace {

using namespace comm;
using std::chrono::seconds;

constexpr ContextId kTalk{7};

// Another thread drives: tasks wait for it, and a caller that waits sleeps, while `meanwhile` is
// what other threads do.
class Driven final : public Executor {
 public:
  void submit(Task task, bool) override { tasks_.push_back(std::move(task)); }
  void defer(Task) override { ++lets_go; }
  bool drive_inline(const std::function<bool(bool)>&) override { return false; }
  bool has_tasks() const override { return !tasks_.empty(); }
  void drive_until(const std::function<bool()>& done, Instant) override {
    ++sleeps;
    meanwhile();
    run();
    woken = done();
  }
  void run() {
    std::vector<Task> tasks;
    tasks.swap(tasks_);
    for (Task& task : tasks) task();
  }

  std::function<void()> meanwhile = [] {};
  int lets_go = 0;
  int sleeps = 0;
  bool woken = false;

 private:
  std::vector<Task> tasks_;
};

// A rank that is alone.
struct Alone {
  Alone() {
    const std::vector<Rank> self{{0}};
    REQUIRE(office->open(kTalk, self).is_ok());
  }
  void send(MailRequest& request, int tag) {
    office->send(request, {kTalk, {0}, tag, SendMode::kStandard, {}});
  }
  std::shared_ptr<Driven> driven = std::make_shared<Driven>();
  std::shared_ptr<PostOffice> office =
      std::make_shared<PostOffice>(Rank{0}, 1, MailLimits{}, driven, std::make_shared<SetClock>());
};

}  // namespace

TEST_CASE("a message that another thread sends ends a wait while a third one drives") {
  Alone alone;
  MailRequest receive;
  MailRequest send;
  alone.office->receive(receive, {kTalk}, {});
  alone.driven->meanwhile = [&] { alone.send(send, 1); };
  CHECK(alone.office->wait(receive, seconds(5)));
  CHECK(alone.driven->sleeps == 1);
  CHECK(alone.driven->lets_go == 1);
  CHECK(alone.driven->woken);
}

TEST_CASE("a receive that another thread cancels ends a wait while a third one drives") {
  Alone alone;
  MailRequest receive;
  alone.office->receive(receive, {kTalk}, {});
  alone.driven->meanwhile = [&] { CHECK(alone.office->cancel(receive)); };
  CHECK(alone.office->wait(receive, seconds(5)));
  CHECK(receive.result.outcome == MailOutcome::kCancelled);
  CHECK(alone.driven->lets_go == 1);
}

TEST_CASE("a message that nobody has asked for ends a wait for a probe while a third one drives") {
  Alone alone;
  MailRequest send;
  alone.driven->meanwhile = [&] { alone.send(send, 3); };
  const auto found = alone.office->wait_probe({kTalk}, seconds(5));
  REQUIRE(found.is_ok());
  REQUIRE(found.value().has_value());
  CHECK(found.value()->tag == 3);
  CHECK(alone.driven->lets_go == 1);
  const auto taken = alone.office->wait_match({kTalk}, seconds(5));
  REQUIRE(taken.is_ok());
  CHECK(taken.value());
  CHECK(alone.driven->sleeps == 1);
}

TEST_CASE("what the driver ends makes it let go, if a thread waits") {
  Alone alone;
  MailRequest receive;
  alone.office->receive(receive, {kTalk}, {});
  alone.driven->meanwhile = [&] { alone.office->end({Code::kAborted, "the user aborted"}); };
  CHECK(alone.office->wait(receive, seconds(5)));
  CHECK(alone.driven->lets_go == 1);
}

TEST_CASE("nobody is disturbed by what no other thread waits for") {
  Alone alone;
  MailRequest receive;
  MailRequest send;
  alone.office->receive(receive, {kTalk}, {});
  alone.send(send, 1);
  CHECK(alone.office->wait(receive, seconds(5)));
  alone.driven->run();
  CHECK(alone.driven->lets_go == 0);
  CHECK(alone.driven->sleeps == 0);
  // A probe waits, and a receive takes the message: nothing was found, so nothing is new.
  alone.driven->meanwhile = [&] {
    alone.office->receive(receive, {kTalk}, {});
    alone.send(send, 2);
  };
  const auto found = alone.office->wait_probe({kTalk}, {});
  REQUIRE(found.is_ok());
  CHECK(!found.value().has_value());
}

}  // namespace holdfast::testing

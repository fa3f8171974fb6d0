// What messages of the mailbox cost between two processes of a host: latency, bandwidth, and many
// in flight whose receives are posted in the order of their tags or in reverse. Prints JSON lines.
// By hand, and once as a test that it runs. Each rank keeps to a core of its own: on a busy machine
// both may else lie on one, where they can only take turns.
//
//   mail_rates ROUNDS [TRANSPORT]
#define DOCTEST_CONFIG_IMPLEMENT  // process_worlds.h is of the tests
#include <doctest/doctest.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "comm/message/mailbox.h"
#include "rank_processes.h"

namespace {

using namespace holdfast;
using namespace holdfast::bench;
using namespace holdfast::comm;
using std::chrono::seconds;

constexpr ContextId kTalk{7};
constexpr Duration kPatience = seconds(60);

class Pair {
 public:
  Pair(Mailbox& mail, Rank other) : mail_(mail), other_(other) {}

  void send(std::span<const std::byte> bytes, std::int32_t tag) {
    mail_.send(send_, {kTalk, other_, tag, SendMode::kStandard, {bytes.data(), bytes.size()}});
    must(mail_.wait(send_, kPatience), "a send hangs");
  }
  void receive(std::span<std::byte> room, std::int32_t tag) {
    mail_.receive(receive_, {kTalk, other_, tag}, {room.data(), room.size()});
    must(mail_.wait(receive_, kPatience), "a receive hangs");
    must(receive_.result.outcome == MailOutcome::kOk, receive_.result.status.message());
  }
  // Both have come so far.
  void meet() {
    std::byte one{};
    if (first()) {
      send({&one, 1}, 1000);
      receive({&one, 1}, 1001);
    } else {
      receive({&one, 1}, 1000);
      send({&one, 1}, 1001);
    }
  }
  bool first() const { return mail_.rank().value == 0; }
  Mailbox& mail() { return mail_; }
  Rank other() const { return other_; }

 private:
  Mailbox& mail_;
  Rank other_;
  MailRequest send_;
  MailRequest receive_;
};

// There and back; the time of one way.
void time_latency(Pair& pair, std::size_t bytes, int rounds) {
  const int batch_rounds = bytes > 65'536 ? 10 : 100;
  std::vector<std::byte> data(bytes);
  Samples samples;
  pair.meet();
  for (int batch = 0; batch < rounds / batch_rounds + 1; ++batch) {
    const double begun = now_us();
    for (int i = 0; i < batch_rounds; ++i) {
      if (pair.first()) {
        pair.send(data, 1);
        pair.receive(data, 1);
      } else {
        pair.receive(data, 1);
        pair.send(data, 1);
      }
    }
    samples.add((now_us() - begun) / (2 * batch_rounds));
  }
  if (!pair.first()) return;
  const double median = samples.median();
  std::printf(
      "{\"name\": \"mail_latency\", \"bytes\": %zu, \"time_us\": %.3f, \"least_us\": %.3f, "
      "\"GB_s\": %.3f}\n",
      bytes, median, samples.least(), static_cast<double>(bytes) / median * 1e-3);
  std::fflush(stdout);
}

// Windows of messages one way, and a word back.
void time_bandwidth(Pair& pair, std::size_t bytes, int rounds) {
  constexpr std::size_t kWindow = 16;
  std::vector<std::vector<std::byte>> data(kWindow, std::vector<std::byte>(bytes));
  std::vector<MailRequest> requests(kWindow);
  std::vector<MailRequest*> all;
  for (MailRequest& request : requests) all.push_back(&request);
  Samples samples;
  pair.meet();
  for (int round = 0; round < rounds; ++round) {
    const double begun = now_us();
    for (std::size_t i = 0; i < kWindow; ++i) {
      if (pair.first()) {
        pair.mail().send(requests[i],
                         {kTalk, pair.other(), 1, SendMode::kStandard, {data[i].data(), bytes}});
      } else {
        pair.mail().receive(requests[i], {kTalk, pair.other(), 1}, {data[i].data(), bytes});
      }
    }
    must(pair.mail().wait_all(all, kPatience), "messages hang");
    pair.meet();
    samples.add(now_us() - begun);
  }
  if (!pair.first()) return;
  const double median = samples.median();
  std::printf("{\"name\": \"mail_bandwidth\", \"bytes\": %zu, \"time_us\": %.2f, \"GB_s\": %.3f}\n",
              bytes, median / kWindow, static_cast<double>(bytes * kWindow) / median * 1e-3);
  std::fflush(stdout);
}

// All receives are posted while the messages come, of tags that rise or fall.
void time_many(Pair& pair, int count, bool reverse, int rounds) {
  constexpr std::size_t kBytes = 8;
  std::vector<std::byte> data(static_cast<std::size_t>(count) * kBytes);
  std::vector<MailRequest> requests(static_cast<std::size_t>(count));
  std::vector<MailRequest*> all;
  for (MailRequest& request : requests) all.push_back(&request);
  Samples samples;
  for (int round = 0; round < rounds; ++round) {
    pair.meet();
    const double begun = now_us();
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::byte* const bytes = data.data() + at * kBytes;
      if (pair.first()) {
        pair.mail().send(requests[at],
                         {kTalk, pair.other(), i, SendMode::kStandard, {bytes, kBytes}});
      } else {
        const int tag = reverse ? count - 1 - i : i;
        pair.mail().receive(requests[at], {kTalk, pair.other(), tag}, {bytes, kBytes});
      }
    }
    must(pair.mail().wait_all(all, kPatience), "messages hang");
    pair.meet();
    samples.add(now_us() - begun);
  }
  if (!pair.first()) return;
  std::printf(
      "{\"name\": \"mail_in_flight\", \"messages\": %d, \"reverse\": %s, \"time_ms\": %.2f}\n",
      count, reverse ? "true" : "false", samples.median() / 1000);
  std::fflush(stdout);
}

void keep_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);  // without it the figures are worse
}

void run_rank(int rank, int rounds, const std::string& transport, const std::string& folder) {
  testing::FileStore store(folder);
  runtime::Options options;
  if (!transport.empty()) options.transports = {transport};
  const World world(store, rank, 2, options);
  const auto mail = must(world.group->mailbox(), "mailbox");
  const std::vector<Rank> members{{0}, {1}};
  must(mail->open(kTalk, members), "open");
  Pair pair(*mail, {1 - rank});
  for (int i = 0; i < 100; ++i) pair.meet();
  for (const std::size_t bytes : {8UL, 64UL, 1024UL, 4096UL, 16'384UL}) {
    time_latency(pair, bytes, rounds);
  }
  for (const int kib : {64, 256, 1024, 4096}) {
    const std::size_t bytes = static_cast<std::size_t>(kib) * 1024;
    time_latency(pair, bytes, rounds / 20 + 10);
    time_bandwidth(pair, bytes, rounds / 100 + 3);
  }
  for (const bool reverse : {false, true}) {
    time_many(pair, 10'000, reverse, rounds / 1000 + 3);
  }
  must(world.group->close(kPatience), "close");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20'000;
  const std::string transport = argc > 2 ? argv[2] : "";
  if (rounds <= 0) return 1;
  const bool well = run_ranks(2, [&](int rank, const std::string& folder) {
    keep_to_core(rank);
    run_rank(rank, rounds, transport, folder);
  });
  return well ? 0 : 1;
}

// Hosts with little shared memory: what is not to be had is known when it is asked for, and no
// process is ended by a page that is missing.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>

#include "comm/engine/host_area.h"
#include "comm/transport/shm.h"
#include "process_worlds.h"
#include "sanitized.h"
#include "sim/random.h"
#include "worlds.h"

namespace holdfast::testing {
namespace {

using comm::RingReader;
using comm::RingWriter;
using comm::Segment;

// Shared memory of its own size, for processes that go there; held by a process in it.
class OtherMemory {
 public:
  explicit OtherMemory(const std::string& size) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    holder_ = ::fork();
    if (holder_ == 0) {
      const bool made = ::unshare(CLONE_NEWNS) == 0 &&
                        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, ("size=" + size).c_str()) == 0;
      if (::write(ends[1], &made, sizeof made) == sizeof made) ::pause();
      ::_exit(0);
    }
    REQUIRE(::read(ends[0], &made_, sizeof made_) == sizeof made_);
    for (const int end : ends) ::close(end);
  }
  ~OtherMemory() {
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
  }
  OtherMemory(const OtherMemory&) = delete;
  OtherMemory& operator=(const OtherMemory&) = delete;

  bool is_made() const { return made_; }
  // The calling thread goes there, and those that it makes: a sanitizer may have one of its own,
  // with which it shares its place in the file system until then.
  bool enter() const {
    if (::unshare(CLONE_FS) != 0) return false;
    const int space = ::open(("/proc/" + std::to_string(holder_) + "/ns/mnt").c_str(), O_RDONLY);
    return space >= 0 && ::setns(space, CLONE_NEWNS) == 0;
  }

 private:
  pid_t holder_ = 0;
  bool made_ = false;
};

// A sanitizer takes its time over more.
constexpr std::size_t kMostBytes = kSanitized ? 2UL << 20 : 16UL << 20;

bool may_mount() {
  if (OtherMemory("1m").is_made()) return true;
  MESSAGE("skipped: it takes the right to mount (root in the container, or CAP_SYS_ADMIN)");
  return false;
}

std::vector<Ending> run_there(const OtherMemory& memory, int size,
                              const std::function<std::string(int, Store&)>& body) {
  return run_processes(size, [&](int rank, Store& store) -> std::string {
    return memory.enter() ? body(rank, store) : "cannot go there";
  });
}

void expect_well(const std::vector<Ending>& endings) {
  for (const Ending& ending : endings) {
    CHECK(ending.signal == 0);
    CHECK_MESSAGE(ending.code == 0, ending.words);
  }
}

int lines_of(const Ending& ending) {
  return static_cast<int>(std::count(ending.words.begin(), ending.words.end(), '\n'));
}

std::string move_all(comm::Communicator& group, Collective collective, std::size_t count) {
  const auto size = static_cast<std::size_t>(group.size());
  const bool gathers = collective == Collective::kAllGather;
  std::vector<float> in(count, static_cast<float>(group.rank().value + 1));
  std::vector<float> out(gathers ? count * size : count);
  OpRequest request;
  request.collective = collective;
  request.input = {block(in)};
  request.output = {block(out)};
  if (collective == Collective::kBroadcast) request.output = request.input;
  if (gathers) {
    request.output.clear();
    for (std::size_t r = 0; r < size; ++r) {
      request.output.push_back({reinterpret_cast<std::byte*>(out.data() + r * count), count});
    }
  }
  auto work = group.start(std::move(request));
  if (!work.is_ok()) return work.status().message();
  if (const Status ended = work.value()->wait(seconds(60)); !ended.is_ok()) return ended.message();
  if (collective == Collective::kBroadcast) out = in;
  const auto n = static_cast<float>(size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float right = gathers                                ? static_cast<float>(i / count + 1)
                        : collective == Collective::kBroadcast ? 1.0F
                                                               : n * (n + 1) / 2;
    if (out[i] != right) return "wrong at " + std::to_string(i) + ": " + std::to_string(out[i]);
  }
  return "";
}

std::string run_rank(int rank, int size, Store& store, int groups) {
  auto node = Node::create(options_for("shm"));
  if (!node.is_ok()) return node.status().message();
  std::vector<std::shared_ptr<comm::Communicator>> made;
  for (int g = 0; g < groups; ++g) {
    auto group = node.value()->join(store, {"group" + std::to_string(g), {rank}, size, {}, {}});
    if (!group.is_ok()) return group.status().message();
    made.push_back(group.value());
  }
  for (const auto& group : made) {
    for (const std::size_t bytes : {4UL, 4096UL, 1UL << 20, kMostBytes}) {
      for (const Collective c :
           {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast}) {
        const bool gathers = c == Collective::kAllGather;
        const std::size_t count = std::max<std::size_t>(1, bytes / 4 / (gathers ? 9 : 1));
        if (std::string wrong = move_all(*group, c, count); !wrong.empty()) return wrong;
      }
    }
  }
  for (const auto& group : made) {
    if (const Status closed = group->close(seconds(60)); !closed.is_ok()) return closed.message();
  }
  return "";
}

TEST_CASE("nine ranks have their collectives in the shared memory that containers have") {
  if (!may_mount()) return;
  constexpr int kRanks = 9;
  const auto run = [](const std::string& memory, int groups) {
    const OtherMemory there(memory);
    auto endings = run_there(there, kRanks, [&](int rank, Store& store) {
      return run_rank(rank, kRanks, store, groups);
    });
    expect_well(endings);
    return endings;
  };
  // All fits; then the second group's areas do not; then nothing does.
  for (const Ending& ending : run("64m", 1)) CHECK_MESSAGE(ending.words.empty(), ending.words);
  for (const std::string memory : {"64m", "1m", "16k"}) {
    CAPTURE(memory);
    int told = 0;
    for (const Ending& ending : run(memory, 2)) {
      CHECK_MESSAGE(lines_of(ending) <= 1, ending.words);
      told += lines_of(ending);
      if (ending.words.empty()) continue;
      CHECK(ending.words.find("over TCP") != std::string::npos);
      CHECK(ending.words.find("--shm-size") != std::string::npos);
    }
    CHECK(told > 0);
  }
}

TEST_CASE("what is not to be had is refused, and what was had can be used") {
  if (!may_mount()) return;
  const OtherMemory there("1m");
  expect_well(run_there(there, 1, [](int, Store&) -> std::string {
    const auto large = Segment::create("large", 2 << 20);
    if (large.is_ok()) return "more than there is";
    if (large.status().message().find("No space left") == std::string::npos) {
      return large.status().message();
    }
    auto small = Segment::create("small", 512 << 10);
    if (!small.is_ok()) return small.status().message();
    std::fill_n(small.value().data(), small.value().size(), std::byte{1});
    if (Segment::create("again", 768 << 10).is_ok()) return "more than there is left";
    auto link = comm::create_shm_link();
    if (!link.is_ok()) return link.status().message();
    const std::size_t at = comm::kRingDataAt + comm::kRingFirstBytes;
    if (link.value().grow({at, comm::kRingFirstBytes})) return "grown where half is in use";
    return "";
  }));
}

// What a ring has room for, in any sizes, with growth at any time, arrives as it was.
TEST_CASE("a ring carries frames whatever part of it is there") {
  sim::Random random(3);
  for (int world = 0; world < 20; ++world) {
    auto memory = std::move(Segment::create("testring", comm::kRingSegmentBytes)).value();
    RingWriter writer(memory.data(), comm::kRingFirstBytes);
    RingReader reader(memory.data());
    std::vector<std::byte> payload(comm::kRingFramePayload);
    std::uint64_t written = 0;
    std::uint64_t read = 0;
    const bool grows = world % 2 == 0;
    while (read < 3000) {
      if (grows && random.chance(1) && writer.ready() < comm::kRingBytes) {
        writer.set_ready(std::min(2 * writer.ready(), comm::kRingBytes));
      }
      const std::uint64_t most = random.chance(30) ? writer.most_payload() : 200;
      comm::FrameHeader header;
      header.offset = header.total_bytes = written;
      header.kind = comm::FrameKind::kGrant;
      header.payload_bytes = static_cast<std::uint32_t>(random.below(most + 1));
      std::fill_n(payload.begin(), header.payload_bytes, static_cast<std::byte>(written));
      if (random.chance(60) && writer.write(header, {payload.data(), header.payload_bytes})) {
        ++written;
      }
      // No frame waits for ever: one of the largest fits into an empty ring.
      if (written == read) REQUIRE(writer.has_room(writer.most_payload()));
      if (!random.chance(50)) continue;
      const auto frame = reader.peek();
      REQUIRE(frame.is_ok());
      if (!frame.value()) continue;
      REQUIRE(frame.value()->header.offset == read);
      const auto& bytes = frame.value()->payload;
      REQUIRE(std::all_of(bytes.begin(), bytes.end(),
                          [&](std::byte b) { return b == static_cast<std::byte>(read); }));
      reader.consume(*frame.value());
      ++read;
    }
    if (grows) continue;
    // What is not there was not touched.
    const std::byte* rest = memory.data() + comm::kRingDataAt + comm::kRingFirstBytes;
    const std::byte* end = memory.data() + memory.size();
    REQUIRE(std::all_of(rest, end, [](std::byte b) { return b == std::byte{0}; }));
  }
}

}  // namespace
}  // namespace holdfast::testing

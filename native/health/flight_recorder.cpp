#include "health/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/forks.h"
#include "base/reserve.h"
#include "comm/call/request_check.h"
#include "comm/communicator.h"
#include "health/flight_layout.h"

namespace holdfast::health {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// Text as words, cut to their size and padded with zeros.
template <std::size_t kWords>
std::array<std::uint64_t, kWords> text_words(std::string_view text) {
  std::array<std::uint64_t, kWords> words{};
  if (!text.empty()) std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words));
  return words;
}

void put(Word* to, std::span<const std::uint64_t> words) {
  // relaxed, here and below: the stamps and their fences make an entry whole.
  for (std::size_t i = 0; i < words.size(); ++i) {
    to[i].store(words[i], std::memory_order_relaxed);
  }
}

std::string file_name(const FlightSettings& settings) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string member;
  for (int shift = 60; shift >= 0; shift -= 4) {
    member += kDigits[(settings.member.value >> shift) & 15];
  }
  return settings.folder + "/holdfast-" + std::to_string(::getpid()) + "-" + member + ".flight";
}

Status no_file(const std::string& path, int error) {
  return {Code::kSystem, "cannot make the flight record " + path +
                             " (option flight_dir): " + std::strerror(error)};
}

// Allocates all blocks of the file now: a page without room on the disk would end the process
// later.
Result<void*> map_file(const std::string& path, std::size_t bytes) {
  const int fd = open_unforked(
      [&] { return ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600); });
  if (fd < 0) return no_file(path, errno);
  const int error = reserve_bytes(fd, 0, bytes);
  void* memory = MAP_FAILED;
  if (error == 0) {
    const NoFork no_fork;
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) NoFork::keep_from_children(memory, bytes);
  }
  const int why = error != 0 ? error : errno;
  close_unforked(fd);
  if (memory != MAP_FAILED) return memory;
  ::unlink(path.c_str());
  return no_file(path, why);
}

}  // namespace

// The words of one entry. Each change adds two to its stamps, so no two of its states look alike.
struct FlightRecorder::Entry {
  std::array<Word, flight::kEntryWords> words;

  std::uint64_t load(std::size_t at) const { return words[at].load(std::memory_order_relaxed); }
  void store(std::size_t at, std::uint64_t value) {
    words[at].store(value, std::memory_order_relaxed);
  }

  template <class Write>
  void change(Write write) {
    const std::uint64_t stamp = load(flight::kStamp);
    store(flight::kStamp, stamp + 1);
    store(flight::kStampAgain, stamp + 1);
    std::atomic_thread_fence(std::memory_order_release);  // the odd stamp comes before the words
    write(*this);
    // release: the even stamps come after the words
    words[flight::kStampAgain].store(stamp + 2, std::memory_order_release);
    words[flight::kStamp].store(stamp + 2, std::memory_order_release);
  }

  bool copy(std::uint64_t* to) const {
    const std::uint64_t before = words[flight::kStamp].load(std::memory_order_acquire);
    for (std::size_t i = 0; i < flight::kEntryWords; ++i) to[i] = load(i);
    std::atomic_thread_fence(std::memory_order_acquire);  // the words are read before the stamp
    return before % 2 == 0 && load(flight::kStamp) == before;
  }
};

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::create(const FlightSettings& settings) {
  CHECK(settings.entries > 0 && settings.entries <= flight::kMaxEntries);
  const std::size_t bytes =
      (flight::kFrontWords + settings.entries * flight::kEntryWords) * sizeof(Word);
  std::string path = settings.folder.empty() ? std::string{} : file_name(settings);
  void* memory = nullptr;
  if (path.empty()) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Status{Code::kSystem, "no memory for the flight recorder"};
  } else {
    auto mapped = map_file(path, bytes);
    if (!mapped.is_ok()) return mapped.status();
    memory = mapped.value();
  }
  std::unique_ptr<FlightRecorder> recorder(new FlightRecorder(
      std::move(path), static_cast<std::byte*>(memory), bytes, settings.entries));
  recorder->write_header(settings);
  return recorder;
}

FlightRecorder::FlightRecorder(std::string path, std::byte* memory, std::size_t bytes,
                               std::uint32_t entries)
    : path_(std::move(path)), memory_(memory), bytes_(bytes), entries_(entries) {}

FlightRecorder::~FlightRecorder() { ::munmap(memory_, bytes_); }

void FlightRecorder::write_header(const FlightSettings& settings) {
  const auto set = [this](std::size_t at, std::uint64_t value) {
    words()[at].store(value, std::memory_order_relaxed);
  };
  set(flight::kVersionAt, flight::low_high(kFlightVersion, entries_));
  set(flight::kMemberAt, settings.member.value);
  set(flight::kWallAt, static_cast<std::uint64_t>(settings.wall_offset.count()));
  put(words() + flight::kHostAt, text_words<flight::kHostBytes / 8>(settings.host));
  set_rank({-1});
  // release: the rest of the header is written before.
  words()[flight::kMagicAt].store(flight::kMagic, std::memory_order_release);
}

void FlightRecorder::set_rank(Rank world_rank) {
  words()[flight::kProcessAt].store(flight::low_high(static_cast<std::uint32_t>(::getpid()),
                                                     static_cast<std::uint32_t>(world_rank.value)),
                                    std::memory_order_relaxed);
}

void FlightRecorder::name_group(CommId id, const std::string& name) {
  if (groups_ == kFlightGroups || id == CommId{}) return;
  Word* at = words() + flight::kHeaderWords + groups_++ * flight::kGroupWords;
  put(at + 1, text_words<flight::kGroupWords - 1>(name));
  at->store(id.value, std::memory_order_release);  // release: after the name
}

void FlightRecorder::name_caller(std::uint8_t number, const char* name) {
  put(words() + flight::kCallersAt + (number - 1U) * (flight::kCallerBytes / 8),
      text_words<flight::kCallerBytes / 8>(name));
}

FlightRecorder::Entry* FlightRecorder::entry(std::uint64_t number) const {
  const std::size_t index = static_cast<std::size_t>((number - 1) % entries_);
  return reinterpret_cast<Entry*>(words() + flight::kFrontWords + index * flight::kEntryWords);
}

std::uint64_t FlightRecorder::begin(const comm::Observer::ObservedOp& op,
                                    const comm::OpTicket& ticket) {
  const std::uint64_t number = ++last_;
  const comm::OpRequest& request = op.request;
  const Rank other = comm::is_point_to_point(request.collective) ? request.peer : request.root;
  entry(number)->change([&](Entry& e) {
    e.store(flight::kGroup, op.group.value);
    e.store(flight::kPlace, (op.sequence.value & flight::kSequenceMask) |
                                std::uint64_t{ticket.caller} << flight::kCallerShift);
    e.store(flight::kKind, static_cast<std::uint64_t>(request.called_collective()) |
                               static_cast<std::uint64_t>(request.dtype) << 8 |
                               static_cast<std::uint64_t>(request.op) << 16 |
                               static_cast<std::uint64_t>(ticket.path) << 24 |
                               static_cast<std::uint64_t>(OpState::kStarted) << 32);
    e.store(flight::kBytes, ticket.bytes);
    const auto count = [](Instant t) { return static_cast<std::uint64_t>(t.since_origin.count()); };
    e.store(flight::kEnqueued, count(ticket.enqueued));
    e.store(flight::kStarted, count(ticket.started));
    e.store(flight::kEnded, 0);
    put(&e.words[flight::kAlgorithm], text_words<flight::kAlgorithmBytes / 8>(ticket.algorithm));
    const std::uint32_t ranks = static_cast<std::uint16_t>(op.rank.value) |
                                std::uint32_t{static_cast<std::uint16_t>(other.value)} << 16;
    e.store(flight::kRanks, flight::low_high(ranks, op.epoch.value));
    e.store(flight::kWaited, 0);
    e.store(flight::kWaited + 1, 0);
    e.store(flight::kNumber, number);
  });
  words()[flight::kOpsAt].store(number, std::memory_order_relaxed);
  return number;
}

void FlightRecorder::set_path(const comm::OpTicket& ticket, Epoch epoch) {
  Entry* e = entry(ticket.number);
  if (e->load(flight::kNumber) != ticket.number) return;
  e->change([&](Entry& to) {
    const std::uint64_t kind = to.load(flight::kKind) & ~(std::uint64_t{0xff} << 24);
    to.store(flight::kKind, kind | static_cast<std::uint64_t>(ticket.path) << 24);
    put(&to.words[flight::kAlgorithm], text_words<flight::kAlgorithmBytes / 8>(ticket.algorithm));
    const auto ranks = static_cast<std::uint32_t>(to.load(flight::kRanks));
    to.store(flight::kRanks, flight::low_high(ranks, epoch.value));
  });
}

void FlightRecorder::set_waited(std::uint64_t number, std::span<const Rank> peers) {
  Entry* e = entry(number);
  if (e->load(flight::kNumber) != number) return;
  std::array<std::uint64_t, 2> waited{};
  const std::size_t count = std::min(peers.size(), kFlightWaited);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t rank = static_cast<std::uint16_t>(peers[i].value);
    waited[i / 4] |= rank << (16 * (i % 4));
  }
  e->change([&](Entry& to) {
    const std::uint64_t kind = to.load(flight::kKind) & ~(std::uint64_t{0xff} << 56);
    to.store(flight::kKind, kind | std::uint64_t{count} << 56);
    put(&to.words[flight::kWaited], waited);
  });
}

void FlightRecorder::end(std::uint64_t number, Code code, bool repaired, Instant now) {
  Entry* e = entry(number);
  if (e->load(flight::kNumber) != number) return;
  e->change([&](Entry& to) {
    const std::uint64_t kind = to.load(flight::kKind) & ~(std::uint64_t{0xffffff} << 32);
    to.store(flight::kKind, kind | static_cast<std::uint64_t>(OpState::kEnded) << 32 |
                                static_cast<std::uint64_t>(code) << 40 |
                                std::uint64_t{repaired ? 1U : 0U} << 48);
    to.store(flight::kEnded, static_cast<std::uint64_t>(now.since_origin.count()));
  });
}

std::vector<std::byte> FlightRecorder::snapshot() const {
  std::vector<std::uint64_t> copy(bytes_ / sizeof(Word));
  // acquire: a group's name is complete once its id is seen.
  for (std::size_t i = 0; i < flight::kFrontWords; ++i) {
    copy[i] = words()[i].load(std::memory_order_acquire);
  }
  constexpr int kTries = 4;
  for (std::uint64_t n = 1; n <= entries_; ++n) {
    std::uint64_t* to = copy.data() + flight::kFrontWords + (n - 1) * flight::kEntryWords;
    for (int i = 0; i < kTries && !entry(n)->copy(to); ++i) {
    }
  }
  std::vector<std::byte> bytes(bytes_);
  std::memcpy(bytes.data(), copy.data(), bytes_);
  return bytes;
}

}  // namespace holdfast::health

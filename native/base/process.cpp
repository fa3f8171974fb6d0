#include "base/process.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/fnv.h"
#include "base/forks.h"
#include "base/small_file.h"

namespace holdfast {
namespace {

// The system call's number on all architectures; headers older than Linux 5.3 have no name for it.
constexpr long kPidfdOpen = 434;

std::uint64_t inode(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

struct Told {
  std::uint64_t number = 0;
  std::uint64_t started = 0;
  char state = 0;  // as the kernel writes it: R, S, D, T, ...
};

constexpr std::size_t kMostStatBytes = 4096;

// Reads the fields 1, 3 and 22 of /proc/PID/stat. Nothing where the process ends meanwhile: even an
// open file cannot be read then.
Told read_stat(const std::string& process) {
  const auto read = read_small_file({"process", "/proc/" + process + "/stat", kMostStatBytes});
  if (!read.is_ok()) return {};
  const std::string& text = read.value();
  // The second field, a name in parentheses, may contain any character.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::size_t at = name_end + 1;
  const char state = at + 1 < text.size() ? text[at + 1] : '\0';
  for (int field = 3; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return {};
  Told told;
  told.state = state;
  const char* const end = text.data() + text.size();
  std::from_chars(text.data(), end, told.number);
  std::from_chars(text.data() + at + 1, end, told.started);
  return told;
}

int open_process(std::uint64_t number) {
  if (number == 0 || number > std::numeric_limits<pid_t>::max()) {
    errno = EINVAL;
    return -1;
  }
  return open_unforked(
      [&] { return static_cast<int>(::syscall(kPidfdOpen, static_cast<pid_t>(number), 0)); });
}

bool is_readable(int descriptor) {
  pollfd look{descriptor, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

}  // namespace

std::uint64_t start_time(std::uint64_t number) { return read_stat(std::to_string(number)).started; }

std::uint64_t pid_namespace() { return inode("/proc/self/ns/pid"); }

ProcessId this_process(std::string_view host) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::uint64_t numbers = pid_namespace();
  const Told told = read_stat("self");
  const auto own = static_cast<std::uint64_t>(::getpid());
  // A /proc of another namespace has other process numbers than ours.
  if (boot.empty() || numbers == 0 || told.started == 0 || told.number != own) return {};
  Fnv1a realm;
  realm.mix(host);
  realm.mix(boot);
  realm.mix(numbers);
  // Start times are given by the clock of the process that asks. Older kernels have one clock for
  // all.
  realm.mix(inode("/proc/self/ns/time"));
  return {realm.value(), own, told.started};
}

// Opens the descriptor first, then checks which process it is for: a number may pass on to another
// process, but an open descriptor keeps its process.
WatchedProcess::WatchedProcess(const ProcessId& process, const ProcessId& self) {
  if (process.realm == 0 || process.realm != self.realm) return;
  descriptor_ = open_process(process.number);
  if (descriptor_ < 0) {
    if (errno == ESRCH) state_ = ProcessState::kEnded;
    return;
  }
  const std::uint64_t started = start_time(process.number);
  const bool is_other = started != 0 && started != process.started;
  if (is_other || is_readable(descriptor_)) {
    state_ = ProcessState::kEnded;
  } else if (started != 0) {
    state_ = ProcessState::kWatched;
    number_ = process.number;
    return;
  }
  close_unforked(std::exchange(descriptor_, -1));
}

bool WatchedProcess::is_running() const {
  if (state_ != ProcessState::kWatched || is_readable(descriptor_)) return false;
  // The states of processes that are stopped by a signal or a debugger, zombie, or dead.
  constexpr std::string_view kStill = "TtZXx";
  const char state = read_stat(std::to_string(number_)).state;
  return state != 0 && kStill.find(state) == std::string_view::npos;
}

WatchedProcess::WatchedProcess(WatchedProcess&& other) noexcept { *this = std::move(other); }

WatchedProcess& WatchedProcess::operator=(WatchedProcess&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(number_, other.number_);
  return *this;
}

WatchedProcess::~WatchedProcess() { close_unforked(descriptor_); }

}  // namespace holdfast

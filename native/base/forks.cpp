#include "base/forks.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

namespace holdfast {
namespace {

// Limit of descriptor numbers in the table: a process gets the lowest free numbers, and few may
// have so many. Larger ones stay open in children.
constexpr std::size_t kMostDescriptors = 1 << 16;
constexpr std::size_t kWordBits = 64;
// Limit of epoll sets of libraries: one for each runtime with UCX.
constexpr std::size_t kMostSets = 16;
// Limit of levels of sets that hold sets: UCX's has one more level.
constexpr int kMostLevels = 3;
// Limit of pipes by which a library's thread is woken: UCX has two.
constexpr std::size_t kMostPipes = 64;

// A set of descriptors, of fixed size, without a destructor.
class Descriptors {
 public:
  bool has(int descriptor) const {
    return fits(descriptor) && (words_[word(descriptor)] & bit(descriptor)) != 0;
  }
  void add(int descriptor) {
    if (fits(descriptor)) words_[word(descriptor)] |= bit(descriptor);
  }
  void remove(int descriptor) {
    if (fits(descriptor)) words_[word(descriptor)] &= ~bit(descriptor);
  }
  template <class See>
  void each(See see) const {
    for (std::size_t at = 0; at < words_.size(); ++at) {
      for (std::uint64_t left = words_[at]; left != 0; left &= left - 1) {
        see(static_cast<int>(at * kWordBits + static_cast<std::size_t>(std::countr_zero(left))));
      }
    }
  }
  void clear() { words_.fill(0); }

 private:
  static bool fits(int descriptor) {
    return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMostDescriptors;
  }
  static std::size_t word(int descriptor) {
    return static_cast<std::size_t>(descriptor) / kWordBits;
  }
  static std::uint64_t bit(int descriptor) {
    return std::uint64_t{1} << (static_cast<std::size_t>(descriptor) % kWordBits);
  }

  std::array<std::uint64_t, kMostDescriptors / kWordBits> words_{};
};

struct Table {
  std::mutex mutex;    // guards all below; the forking thread holds it across a fork
  bool asked = false;  // whether pthread_atfork was called
  Descriptors open;
  std::array<int, kMostSets> sets{};  // descriptor + 1, so that 0 is none
  Descriptors libraries;              // in a child: what libraries opened
};
constinit Table table;

// Reads /proc/self/fdinfo/NUMBER of an epoll set, which has a line for each descriptor in the set:
// "tfd: NUMBER events: .. data: .. pos:.. ino:HEX sdev:..". Runs in a forked child, so it uses
// system calls only.
class SetReader {
 public:
  explicit SetReader(int set) {
    constexpr std::string_view kFolder = "/proc/self/fdinfo/";
    std::array<char, 64> path{};
    char* const digits = std::copy(kFolder.begin(), kFolder.end(), path.data());
    char* end = digits;
    for (int left = set; left > 0 || end == digits; left /= 10) {
      *end++ = static_cast<char>('0' + left % 10);
    }
    std::reverse(digits, end);
    file_ = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  }
  ~SetReader() {
    if (file_ >= 0) ::close(file_);
  }
  SetReader(const SetReader&) = delete;
  SetReader& operator=(const SetReader&) = delete;

  // The next descriptor; negative: no more.
  int next() {
    while (find("tfd:")) {
      const auto held = static_cast<int>(number(10));
      if (!find("ino:")) return -1;
      // A file stays in a set as long as any process has it open; its number may belong to another
      // file by now.
      struct stat info {};
      if (::fstat(held, &info) == 0 && info.st_ino == number(16)) return held;
    }
    return -1;
  }

 private:
  bool find(std::string_view word) {
    std::size_t matched = 0;
    while (matched < word.size()) {
      const int c = get();
      if (c < 0) return false;
      matched = c == word[matched] ? matched + 1 : (c == word[0] ? 1 : 0);
    }
    return true;
  }
  std::uint64_t number(unsigned base) {
    int c = get();
    while (c == ' ') c = get();
    std::uint64_t value = 0;
    for (; (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); c = get()) {
      value = base * value + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
  }
  int get() {
    if (at_ == held_) {
      const ssize_t count = file_ < 0 ? 0 : ::read(file_, bytes_.data(), bytes_.size());
      if (count <= 0) return -1;
      at_ = 0;
      held_ = static_cast<std::size_t>(count);
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }

  int file_ = -1;
  std::array<char, 512> bytes_{};
  std::size_t at_ = 0;
  std::size_t held_ = 0;
};

// Calls `see` with every descriptor of this process.
template <class See>
void each_descriptor(See see) {
  // Offsets in struct linux_dirent64, which headers do not have.
  constexpr std::size_t kLengthAt = 16;
  constexpr std::size_t kNameAt = 19;
  const int folder = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::array<char, 4096> bytes;
  for (;;) {
    const long count = ::syscall(SYS_getdents64, folder, bytes.data(), bytes.size());
    if (count <= 0) break;
    const char* const end = bytes.data() + count;
    std::uint16_t length = 0;
    for (const char* entry = bytes.data(); entry < end; entry += length) {
      std::memcpy(&length, entry + kLengthAt, sizeof length);
      int descriptor = -1;
      std::from_chars(entry + kNameAt, entry + length, descriptor);
      if (descriptor >= 0 && descriptor != folder) see(descriptor);
    }
  }
  if (folder >= 0) ::close(folder);
}

void mark_held(int set, int levels) {
  table.libraries.add(set);
  if (levels == 0) return;
  SetReader reader(set);
  for (int held = reader.next(); held >= 0; held = reader.next()) mark_held(held, levels - 1);
}

// A set that holds a descriptor of a library is the library's own, for another of its threads.
void mark_if_it_holds_marked(int set) {
  if (table.open.has(set) || table.libraries.has(set)) return;
  bool holds = false;
  {
    SetReader reader(set);
    for (int held = reader.next(); held >= 0 && !holds; held = reader.next()) {
      holds = table.libraries.has(held);
    }
  }
  if (holds) mark_held(set, kMostLevels);
}

ino_t pipe_of(int descriptor) {
  struct stat info {};
  return ::fstat(descriptor, &info) == 0 && S_ISFIFO(info.st_mode) ? info.st_ino : 0;
}

// Marks the other ends of pipes that libraries wait on.
void mark_pipes() {
  std::array<ino_t, kMostPipes> pipes{};
  std::size_t count = 0;
  table.libraries.each([&](int descriptor) {
    const ino_t pipe = pipe_of(descriptor);
    if (pipe != 0 && count < kMostPipes) pipes[count++] = pipe;
  });
  if (count == 0) return;
  each_descriptor([&](int descriptor) {
    const ino_t pipe = pipe_of(descriptor);
    if (pipe == 0) return;
    const auto* const end = pipes.data() + count;
    if (std::find<const ino_t*>(pipes.data(), end, pipe) != end) table.libraries.add(descriptor);
  });
}

void mark_libraries() {
  bool any = false;
  for (int& set : table.sets) {
    if (set > 0) mark_held(set - 1, kMostLevels);
    any = any || set > 0;
    set = 0;
  }
  if (!any) return;
  each_descriptor(mark_if_it_holds_marked);
  mark_pipes();
}

void before_fork() { table.mutex.lock(); }

void in_parent() { table.mutex.unlock(); }

// Called by the only thread of the child, which holds the lock.
void in_child() {
  mark_libraries();
  for (Descriptors* all : {&table.open, &table.libraries}) {
    all->each([](int descriptor) { ::close(descriptor); });
    all->clear();
  }
  table.mutex.unlock();
}

}  // namespace

NoFork::NoFork() {
  table.mutex.lock();
  if (table.asked) return;
  // The call fails where there is no memory: children then keep the descriptors.
  table.asked = true;
  [[maybe_unused]] const int error = ::pthread_atfork(before_fork, in_parent, in_child);
}

NoFork::~NoFork() { table.mutex.unlock(); }

int NoFork::close_in_children(int descriptor) {
  table.open.add(descriptor);
  return descriptor;
}

void NoFork::forget(int descriptor) {
  table.open.remove(descriptor);
  std::replace(table.sets.begin(), table.sets.end(), descriptor + 1, 0);
}

void NoFork::close_what_it_holds(int epoll) {
  for (int& set : table.sets) {
    if (set != 0) continue;
    set = epoll + 1;
    return;
  }
}

void NoFork::keep_from_children(void* memory, std::size_t bytes) {
  // A kernel that does not know the flag refuses it: children then have the mapping, which does no
  // other harm.
  ::madvise(memory, bytes, MADV_DONTFORK);
}

void close_unforked(int descriptor) {
  if (descriptor < 0) return;
  NoFork no_fork;
  no_fork.forget(descriptor);
  ::close(descriptor);
}

}  // namespace holdfast

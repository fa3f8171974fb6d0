#include "comm/transport/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/forks.h"
#include "base/process.h"
#include "base/reserve.h"

namespace holdfast::comm {
namespace {

constexpr const char* kDirectory = "/dev/shm";
constexpr const char* kPrefix = "holdfast.";

Status system_error(const std::string& what) {
  return {Code::kSystem, what + ": " + std::strerror(errno)};
}

// holdfast.<uid>.<pid namespace>.<pid>.<start time>.<purpose>.<number>
std::string make_name(const std::string& purpose) {
  static std::atomic<unsigned> number{0};  // relaxed: only uniqueness matters
  return std::string(kPrefix) + std::to_string(::getuid()) + "." + std::to_string(pid_namespace()) +
         "." + std::to_string(::getpid()) + "." +
         std::to_string(start_time(static_cast<std::uint64_t>(::getpid()))) + "." + purpose + "." +
         std::to_string(number.fetch_add(1, std::memory_order_relaxed));
}

bool plausible_name(const std::string& name) {
  constexpr std::size_t kMaxName = 200;
  if (name.rfind(kPrefix, 0) != 0 || name.size() > kMaxName) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') return false;
  }
  return name.find("..") == std::string::npos;
}

bool maker_is_gone(const std::string& name) {
  unsigned uid = 0;
  std::uint64_t space = 0;
  std::uint64_t pid = 0;
  std::uint64_t started = 0;
  if (std::sscanf(name.c_str(), "holdfast.%u.%" SCNu64 ".%" SCNu64 ".%" SCNu64 ".", &uid, &space,
                  &pid, &started) != 4) {
    return false;
  }
  if (uid != ::getuid() || space != pid_namespace() || space == 0) return false;
  return start_time(pid) != started;
}

Result<std::byte*> map(int fd, std::size_t bytes, Segment::Children children) {
  const NoFork no_fork;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return system_error("cannot map shared memory");
  if (children == Segment::Children::kLack) NoFork::keep_from_children(data, bytes);
  return static_cast<std::byte*>(data);
}

// One part in this many of all shared memory is left to others: data loaders use it as well, and a
// segment that grows can do without more, while areas and bells cannot.
constexpr unsigned kKeptOfPools = 4;
constexpr unsigned kKeptOfGrowth = 2;

bool leaves_room(int fd, std::uint64_t bytes, unsigned kept) {
  struct statvfs info {};
  if (::fstatvfs(fd, &info) != 0 || info.f_blocks == 0) return true;
  const std::uint64_t block = info.f_frsize;
  return info.f_bavail * block >= bytes + info.f_blocks * block / kept;
}

// Opens or creates shared memory, as `flags` say (see shm_open()).
int open_shared(const std::string& name, int flags) {
  return open_unforked([&] { return ::shm_open(("/" + name).c_str(), flags, 0600); });
}

}  // namespace

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(name_, other.name_);
  std::swap(linked_, other.linked_);
  std::swap(file_, other.file_);
  return *this;
}

Segment::~Segment() {
  unlink();
  if (file_ >= 0) close_unforked(file_);
  if (data_ != nullptr) ::munmap(data_, size_);
}

void Segment::unlink() {
  if (!linked_) return;
  linked_ = false;
  ::shm_unlink(("/" + name_).c_str());
}

Result<Segment> Segment::create(const std::string& purpose, std::size_t bytes) {
  return make(purpose, bytes, Children::kLack,
              [bytes](int fd) { return reserve_bytes(fd, 0, bytes); });
}

Result<Segment> Segment::create_growing(const std::string& purpose, std::size_t bytes,
                                        std::span<const SegmentPart> parts) {
  return make(
      purpose, bytes, Children::kLack,
      [&](int fd) {
        if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return errno;
        int error = 0;
        for (const SegmentPart& part : parts) {
          if (error == 0) error = reserve_bytes(fd, part.offset, part.bytes);
        }
        return error;
      },
      true);
}

Result<Segment> Segment::create_for_tensors(const std::string& purpose, std::size_t bytes) {
  return make(purpose, bytes, Children::kHave, [bytes](int fd) {
    return leaves_room(fd, bytes, kKeptOfPools) ? reserve_bytes(fd, 0, bytes) : ENOSPC;
  });
}

bool Segment::grow(const SegmentPart& part) {
  return file_ >= 0 && leaves_room(file_, part.bytes, kKeptOfGrowth) &&
         reserve_bytes(file_, part.offset, part.bytes) == 0;
}

void Segment::stop_growing() {
  if (file_ >= 0) close_unforked(std::exchange(file_, -1));
}

std::string Segment::room() {
  struct statvfs info {};
  if (::statvfs(kDirectory, &info) != 0) return std::string(kDirectory) + " cannot be used";
  const auto mib = [&](std::uint64_t blocks) {
    return std::to_string((blocks * info.f_frsize) >> 20);
  };
  return std::string(kDirectory) + " has " + mib(info.f_blocks) + " MiB, of which " +
         mib(info.f_bavail) + " are free";
}

Result<Segment> Segment::make(const std::string& purpose, std::size_t bytes, Children children,
                              const std::function<int(int)>& size, bool grows) {
  Segment segment;
  segment.name_ = make_name(purpose);
  const int fd = open_shared(segment.name_, O_CREAT | O_EXCL | O_RDWR);
  if (fd < 0) return system_error("cannot create shared memory " + segment.name_);
  segment.linked_ = true;
  segment.file_ = fd;
  errno = size(fd);
  if (errno != 0) {
    return system_error("cannot get " + std::to_string(bytes) + " bytes of shared memory");
  }
  Result<std::byte*> data = map(fd, bytes, children);
  if (!data.is_ok()) return data.status();
  segment.data_ = data.value();
  segment.size_ = bytes;
  if (!grows) segment.stop_growing();
  return segment;
}

Result<Segment> Segment::create_private(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error("cannot map memory");
  Segment segment;
  segment.data_ = static_cast<std::byte*>(memory);
  segment.size_ = bytes;
  return segment;
}

Result<Segment> Segment::open(const std::string& name, std::size_t bytes) {
  auto segment = open_growing(name, bytes);
  if (segment.is_ok()) segment.value().stop_growing();
  return segment;
}

Result<Segment> Segment::open_growing(const std::string& name, std::size_t bytes) {
  if (!plausible_name(name)) {
    return Status{Code::kProtocolError, "not a shared-memory name of Holdfast"};
  }
  const int fd = open_shared(name, O_RDWR);
  if (fd < 0) return system_error("cannot open shared memory " + name);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_uid != ::getuid() ||
      static_cast<std::size_t>(info.st_size) != bytes) {
    close_unforked(fd);
    return Status{Code::kProtocolError, "shared memory " + name + " has another size or owner"};
  }
  Segment segment;
  segment.file_ = fd;
  Result<std::byte*> data = map(fd, bytes, Children::kLack);
  if (!data.is_ok()) return data.status();
  segment.name_ = name;
  segment.data_ = data.value();
  segment.size_ = bytes;
  return segment;
}

int Segment::remove_orphans() {
  DIR* directory = ::opendir(kDirectory);
  if (directory == nullptr) return 0;
  int removed = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.rfind(kPrefix, 0) != 0 || !maker_is_gone(name)) continue;
    if (::shm_unlink(("/" + name).c_str()) == 0) ++removed;
  }
  ::closedir(directory);
  return removed;
}

}  // namespace holdfast::comm

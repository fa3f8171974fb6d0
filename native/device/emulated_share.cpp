#include "device/emulated_share.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>

#include "base/forks.h"

namespace holdfast::device {
namespace {

constexpr std::uint64_t kSharePage = 4096;

struct ShareHandle {
  std::uint64_t machine = 0;
  std::uint64_t serial = 0;
  std::uint64_t bytes = 0;
  std::int32_t process = 0;
  std::int32_t file = -1;
};
static_assert(sizeof(ShareHandle) <= sizeof(CuIpcMemory));

ShareHandle read(const CuIpcMemory& memory) {
  ShareHandle handle;
  std::memcpy(&handle, memory.bytes.data(), sizeof handle);
  return handle;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kSharePage - 1) / kSharePage * kSharePage;
}

}  // namespace

// The file's first page. It identifies the file, because file descriptors are reused.
struct EmulatedShare::Label {
  std::uint64_t serial;
  std::atomic<std::uint32_t> freed;
};

std::shared_ptr<EmulatedShare> EmulatedShare::make(std::uint64_t machine, std::uint64_t bytes) {
  std::shared_ptr<EmulatedShare> share(new EmulatedShare);  // private constructor: no make_shared
  std::random_device random;
  share->serial_ = std::uint64_t{random()} << 32 | random();
  share->machine_ = machine;
  share->bytes_ = bytes;
  share->file_ = open_unforked([] { return memfd_create("emulated device memory", MFD_CLOEXEC); });
  const auto length = static_cast<off_t>(kSharePage + whole_pages(bytes));
  if (share->file_ < 0 || ftruncate(share->file_, length) != 0) return nullptr;
  if (!share->map(share->file_)) return nullptr;
  share->label_->serial = share->serial_;
  return share;
}

std::shared_ptr<EmulatedShare> EmulatedShare::open(const CuIpcMemory& memory) {
  const ShareHandle handle = read(memory);
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open_unforked([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
  if (file < 0) return nullptr;
  std::shared_ptr<EmulatedShare> share(new EmulatedShare);
  share->machine_ = handle.machine;
  share->serial_ = handle.serial;
  share->bytes_ = handle.bytes;
  const auto length = static_cast<off_t>(kSharePage + whole_pages(handle.bytes));
  const bool whole = lseek(file, 0, SEEK_END) == length;
  const bool mapped = whole && share->map(file);
  close_unforked(file);
  const bool same = mapped && share->label_->serial == handle.serial && !share->freed();
  return same ? share : nullptr;
}

// Maps the label, the memory, and an inaccessible page.
bool EmulatedShare::map(int file) {
  const std::uint64_t length = kSharePage + whole_pages(bytes_);
  const NoFork no_fork;
  void* base = mmap(nullptr, length + kSharePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return false;
  if (mmap(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    munmap(base, length + kSharePage);
    return false;
  }
  // Device memory of a real driver is not inherited by forked children either.
  NoFork::keep_from_children(base, length + kSharePage);
  label_ = static_cast<Label*>(base);
  data_ = static_cast<std::byte*>(base) + kSharePage;
  return true;
}

EmulatedShare::~EmulatedShare() {
  if (is_forked()) return;
  if (label_ != nullptr) munmap(label_, 2 * kSharePage + whole_pages(bytes_));
  close_unforked(file_);
}

bool EmulatedShare::is_forked() const { return getpid() != process_; }

std::uint64_t EmulatedShare::machine_of(const CuIpcMemory& handle) { return read(handle).machine; }

CuIpcMemory EmulatedShare::handle() const {
  const ShareHandle handle{machine_, serial_, bytes_, getpid(), file_};
  CuIpcMemory memory;
  std::memcpy(memory.bytes.data(), &handle, sizeof handle);
  return memory;
}

// relaxed in both: the flag is a value by itself; the users of the memory order its contents.
void EmulatedShare::mark_freed() {
  if (!is_forked()) label_->freed.store(1, std::memory_order_relaxed);
}
bool EmulatedShare::freed() const { return label_->freed.load(std::memory_order_relaxed) != 0; }

}  // namespace holdfast::device

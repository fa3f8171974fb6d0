#include "mpi/core/device_watch.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "device/device_address.h"

namespace holdfast::mpi {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

bool has_driver_library() {
  void* found = ::dlopen(kDriverLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (found == nullptr) return false;
  ::dlclose(found);
  return true;
}

// The last library that was loaded, kept in the process while it is looked at: what is loaded later
// is behind it. Each thread has its own, so that none lets go of what another looks at.
class LastLibrary {
 public:
  ~LastLibrary() { leave(); }

  // Whether there may be libraries that this thread has not seen.
  bool is_stale() const {
    return last_ == nullptr || __atomic_load_n(&last_->l_next, __ATOMIC_RELAXED) != nullptr;
  }
  void look() {
    std::string name;
    ::dl_iterate_phdr(
        [](dl_phdr_info* library, std::size_t, void* last) {
          *static_cast<std::string*>(last) = library->dlpi_name;
          return 0;
        },
        &name);
    void* kept = name.empty() ? nullptr : ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    leave();
    kept_ = kept;
    // Without a hold on it, every call looks.
    if (kept == nullptr || ::dlinfo(kept, RTLD_DI_LINKMAP, &last_) != 0) last_ = nullptr;
  }

 private:
  void leave() {
    if (kept_ != nullptr) ::dlclose(kept_);
    kept_ = nullptr;
  }

  link_map* last_ = nullptr;
  void* kept_ = nullptr;
};

thread_local LastLibrary last_library;

// Where the kernel says that the heap begins; the highest address where it says nothing.
std::uintptr_t heap_begin() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[heap]") == std::string::npos) continue;
    return static_cast<std::uintptr_t>(std::strtoull(line.c_str(), nullptr, 16));
  }
  return UINTPTR_MAX;
}

}  // namespace

void DeviceWatch::begin(std::shared_ptr<runtime::Node> node, const std::string& driver) {
  node_ = std::move(node);
  off_ = driver == "none";
  if (off_) return;
  sight_.store(Sight::kUnloaded, std::memory_order_release);
  if (driver == "emulated") {  // whose memory may be malloc()'s
    open();
  } else {
    heap_ = heap_begin();
  }
}

bool DeviceWatch::is_loaded_now() {
  if (!last_library.is_stale()) return false;
  last_library.look();
  return has_driver_library() && open();
}

bool DeviceWatch::is_of_heap(const void* memory) const {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return at >= heap_ && at < reinterpret_cast<std::uintptr_t>(::sbrk(0));
}

// Whether there is a driver. One that does not start has given no memory to anybody.
bool DeviceWatch::open() {
  const std::lock_guard lock(mutex_);
  const Sight sight = sight_.load(std::memory_order_relaxed);
  if (sight != Sight::kUnloaded) return sight == Sight::kDriver;
  auto driver = node_->cuda_driver();
  if (driver.is_ok()) driver_ = std::move(driver).value();
  sight_.store(driver_ ? Sight::kDriver : Sight::kNone, std::memory_order_release);
  return driver_ != nullptr;
}

std::optional<int> DeviceWatch::ask(const void* memory) {
  using device::PointerAttribute;
  const device::DevicePointer at = device::number_of(memory);
  unsigned type = 0;
  int ordinal = 0;
  const bool owned = driver_->pointer_get_attribute(&type, PointerAttribute::kMemoryType, at) ==
                         device::Cu::kSuccess &&
                     type == device::kMemoryTypeDevice &&
                     driver_->pointer_get_attribute(&ordinal, PointerAttribute::kDevice, at) ==
                         device::Cu::kSuccess;
  return owned ? std::optional(ordinal) : std::nullopt;
}

}  // namespace holdfast::mpi

// Processes of this machine, told from later ones with the same number, and the kernel's word that
// one of them has ended. A connection may outlive its process, in the hands of the children that
// it had; a process does not.
// Why: docs/decisions/0115-a-death-is-the-kernels-word.md
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// What a process says of itself. From the network: believe none of it.
struct ProcessId {
  // Of the kernel, the namespaces and the host that the process takes for its own: two processes
  // of one realm mean the same by a number. 0: it cannot tell.
  std::uint64_t realm = 0;
  std::uint64_t number = 0;   // pid
  std::uint64_t started = 0;  // in the kernel's ticks

  bool operator==(const ProcessId&) const = default;
};

// `host`: processes of different hosts are of different realms, be they of one kernel.
ProcessId this_process(std::string_view host);

// In the kernel's ticks: tells a process from a later one with the same number. 0: no such process,
// or none that this one may see.
std::uint64_t start_time(std::uint64_t number);
std::uint64_t pid_namespace();  // 0: unknown

// One process, watched by a descriptor that becomes readable when it has ended: when it is gone or
// a zombie, whatever children it leaves. Owner of the descriptor.
class WatchedProcess final {
 public:
  enum class ProcessState : std::uint8_t {
    kUnseen,   // it cannot be watched from here: another realm, an old kernel, no permission
    kWatched,  // look at descriptor()
    kEnded,    // proven
  };

  WatchedProcess() = default;
  // `self`: of this process.
  WatchedProcess(const ProcessId& process, const ProcessId& self);
  WatchedProcess(WatchedProcess&& other) noexcept;
  WatchedProcess& operator=(WatchedProcess&& other) noexcept;
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;
  ~WatchedProcess();

  ProcessState state() const { return state_; }
  // Watched, and the kernel would let it run: it is not stopped, and has not ended.
  bool is_running() const;
  int descriptor() const { return descriptor_; }  // negative: not watched

 private:
  ProcessState state_ = ProcessState::kUnseen;
  int descriptor_ = -1;
  std::uint64_t number_ = 0;
};

}  // namespace holdfast

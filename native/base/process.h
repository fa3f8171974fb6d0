// Processes of this machine, told from later ones with the same number, and the kernel's proof that
// one of them has ended. A connection may outlive its process, because children of the process
// still hold it, so its closing is no such proof.
// Why: docs/decisions/0115-a-death-is-the-kernels-word.md
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// What a process says of itself. It comes from the network: trust none of it.
struct ProcessId {
  // Made of the kernel, the namespaces and the host that the process takes for its own: two
  // processes of one realm mean the same by a number. 0: the process cannot tell.
  std::uint64_t realm = 0;
  std::uint64_t number = 0;   // pid
  std::uint64_t started = 0;  // in the kernel's ticks

  bool operator==(const ProcessId&) const = default;
};

// `host`: processes with different hosts have different realms, even on one kernel.
ProcessId this_process(std::string_view host);

// Start time in the kernel's ticks: tells a process from a later one with the same number. 0: no
// such process, or none that this one may see.
std::uint64_t start_time(std::uint64_t number);
std::uint64_t pid_namespace();  // 0: unknown

// One process, watched by a descriptor that becomes readable when it has ended: when it is gone or
// a zombie, whatever children it leaves. Owns the descriptor.
class WatchedProcess final {
 public:
  enum class ProcessState : std::uint8_t {
    kUnseen,   // it cannot be watched from here: another realm, an old kernel, no permission
    kWatched,  // look at descriptor()
    kEnded,    // proven
  };

  WatchedProcess() = default;
  // `self`: the id of this process.
  WatchedProcess(const ProcessId& process, const ProcessId& self);
  WatchedProcess(WatchedProcess&& other) noexcept;
  WatchedProcess& operator=(WatchedProcess&& other) noexcept;
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;
  ~WatchedProcess();

  ProcessState state() const { return state_; }
  // Whether it is watched and the kernel would let it run: it is not stopped, and has not ended.
  bool is_running() const;
  int descriptor() const { return descriptor_; }  // negative: not watched

 private:
  ProcessState state_ = ProcessState::kUnseen;
  int descriptor_ = -1;
  std::uint64_t number_ = 0;
};

}  // namespace holdfast

// Process: this process's part in an MPI program, from init to finalize: its runtime, its world,
// and all objects of the program. There is one, since MPI's functions have no argument that could
// say which.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/message/mailbox.h"
#include "mpi/core/call.h"
#include "mpi/core/device_watch.h"
#include "mpi/core/error_codes.h"
#include "mpi/core/keyvals.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"
#include "mpi/traffic/request.h"
#include "mpi/traffic/script.h"
#include "mpi/types/fortran_types.h"
#include "runtime/node.h"

struct hf_node;

namespace holdfast::mpi {

struct Comm;
struct BufferPool;
struct Datatype;
struct Message;
struct Launched;

class Process {
 public:
  enum class Phase : int { kBefore, kBeginning, kRunning, kEnded, kForked };

  // Joins the world. `level`: the thread level asked for; all levels are served alike.
  int begin(Call& call, int level);
  // Waits for what is under way, and leaves the world.
  int end(Call& call);
  // Ends this process, and the job with it.
  [[noreturn]] void abort_job(Comm* comm, int code);
  // In a forked child, which has none of the threads and connections of its parent.
  void leave_to_parent() { phase_.store(Phase::kForked, std::memory_order_release); }

  // Any thread.
  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  bool is_running() const { return phase() == Phase::kRunning; }
  // Of the program; from init on.
  const Abi& abi() const { return *abi_; }
  int thread_level() const { return level_; }
  bool is_main_thread() const { return std::this_thread::get_id() == main_thread_; }
  comm::Mailbox& mailbox() const { return *mailbox_; }
  runtime::Node& node() const { return *node_; }
  const std::shared_ptr<comm::Communicator>& world_group() const { return world_group_; }
  // The node as the C interface has it; null where MPI is not running. It is the process's.
  hf_node* c_node();

  Registry& registry = mpi::registry();
  DeviceWatch devices;
  Keyvals keyvals;
  ErrorCodes errors;
  FortranTypes fortran_types;
  Comm* world = nullptr;  // null before init
  Comm* self = nullptr;
  Datatype* byte_type = nullptr;       // MPI_BYTE
  Message* no_message = nullptr;       // MPI_MESSAGE_NO_PROC
  Orphans orphans;                     // freed requests under way
  Scripts scripts;                     // multi-step calls under way
  std::shared_ptr<BufferPool> buffer;  // of MPI_Buffer_attach; null: none
  // Begun by MPI_Session_init, and not by MPI_Init yet: the last session ends it. Release: what
  // was begun is seen by who reads it.
  std::atomic<bool> sessions_only{false};

  // Proposals of contexts with lower numbers have been made, or seen. Those of the world and of
  // MPI_COMM_SELF come before the first. Relaxed: only the number itself counts.
  std::atomic<std::uint32_t> next_proposal{2};
  std::atomic<std::uint32_t> next_partitions{0};  // numbers of partitioned sends; see partitions.h

 private:
  holdfast::Status join(const Launched& launched);
  Failure make_world();

  std::atomic<Phase> phase_{Phase::kBefore};  // acq_rel: what init made is seen after it
  const Abi* abi_ = nullptr;
  int level_ = 0;
  std::thread::id main_thread_;
  std::shared_ptr<runtime::Node> node_;
  std::unique_ptr<Store> store_;
  std::shared_ptr<comm::Communicator> world_group_;
  std::shared_ptr<comm::Mailbox> mailbox_;
  std::mutex c_node_mutex_;  // guards c_node_
  std::unique_ptr<hf_node> c_node_;
};

// The one of this process. It lives as long as the process: programs may call MPI_Finalized from
// destructors of their own.
Process& process();

}  // namespace holdfast::mpi

// For programs that use holdfast.h beside MPI: the node that MPI runs on, whose devices, and
// whose emulated device, are those that MPI knows.
extern "C" hf_node* hf_mpi_node();
// As Open MPI and MPICH have it: whether buffers may be memory of a CUDA device.
extern "C" int MPIX_Query_cuda_support();

// Comm: a communicator of a program.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "comm/message/mail_request.h"
#include "mpi/comms/group.h"
#include "mpi/core/attributes.h"
#include "mpi/core/errhandler.h"
#include "mpi/core/info.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Topology;
struct BufferPool;

struct Comm : Object {
  static constexpr Kind kKind = Kind::kComm;
  Comm() : Object(kKind) {}
  ~Comm();

  int rank = 0;             // in `local`
  Group* local = nullptr;   // a use of its own
  Group* remote = nullptr;  // of an inter-communicator: the other side, a use of its own; else null
  // Names its messages; the next numbers those of its collectives, and of its partitioned messages.
  // The same on all its ranks, and no other communicator of any of them has had it.
  std::uint32_t context = 0;
  // Its collectives; of an inter-communicator: those of its own side. Owners: this, and calls.
  std::shared_ptr<comm::Communicator> group;
  std::shared_ptr<const Topology> topology;  // null: none. Owners: this, and its duplicates
  Errhandler* errhandler = nullptr;          // a use of its own
  Attributes attributes;
  std::shared_ptr<Info> hints;  // null: none
  std::string name;
  std::shared_ptr<BufferPool> buffer;  // for buffered sends; null: none. Owners: this, its sends
  bool is_open = false;                // for messages
  std::once_flag parts_once;           // for partitioned ones, which few have
  bool has_parts = false;
  // Collectives that go by messages, counted alike on all ranks: their tags tell them apart.
  std::atomic<std::uint32_t> scripts{0};

  int size() const { return local->size(); }
  bool is_inter() const { return remote != nullptr; }
  // The ranks that messages go to and come from.
  const Group& peers() const { return remote != nullptr ? *remote : *local; }
  comm::ContextId messages() const { return comm::ContextId{context}; }
  comm::ContextId collectives() const { return comm::ContextId{context + 1}; }
  // Where the two ends of partitioned messages meet, and their data (partitions.h).
  comm::ContextId meetings() const { return comm::ContextId{context + 2}; }
  comm::ContextId partitions() const { return comm::ContextId{context + kPartitionsSpace}; }
  static constexpr std::uint32_t kPartitionsSpace = 3;
  static constexpr std::uint32_t kContexts = 4;
};

}  // namespace holdfast::mpi

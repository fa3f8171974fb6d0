// How communicators are made: an agreement on the number of their context, which is one small
// collective, and then nothing that other ranks would have to answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/comms/comm.h"
#include "mpi/core/call.h"
#include "mpi/traffic/script.h"

namespace holdfast::mpi {

// Finds a context that no rank of `parent` has used, by a collective of it: the same on all ranks.
// `caller`: the call of the program.
Failure agree_context(Comm& parent, const char* caller, std::uint32_t* context);
// As agree_context(), among processes that need no communicator in common but `parent`, whose
// messages they use: `members` are numbers of the world, the caller among them.
Failure agree_context_among(Comm& parent, const std::vector<int>& members, int tag,
                            std::uint32_t* context);
// Adds the steps of agree_context() to a script; *context is there when it has ended.
void add_context_steps(Script& script, Comm& parent, std::uint32_t* context);
// What this process proposes: no communicator of its own has used it, or a later one.
std::uint32_t propose_context();
// No later communicator of this process gets it.
void take_context(std::uint32_t context);

// A communicator without messages yet. `members`: numbers of the world, this process among them.
// `group`: its collectives. It has the parent's error handler and a group of its own.
Comm* new_comm(Call& call, const std::vector<int>& members,
               std::shared_ptr<comm::Communicator> group, Errhandler* errhandler);
// Gives it its context, and opens it for messages.
Failure open_comm(Comm& comm, std::uint32_t context);
// Opens it for partitioned messages, once.
Failure open_for_partitions(Comm& comm);
// Closes it: what is under way on it goes on (MPI-4.1, 7.4.3). `comm` loses a use.
void close_comm(Comm* comm);

// The ranks of the core's world that make up a group of the core: derived of `parent`'s, by ranks
// of it; empty: this process is in none. `members_tag`: only the members call.
Result<std::shared_ptr<comm::Communicator>> derive_group(
    const std::shared_ptr<comm::Communicator>& parent, const std::vector<int>& ranks,
    std::optional<std::uint64_t> members_tag = {});

}  // namespace holdfast::mpi

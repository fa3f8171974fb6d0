// Collectives: what a call of MPI asks for, as data, and the script that does it: a collective of
// the core on an intra-communicator, messages and collectives of both sides on an
// inter-communicator.
#pragma once

#include <cstdint>
#include <memory>

#include "base/short_list.h"
#include "mpi/traffic/request.h"
#include "mpi/traffic/script.h"

namespace holdfast::mpi {

struct Comm;
struct Datatype;
struct Op;

// Memory of the program: a block of a collective.
struct Part {
  void* at = nullptr;
  std::int64_t count = 0;
  Datatype* type = nullptr;  // null: no elements
  bool packed = false;       // `at` is the packed form already
};
using Parts = ShortList<Part, 8>;
// Of its packed form.
std::uint64_t bytes_of(const Part& part);
// Whether it is one run of host memory, which need not be packed.
bool is_run(const Part& part);

// As comm/schedule/collective.h has it: what the blocks of each collective are. On an
// inter-communicator blocks by rank are those of the other side.
struct CollectiveCall {
  comm::Collective what{};
  Comm* comm = nullptr;
  int root = 0;
  Op* op = nullptr;    // null: nothing is combined
  bool equal = false;  // all blocks of all ranks have one size
  Parts input = {};
  Parts output = {};
  // The output lies where the input does, and the core must not be told so.
  bool overlaps = false;
};

// How the call is to be done.
enum class Form : std::uint8_t { kNow, kLater, kPersistent };

// Does it; for kLater and kPersistent, `request` is what the program gets.
int perform(Call& call, const CollectiveCall& asked, Form form, Request*& request);
int perform(Call& call, const CollectiveCall& asked);

// Adds to `script` what the call does on an inter-communicator.
void add_inter_steps(Script& script, const CollectiveCall& asked);

// The request of the core, with the memory that the script has for what is no run: packed before,
// unpacked after. `script`, `step`: null where all blocks are runs.
comm::OpRequest request_of(const CollectiveCall& asked, Script* script, Step* step);
bool is_contiguous(const CollectiveCall& asked);

// Runs a script that is complete in one of the forms.
int run_script(Call& call, std::shared_ptr<Script> script, Form form, Request*& request);

}  // namespace holdfast::mpi

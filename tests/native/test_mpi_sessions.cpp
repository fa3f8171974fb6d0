// Sessions of a program that nobody launched, and what any program asks of its surroundings.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/comms/comm.h"
#include "mpi/comms/group.h"
#include "mpi/core/errhandler.h"
#include "mpi/core/info.h"
#include "mpi/core/predefined.h"
#include "mpi/core/session.h"
#include "mpi_abi.h"

using namespace holdfast::mpi;

namespace {

Errhandler* returns() {
  return static_cast<Errhandler*>(process().registry.find(Kind::kErrhandler, kErrorsReturn));
}

bool is_initialized() {
  TestCall call;
  bool flag = false;
  CHECK(body::Initialized(call, flag) == kSuccess);
  return flag;
}

bool is_finalized() {
  TestCall call;
  bool flag = false;
  CHECK(body::Finalized(call, flag) == kSuccess);
  return flag;
}

}  // namespace

TEST_CASE("memory is aligned as info says, and each has an address of its own") {
  TestCall call;
  void* first = nullptr;
  void* second = nullptr;
  CHECK(body::Alloc_mem(call, 0, nullptr, &first) == kSuccess);
  CHECK(body::Alloc_mem(call, 100, nullptr, &second) == kSuccess);
  CHECK(first != nullptr);
  CHECK(first != second);
  CHECK(reinterpret_cast<std::uintptr_t>(second) % 64 == 0);
  CHECK(body::Free_mem(call, first) == kSuccess);
  CHECK(body::Free_mem(call, second) == kSuccess);
  Info* info = nullptr;
  REQUIRE(body::Info_create(call, info) == kSuccess);
  REQUIRE(body::Info_set(call, info, "mpi_minimum_memory_alignment", "4096") == kSuccess);
  CHECK(body::Alloc_mem(call, 10, info, &first) == kSuccess);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 4096 == 0);
  CHECK(body::Free_mem(call, first) == kSuccess);
  REQUIRE(body::Info_set(call, info, "mpi_minimum_memory_alignment", "100") == kSuccess);
  TestCall uneven;
  CHECK(body::Alloc_mem(uneven, 10, info, &first) == kErrInfoValue);
  CHECK(says(uneven, "\"100\"", "powers of two"));
  TestCall negative;
  CHECK(body::Alloc_mem(negative, -1, nullptr, &first) == kErrArg);
  TestCall huge;
  CHECK(body::Alloc_mem(huge, INT64_MAX - 100, nullptr, &first) == kErrNoMem);
}

TEST_CASE("a program knows its library, its host and the time") {
  TestCall call;
  char text[256];
  int length = 0;
  CHECK(body::Get_library_version(call, TextOut(text, sizeof text, &length)) == kSuccess);
  CHECK(std::string(text).find("Holdfast ") == 0);
  CHECK(body::Get_processor_name(call, TextOut(text, sizeof text, &length)) == kSuccess);
  CHECK(length > 0);
  int version = 0;
  int subversion = -1;
  CHECK(body::Get_version(call, version, subversion) == kSuccess);
  CHECK(version == test_abi().version);
  const double before = body::Wtime(call);
  CHECK(body::Wtime(call) >= before);
  CHECK(body::Wtick(call) > 0);
  CHECK(body::Wtick(call) <= 1e-6);
}

TEST_CASE("sessions begin the process, know its sets, and the last one ends it") {
  TestCall call;
  Session* session = nullptr;
  const int begun = body::Session_init(call, nullptr, returns(), session);
  INFO(call.text());
  REQUIRE(begun == kSuccess);
  CHECK(!is_initialized());
  Session* second = nullptr;
  REQUIRE(body::Session_init(call, nullptr, returns(), second) == kSuccess);

  int sets = 0;
  CHECK(body::Session_get_num_psets(call, session, nullptr, sets) == kSuccess);
  CHECK(sets == 2);
  char name[64];
  int length = 0;
  CHECK(body::Session_get_nth_pset(call, session, nullptr, 0,
                                   TextOut(name, sizeof name, &length)) == kSuccess);
  CHECK(std::string(name) == "mpi://WORLD");
  TestCall far;
  CHECK(body::Session_get_nth_pset(far, session, nullptr, 2, TextOut(name, sizeof name, &length)) ==
        kErrArg);
  CHECK(says(far, "n is 2", "0 to 1"));
  Info* info = nullptr;
  CHECK(body::Session_get_pset_info(call, session, "mpi://SELF", info) == kSuccess);
  CHECK(info->get("mpi_size") == "1");
  TestCall unknown;
  CHECK(body::Session_get_pset_info(unknown, session, "mpi://MOON", info) == kErrArg);
  CHECK(says(unknown, "mpi://MOON"));

  Group* group = nullptr;
  CHECK(body::Group_from_session_pset(call, session, "mpi://WORLD", group) == kSuccess);
  CHECK(group->size() == 1);
  Comm* comm = nullptr;
  CHECK(body::Comm_create_from_group(call, group, "tests", nullptr, returns(), comm) == kSuccess);
  REQUIRE(comm != nullptr);
  CHECK(comm->size() == 1);
  CHECK(comm->errhandler == returns());
  CHECK(body::Barrier(call, comm) == kSuccess);
  CHECK(body::Comm_free(call, comm) == kSuccess);
  CHECK(body::Group_free(call, group) == kSuccess);

  std::vector<std::byte> memory(1000);
  void* detached = nullptr;
  std::int64_t size = 0;
  CHECK(body::Session_attach_buffer(call, session, memory.data(), 1000) == kSuccess);
  CHECK(body::Session_detach_buffer(call, session, &detached, size) == kSuccess);
  CHECK(detached == memory.data());
  CHECK(size == 1000);

  CHECK(body::Session_finalize(call, session) == kSuccess);
  CHECK(session == nullptr);
  CHECK(process().is_running());
  CHECK(body::Session_finalize(call, second) == kSuccess);
  CHECK(!process().is_running());
  CHECK(!is_finalized());
  TestCall late;
  CHECK(body::Session_init(late, nullptr, returns(), session) == kErrOther);
}

// What a program asks of its surroundings: MPI-4.1, chapter 9, and MPI-5.0's of its binary
// interface.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <string>

#include "holdfast/holdfast.h"
#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/core/info.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

namespace {

// Memory for messages begins at a cache line, so that vectors of it do not lie across two.
constexpr std::size_t kLeastAlignment = 64;
// More than the address space of a process: the system need not be asked.
constexpr std::size_t kMostMemory = std::size_t{1} << 47;
// Beyond this an alignment is a mistake.
constexpr std::size_t kMostAlignment = std::size_t{1} << 30;
constexpr const char* kAlignmentKey = "mpi_minimum_memory_alignment";

int read_alignment(Call& call, const Info* info, std::size_t* alignment) {
  const auto text = info == nullptr ? std::nullopt : info->get(kAlignmentKey);
  if (!text.has_value()) return kSuccess;
  std::size_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || !std::has_single_bit(value) ||
      value > kMostAlignment) {
    return call.fail(kErrInfoValue, std::string(kAlignmentKey) + " of info is \"" + *text +
                                        "\", accepted are powers of two up to " +
                                        std::to_string(kMostAlignment));
  }
  *alignment = std::max(*alignment, value);
  return kSuccess;
}

}  // namespace

namespace body {

int Get_version(Call& call, int& version, int& subversion) {
  // That of the header which the program was compiled with.
  version = call.abi().version;
  subversion = call.abi().subversion;
  return kSuccess;
}

int Get_library_version(Call& call, const TextOut& version) {
  version.set(std::string("Holdfast ") + hf_version() + ", binary interface: " + call.abi().name);
  return kSuccess;
}

int Get_processor_name(Call& call, const TextOut& name) {
  char host[HOST_NAME_MAX + 1];
  if (gethostname(host, sizeof host) != 0) {
    return call.fail(kErrOther, "the system does not say its host's name");
  }
  host[HOST_NAME_MAX] = '\0';
  name.set(host);
  return kSuccess;
}

int Get_hw_resource_info(Call& call, Info*& hw_info) {
  // No kind of resource that a process could be bound to is told apart yet.
  return give_made(call, process().registry.make<Info>(), "infos", hw_info);
}

int Abi_get_version(Call& call, int& abi_major, int& abi_minor) {
  abi_major = call.abi().abi_version;
  abi_minor = call.abi().abi_subversion;
  return kSuccess;
}

int Abi_get_info(Call& call, Info*& info) {
  std::vector<InfoEntry> entries{{"mpi_aint_size", std::to_string(sizeof(std::intptr_t))},
                                 {"mpi_count_size", std::to_string(sizeof(std::int64_t))},
                                 {"mpi_offset_size", std::to_string(sizeof(std::int64_t))}};
  return give_made(call, process().registry.make<Info>(std::move(entries)), "infos", info);
}

double Wtime(Call&) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double Wtick(Call&) {
  using Tick = std::chrono::steady_clock::period;
  return static_cast<double>(Tick::num) / static_cast<double>(Tick::den);
}

// It is for profilers, which bring their own.
int Pcontrol(Call&, int) { return kSuccess; }

int Alloc_mem(Call& call, std::int64_t size, Info* info, void** baseptr) {
  if (size < 0) {
    return call.fail(kErrArg, "size is " + std::to_string(size) + ", accepted are numbers from 0");
  }
  if (baseptr == nullptr) return call.fail(kErrArg, "baseptr is a null pointer");
  std::size_t alignment = kLeastAlignment;
  const int code = read_alignment(call, info, &alignment);
  if (code != kSuccess) return code;
  // A multiple of the alignment, and at least one, so that each memory has an address of its own.
  const std::size_t bytes = (static_cast<std::size_t>(size) / alignment + 1) * alignment;
  void* memory = bytes > kMostMemory ? nullptr : std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) {
    return call.fail(kErrNoMem,
                     "size is " + std::to_string(size) + ", and the system has no such memory");
  }
  *baseptr = memory;
  return kSuccess;
}

int Free_mem(Call&, const void* base) {
  std::free(const_cast<void*>(base));
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi

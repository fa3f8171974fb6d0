// Packing: MPI-4.1, 5.2 and 5.3, and addresses: 5.1.5.
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/calls/made.h"
#include "mpi/traffic/device_data.h"
#include "mpi/types/datatype.h"
#include "mpi/types/external32.h"

namespace holdfast::mpi {

namespace {

int check_elements(Call& call, const char* argument, std::int64_t count, const Datatype* type) {
  Checks checks(call);
  checks.count(argument, count).type("datatype", type);
  if (checks.failed()) return checks.code();
  if (type->fits(count)) return kSuccess;
  return call.fail(kErrCount, std::string(argument) + " is " + std::to_string(count) +
                                  ", whose bytes leave 63 bits; accepted are smaller ones");
}

// Whether `needed` bytes of a buffer of `size` lie behind `position`.
int check_place(Call& call, const char* size_name, std::int64_t size, std::int64_t position,
                std::uint64_t needed) {
  if (size < 0) {
    return call.fail(kErrArg, std::string(size_name) + " is " + std::to_string(size) +
                                  ", accepted are numbers from 0");
  }
  if (position < 0 || position > size) {
    return call.fail(kErrArg, "position is " + std::to_string(position) + ", accepted are 0 to " +
                                  std::to_string(size) + ", the buffer's size");
  }
  if (needed <= static_cast<std::uint64_t>(size - position)) return kSuccess;
  return call.fail(kErrTruncate, std::string(size_name) + " is " + std::to_string(size) +
                                     ", of which " + std::to_string(size - position) +
                                     " bytes lie behind position; the elements need " +
                                     std::to_string(needed));
}

int check_memory(Call& call, const char* argument, const void* at, std::uint64_t bytes) {
  if (at != nullptr || bytes == 0) return kSuccess;
  return call.fail(kErrBuffer, std::string(argument) + " is a null pointer, and there are " +
                                   std::to_string(bytes) + " bytes");
}

int check_representation(Call& call, std::string_view datarep) {
  if (datarep.data() != nullptr && datarep == "external32") return kSuccess;
  return call.fail(kErrUnsupportedDatarep,
                   "datarep is \"" + std::string(datarep) + "\", accepted is \"external32\"");
}

// Bytes of `count` elements, of which fits() is true, in external32.
std::uint64_t external_bytes(const Datatype& type, std::int64_t count) {
  if (type.elements == nullptr) return 0;
  std::uint64_t bytes = 0;
  const bool huge =
      __builtin_mul_overflow(type.elements->external, static_cast<std::uint64_t>(count), &bytes);
  return huge ? UINT64_MAX : bytes;
}

std::byte* behind(void* at, std::int64_t position) {
  return static_cast<std::byte*>(at) + position;
}
const std::byte* behind(const void* at, std::int64_t position) {
  return static_cast<const std::byte*>(at) + position;
}

int unfit(Call& call, const char* type) {
  return call.fail(kErrConversion, std::string("a value of ") + type +
                                       " does not fit external32, where such a type is smaller");
}

}  // namespace

namespace body {

int Pack(Call& call, const void* inbuf, std::int64_t incount, Datatype* datatype, void* outbuf,
         std::int64_t outsize, std::int64_t& position, Comm*) {
  int code = check_elements(call, "incount", incount, datatype);
  if (code != kSuccess) return code;
  Checks checks(call);
  if (checks.buffer("inbuf", inbuf, incount, datatype).failed()) return checks.code();
  const std::uint64_t bytes = datatype->bytes_of(incount);
  code = check_place(call, "outsize", outsize, position, bytes);
  if (code == kSuccess) code = check_memory(call, "outbuf", outbuf, bytes);
  if (code != kSuccess || bytes == 0) return code;
  code = call.take(pack_elements(*datatype, incount, inbuf, behind(outbuf, position)));
  if (code == kSuccess) position += static_cast<std::int64_t>(bytes);
  return code;
}

int Unpack(Call& call, const void* inbuf, std::int64_t insize, std::int64_t& position, void* outbuf,
           std::int64_t outcount, Datatype* datatype, Comm*) {
  int code = check_elements(call, "outcount", outcount, datatype);
  if (code != kSuccess) return code;
  Checks checks(call);
  if (checks.buffer("outbuf", outbuf, outcount, datatype).failed()) return checks.code();
  const std::uint64_t bytes = datatype->bytes_of(outcount);
  code = check_place(call, "insize", insize, position, bytes);
  if (code == kSuccess) code = check_memory(call, "inbuf", inbuf, bytes);
  if (code != kSuccess || bytes == 0) return code;
  code = call.take(unpack_elements(*datatype, outcount, behind(inbuf, position), outbuf));
  if (code == kSuccess) position += static_cast<std::int64_t>(bytes);
  return code;
}

int Pack_size(Call& call, std::int64_t incount, Datatype* datatype, Comm*, std::int64_t& size) {
  const int code = check_elements(call, "incount", incount, datatype);
  if (code == kSuccess) size = narrowed(call, datatype->bytes_of(incount));
  return code;
}

int Pack_external(Call& call, std::string_view datarep, const void* inbuf, std::int64_t incount,
                  Datatype* datatype, void* outbuf, std::int64_t outsize, std::int64_t& position) {
  int code = check_representation(call, datarep);
  if (code == kSuccess) code = check_elements(call, "incount", incount, datatype);
  if (code != kSuccess) return code;
  Checks checks(call);
  if (checks.buffer("inbuf", inbuf, incount, datatype).failed()) return checks.code();
  const std::uint64_t bytes = external_bytes(*datatype, incount);
  code = check_place(call, "outsize", outsize, position, bytes);
  if (code == kSuccess) code = check_memory(call, "outbuf", outbuf, bytes);
  if (code != kSuccess || bytes == 0) return code;
  std::vector<std::byte> packed(datatype->bytes_of(incount));
  code = call.take(pack_elements(*datatype, incount, inbuf, packed.data()));
  if (code != kSuccess) return code;
  std::vector<std::byte> external(bytes);
  const char* wrong = to_external32(datatype->elements, static_cast<std::uint64_t>(incount),
                                    packed.data(), external.data());
  if (wrong != nullptr) return unfit(call, wrong);
  code = call.take(copy_to(behind(outbuf, position), external));
  if (code == kSuccess) position += static_cast<std::int64_t>(bytes);
  return code;
}

int Unpack_external(Call& call, std::string_view datarep, const void* inbuf, std::int64_t insize,
                    std::int64_t& position, void* outbuf, std::int64_t outcount,
                    Datatype* datatype) {
  int code = check_representation(call, datarep);
  if (code == kSuccess) code = check_elements(call, "outcount", outcount, datatype);
  if (code != kSuccess) return code;
  Checks checks(call);
  if (checks.buffer("outbuf", outbuf, outcount, datatype).failed()) return checks.code();
  const std::uint64_t bytes = external_bytes(*datatype, outcount);
  code = check_place(call, "insize", insize, position, bytes);
  if (code == kSuccess) code = check_memory(call, "inbuf", inbuf, bytes);
  if (code != kSuccess || bytes == 0) return code;
  std::vector<std::byte> external(bytes);
  code = call.take(copy_from(behind(inbuf, position), external));
  if (code != kSuccess) return code;
  std::vector<std::byte> packed(datatype->bytes_of(outcount));
  const char* wrong = from_external32(datatype->elements, static_cast<std::uint64_t>(outcount),
                                      external.data(), packed.data());
  if (wrong != nullptr) return unfit(call, wrong);
  code = call.take(unpack_elements(*datatype, outcount, packed.data(), outbuf));
  if (code == kSuccess) position += static_cast<std::int64_t>(bytes);
  return code;
}

int Pack_external_size(Call& call, std::string_view datarep, std::int64_t incount,
                       Datatype* datatype, std::int64_t& size) {
  int code = check_representation(call, datarep);
  if (code == kSuccess) code = check_elements(call, "incount", incount, datatype);
  if (code == kSuccess) size = narrowed(call, external_bytes(*datatype, incount));
  return code;
}

int Get_address(Call&, const void* location, std::int64_t& address) {
  address = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(location));
  return kSuccess;
}

// Addresses are counted modulo 2^64, as pointers are.
std::int64_t Aint_add(Call&, std::int64_t base, std::int64_t disp) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(base) +
                                   static_cast<std::uint64_t>(disp));
}

std::int64_t Aint_diff(Call&, std::int64_t addr1, std::int64_t addr2) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(addr1) -
                                   static_cast<std::uint64_t>(addr2));
}

}  // namespace body
}  // namespace holdfast::mpi

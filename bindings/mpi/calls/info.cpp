// Infos: MPI-4.1, chapter 10.
#include <algorithm>
#include <cstring>
#include <string>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/core/info.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

namespace {

int refuse_null(Call& call, const Info* info) {
  if (info != nullptr) return kSuccess;
  return call.fail(kErrInfo, "info is MPI_INFO_NULL, accepted are infos that were created");
}

// A limit of an ABI counts the zero at the end.
int check_text(Call& call, int code, const char* argument, std::string_view text, int limit) {
  if (text.data() == nullptr) return call.fail(code, std::string(argument) + " is a null pointer");
  const auto most = static_cast<std::size_t>(limit) - 1;
  if (text.size() <= most) return kSuccess;
  return call.fail(code, std::string(argument) + " has " + std::to_string(text.size()) +
                             " characters, accepted are up to " + std::to_string(most));
}

int check_key(Call& call, std::string_view key) {
  const int code = check_text(call, kErrInfoKey, "key", key, call.abi().limits.info_key);
  if (code != kSuccess || !key.empty()) return code;
  return call.fail(kErrInfoKey, "key is empty, accepted are keys of at least one character");
}

int check(Call& call, const Info* info, std::string_view key) {
  const int code = refuse_null(call, info);
  return code != kSuccess ? code : check_key(call, key);
}

// At most `room` bytes with the zero.
void put(char* at, std::size_t room, std::string_view text) {
  const std::size_t taken = std::min(text.size(), room - 1);
  std::memcpy(at, text.data(), taken);
  at[taken] = '\0';
}

}  // namespace

namespace body {

int Info_create(Call& call, Info*& info) {
  return give_made(call, process().registry.make<Info>(), "infos", info);
}

int Info_create_env(Call& call, int* argc, char*** argv, Info*& info) {
  char* const* texts = argv == nullptr ? nullptr : *argv;
  return give_made(call, process().registry.make<Info>(environment(argc, texts)), "infos", info);
}

int Info_dup(Call& call, Info* info, Info*& newinfo) {
  const int code = refuse_null(call, info);
  if (code != kSuccess) return code;
  return give_made(call, process().registry.make<Info>(info->entries()), "infos", newinfo);
}

int Info_free(Call& call, Info*& info) {
  const int code = refuse_null(call, info);
  if (code != kSuccess) return code;
  if (info->predefined) {
    return call.fail(kErrInfo, "info is MPI_INFO_ENV, accepted are infos that the program made");
  }
  process().registry.take_back(info);
  info = nullptr;
  return kSuccess;
}

int Info_set(Call& call, Info* info, std::string_view key, std::string_view value) {
  int code = check(call, info, key);
  if (code != kSuccess) return code;
  code = check_text(call, kErrInfoValue, "value", value, call.abi().limits.info_value);
  if (code != kSuccess) return code;
  if (info->predefined) {
    return call.fail(kErrInfo, "info is MPI_INFO_ENV, accepted are infos that the program made");
  }
  if (info->set(key, value)) return kSuccess;
  return call.fail(
      kErrInfo, "info has " + std::to_string(Info::kMostKeys) + " keys already, and takes no more");
}

int Info_delete(Call& call, Info* info, std::string_view key) {
  const int code = check(call, info, key);
  if (code != kSuccess) return code;
  if (info->predefined) {
    return call.fail(kErrInfo, "info is MPI_INFO_ENV, accepted are infos that the program made");
  }
  if (info->erase(key)) return kSuccess;
  return call.fail(kErrInfoNoKey,
                   "key is \"" + std::string(key) + "\", accepted are keys that the info has");
}

int Info_get(Call& call, Info* info, std::string_view key, int valuelen, const TextOut& value,
             bool& flag) {
  const int code = check(call, info, key);
  if (code != kSuccess) return code;
  if (valuelen < 0) {
    return call.fail(kErrArg,
                     "valuelen is " + std::to_string(valuelen) + ", accepted are numbers from 0");
  }
  const auto found = info->get(key);
  flag = found.has_value();
  // The array has one byte more than valuelen says.
  if (flag) put(value.at(), static_cast<std::size_t>(valuelen) + 1, *found);
  return kSuccess;
}

int Info_get_string(Call& call, Info* info, std::string_view key, int& buflen, const TextOut& value,
                    bool& flag) {
  const int code = check(call, info, key);
  if (code != kSuccess) return code;
  if (buflen < 0) {
    return call.fail(kErrArg,
                     "buflen is " + std::to_string(buflen) + ", accepted are numbers from 0");
  }
  const auto found = info->get(key);
  flag = found.has_value();
  if (!flag) return kSuccess;
  if (buflen > 0) put(value.at(), static_cast<std::size_t>(buflen), *found);
  buflen = static_cast<int>(found->size()) + 1;
  return kSuccess;
}

int Info_get_valuelen(Call& call, Info* info, std::string_view key, int& valuelen, bool& flag) {
  const int code = check(call, info, key);
  if (code != kSuccess) return code;
  const auto found = info->get(key);
  flag = found.has_value();
  if (flag) valuelen = static_cast<int>(found->size());
  return kSuccess;
}

int Info_get_nkeys(Call& call, Info* info, int& nkeys) {
  const int code = refuse_null(call, info);
  if (code == kSuccess) nkeys = static_cast<int>(info->size());
  return code;
}

int Info_get_nthkey(Call& call, Info* info, int n, const TextOut& key) {
  const int code = refuse_null(call, info);
  if (code != kSuccess) return code;
  const auto found = n < 0 ? std::nullopt : info->key(static_cast<std::size_t>(n));
  if (!found.has_value()) {
    const std::size_t size = info->size();
    return call.fail(kErrArg, "n is " + std::to_string(n) +
                                  (size == 0 ? ", accepted is none, as the info has no keys"
                                             : ", accepted are 0 to " + std::to_string(size - 1)));
  }
  key.set(*found);
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi

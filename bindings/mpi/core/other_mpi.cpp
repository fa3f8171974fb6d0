#include "mpi/core/other_mpi.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace holdfast::mpi {
namespace {

// As files of libraries begin, for all ABIs and versions.
constexpr std::array<std::string_view, 3> kNames{"libmpi.so", "libmpich.so", "libmpi_abi.so"};

// Of a library, with what links stand for.
std::string folder_of(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return (error ? std::filesystem::path(path) : real).parent_path();
}

struct Search {
  std::string own_folder;
  std::string found;
};

int look(dl_phdr_info* info, std::size_t, void* state) {
  auto& search = *static_cast<Search*>(state);
  const std::string path = info->dlpi_name;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  for (const std::string_view prefix : kNames) {
    if (name.substr(0, prefix.size()) != prefix || folder_of(path) == search.own_folder) continue;
    search.found = path;
    return 1;
  }
  return 0;
}

}  // namespace

std::string own_path() {
  Dl_info info{};
  const auto* inside = reinterpret_cast<const void*>(&own_path);
  return ::dladdr(inside, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string other_mpi() {
  Search search{folder_of(own_path()), {}};
  // A program that has MPI linked in has no library to compare with.
  ::dl_iterate_phdr(look, &search);
  return search.found;
}

}  // namespace holdfast::mpi

// Info: keys and their values, in the order in which the keys were first set.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/object.h"

namespace holdfast::mpi {

struct InfoEntry {
  std::string key;
  std::string value;
};

struct Info : Object {
  static constexpr Kind kKind = Kind::kInfo;
  // A program that sets more keys than this in one info has lost count: no hint is that long.
  static constexpr std::size_t kMostKeys = 65536;

  Info() : Object(kKind) {}
  explicit Info(std::vector<InfoEntry> entries) : Object(kKind), entries_(std::move(entries)) {}

  // All methods: any thread.
  std::optional<std::string> get(std::string_view key) const;
  // False: there are kMostKeys already.
  bool set(std::string_view key, std::string_view value);
  // False: there is no such key.
  bool erase(std::string_view key);
  std::size_t size() const;
  std::optional<std::string> key(std::size_t n) const;
  std::vector<InfoEntry> entries() const;

 private:
  mutable std::mutex mutex_;  // guards entries_
  std::vector<InfoEntry> entries_;
};

// What MPI_INFO_ENV says of a program that was started with these arguments (MPI-4.1, 11.2.1);
// `argc` and `argv` may be null. Keys whose value is not known are left out.
std::vector<InfoEntry> environment(const int* argc, char* const* argv);

}  // namespace holdfast::mpi

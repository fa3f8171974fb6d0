// ErrorCodes: MPI's error classes with their names, and the classes, codes and texts that the
// program adds to them. It also keeps, per class of MPI's own, the text of the last failure, so
// that MPI_Error_string says which argument was wrong to whoever has the code alone.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "mpi/core/constants.h"

namespace holdfast::mpi {

// "MPI_ERR_RANK"; a number that is no class of MPI's own: "".
std::string_view error_name(int code);

class ErrorCodes {
 public:
  // A program that adds more has lost count: codes are for people to read.
  static constexpr int kMostAdded = 1 << 16;
  // Of the text of a failure so much is kept: more than any ABI's MPI_MAX_ERROR_STRING.
  static constexpr std::size_t kMostText = 1024;

  // All methods: any thread. They return false where the program may not do so, and say why.
  bool add_class(int* added, std::string* problem);
  bool add_code(int error_class, int* added, std::string* problem);
  bool set_text(int code, std::string_view text, std::string* problem);
  bool remove_class(int code, std::string* problem);
  bool remove_code(int code, std::string* problem);
  bool remove_text(int code, std::string* problem);

  bool knows(int code) const;
  // kErrUnknown of what is no code.
  int class_of(int code) const;
  // A sentence for each code; of codes that the program added, what it gave, or "".
  std::string text(int code) const;
  // The highest code there is, as MPI_LASTUSEDCODE says.
  int last_used() const;

  // That a call failed, and why; only the last of each class is kept.
  void remember(int code, std::string_view text);

 private:
  static constexpr int kClasses = kErrAbi + 1;
  struct Added {
    bool is_class = false;
    int of_class = 0;
    int codes = 0;  // of this class
    std::string text;
    bool has_text = false;
  };
  const Added* find(int code) const;

  mutable std::mutex mutex_;  // guards all below
  std::map<int, Added> added_;
  std::array<std::string, kClasses> last_failure_;
};

}  // namespace holdfast::mpi

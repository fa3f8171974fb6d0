// Call: one call of an MPI function, from the entry point to the error handler, and the arguments
// as bodies see them: arrays, statuses, texts and functions that lie in the program's memory and
// are read and written through its ABI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mpi/core/abi.h"
#include "mpi/core/constants.h"
#include "mpi/core/failure.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Comm;
struct Session;

// An array of numbers of the program: `int`, or 64 bits wide.
class IntArray {
 public:
  IntArray() = default;
  IntArray(const Abi& abi, const void* at, bool wide, Meaning meaning = Meaning::kPlain)
      : abi_(&abi), at_(at), wide_(wide), meaning_(meaning) {}
  bool is_null() const { return at_ == nullptr; }
  // For arrays of weights: MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are addresses.
  const void* address() const { return at_; }
  std::int64_t operator[](std::size_t i) const {
    if (wide_) return static_cast<const std::int64_t*>(at_)[i];
    const int value = static_cast<const int*>(at_)[i];
    return meaning_ == Meaning::kPlain ? value : abi_->to_core(meaning_, value);
  }

 private:
  const Abi* abi_ = nullptr;
  const void* at_ = nullptr;
  bool wide_ = false;
  Meaning meaning_ = Meaning::kPlain;
};

class OutInts {
 public:
  OutInts() = default;
  OutInts(const Abi& abi, void* at, bool wide, Meaning meaning = Meaning::kPlain)
      : abi_(&abi), at_(at), wide_(wide), meaning_(meaning) {}
  bool is_null() const { return at_ == nullptr; }
  const void* address() const { return at_; }
  void set(std::size_t i, std::int64_t value) const {
    if (wide_) {
      static_cast<std::int64_t*>(at_)[i] = value;
    } else {
      const int narrow = static_cast<int>(value);
      static_cast<int*>(at_)[i] =
          meaning_ == Meaning::kPlain ? narrow : abi_->from_core(meaning_, narrow);
    }
  }
  // For arrays that are both read and written.
  std::int64_t get(std::size_t i) const { return IntArray(*abi_, at_, wide_, meaning_)[i]; }

 private:
  const Abi* abi_ = nullptr;
  void* at_ = nullptr;
  bool wide_ = false;
  Meaning meaning_ = Meaning::kPlain;
};

// An array of handles, read (and, where the call may, written) one by one.
template <class T>
class Handles {
 public:
  Handles() = default;
  Handles(const Abi& abi, const void* at) : abi_(&abi), at_(at) {}
  bool is_null() const { return at_ == nullptr; }
  // Null: the null handle, or, with *valid false, no handle at all.
  T* get(std::size_t i, bool* valid) const {
    return static_cast<T*>(abi_->read_handle(slot(i), T::kKind, valid));
  }
  void set(std::size_t i, T* object) const {
    abi_->write_handle(const_cast<void*>(slot(i)), T::kKind, object);
  }

 private:
  const void* slot(std::size_t i) const {
    return static_cast<const std::byte*>(at_) + i * abi_->handle_bytes(T::kKind);
  }
  const Abi* abi_ = nullptr;
  const void* at_ = nullptr;
};

// Where a status goes, if anywhere; or statuses, by index.
class StatusOut {
 public:
  StatusOut() = default;
  StatusOut(const Abi& abi, void* at) : abi_(&abi), at_(at) {}
  bool is_ignored() const { return at_ == nullptr || abi_->ignores_status(at_); }
  void set(const Status& status, std::size_t i = 0, bool with_error = false) const {
    if (!is_ignored()) abi_->write_status(at_, i, status, with_error);
  }
  Status get(std::size_t i = 0) const { return abi_->read_status(at_, i); }

 private:
  const Abi* abi_ = nullptr;
  void* at_ = nullptr;
};

// Where a text goes: at most `limit` bytes with the zero at its end.
class TextOut {
 public:
  TextOut() = default;
  // What the program is told of the length: what was written, or, with its zero, what it takes.
  enum class Told : std::uint8_t { kWritten, kNeeded };
  TextOut(char* at, std::int64_t limit, int* length, Told told = Told::kWritten)
      : at_(at), limit_(limit), length_(length), told_(told) {}
  char* at() const { return at_; }
  // Cut off where it does not fit.
  void set(std::string_view text) const;

 private:
  char* at_ = nullptr;
  std::int64_t limit_ = 0;
  int* length_ = nullptr;
  Told told_ = Told::kWritten;
};

using Function = void (*)();

// Where the process stands. Sessions count: with one open, calls may begin.
enum class Stage : std::uint8_t { kBefore, kRunning, kAfter, kForked };
Stage stage();  // written with init and finalize

class Call;
// Hands the failure of a call to the handler of the communicator, of the session, or of
// MPI_COMM_SELF where both are null, and returns what the call returns. Written with handlers.
int raise(Call& call, int code, Comm* comm, Session* session);

class Call {
 public:
  // `wide`: the twin for large counts, whose name ends in _c.
  Call(const Abi& abi, const char* name, bool wide = false) : abi_(abi), name_(name), wide_(wide) {}

  const Abi& abi() const { return abi_; }
  const char* name() const { return name_; }
  bool is_wide() const { return wide_; }

  // Says what is wrong, and returns the class: `return call.fail(kErrRank, "...")`. The text names
  // argument and value, and what is accepted; the call's name is put before it.
  [[nodiscard]] int fail(int code, std::string text);
  // Says what has failed, if anything, and returns the class.
  [[nodiscard]] int take(Failure failure) {
    return failure.code == kSuccess ? kSuccess : fail(failure.code, std::move(failure.text));
  }
  const std::string& text() const { return text_; }
  bool failed() const { return code_ != kSuccess; }
  int code() const { return code_; }
  // Says whose handler a failure is for, where the arguments do not: of a request, say.
  void concerns(Comm* comm) { comm_ = comm; }

  // Refuses what no call may have: called before init, after finalize, or in a forked child.
  bool may_begin() { return stage() == Stage::kRunning || refuse_stage(); }
  // An argument that is no handle, or a null one where none is taken.
  void refuse_handle(Kind kind, const char* argument, bool is_null, const void* slot);
  // Hands a failure to the handler of the communicator (or session, or of MPI_COMM_SELF where there
  // is neither), and returns what the entry point returns: a code of the ABI.
  int end(int code, Comm* comm, Session* session = nullptr) {
    return code == kSuccess ? kSuccess : end_failed(code, comm, session);
  }

 private:
  bool refuse_stage();
  int end_failed(int code, Comm* comm, Session* session);

  const Abi& abi_;
  const char* name_;
  const bool wide_;
  int code_ = kSuccess;
  Comm* comm_ = nullptr;
  std::string text_;
};

}  // namespace holdfast::mpi

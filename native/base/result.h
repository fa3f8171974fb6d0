// Status and Result<T>: errors from outside, as values that cannot be ignored.
// A small substitute for std::expected, which g++ 12 and nvcc 13 do not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/types.h"

namespace holdfast {

// One code per error class of the public hierarchy (HoldfastError and its subclasses).
enum class Code : std::uint8_t {
  kOk,
  kPeerLost,       // a peer died or left during the op
  kTimeout,        // the op's or the start's time limit passed
  kNotMember,      // used after the view ended, or by a stranger
  kAuthFailed,     // a token or certificate was refused
  kProtocolError,  // mismatched calls, other versions, damaged bytes
  kConfigError,    // an option or argument that cannot be used
  kAborted,        // the user aborted
  kUnsupported,    // valid, but not provided here (dtype, device, op)
  kSystem,         // the operating system refused (sockets, memory)
  kUnconfirmed,    // the group was closed before others had confirmed what they have
};

inline constexpr int kCodeCount = 11;

const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status ok() { return {}; }

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Ranks the error is about (the lost ones, the missing ones); empty when none.
  const std::vector<Rank>& ranks() const { return ranks_; }
  Epoch epoch() const { return epoch_; }
  Status about(std::vector<Rank> ranks, Epoch epoch) && {
    ranks_ = std::move(ranks);
    epoch_ = epoch;
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  Epoch epoch_{};
  std::vector<Rank> ranks_;
  std::string message_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return status;` both read well.
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { require(!status_.is_ok()); }

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    require(value_.has_value());
    return *value_;
  }
  const T& value() const& {
    require(value_.has_value());
    return *value_;
  }
  T&& value() && {
    require(value_.has_value());
    return std::move(*value_);
  }

 private:
  // Not CHECK, because tests that include this header have another CHECK.
  static void require(bool holds) {
    if (!holds) check_failed("a Result is either a value or an error", __FILE__, __LINE__);
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace holdfast

// Returns from the enclosing function when `expression` (a Status) is an error.
#define TRY(expression)                            \
  do {                                             \
    ::holdfast::Status try_status_ = (expression); \
    if (!try_status_.is_ok()) return try_status_;  \
  } while (false)

// Reducer: what combines the elements of a reduction: a kernel of this folder, or an operator of
// the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "comm/reduce/kernels.h"

namespace holdfast::comm {

// An operator that a caller brings, on elements that only it understands. All ranks of a call bring
// one of the same meaning, size and commutativity. It must be associative.
//
// It is called on the host's memory, on operands aligned as elements of that size can be (to the
// largest power of two that divides the size, at most 16), by the thread that drives the runtime:
// a caller that waits, or the progress thread. No lock is held meanwhile: it may start and abort
// ops, but a wait in it would wait for itself, and it must not throw. An op may call it piece by
// piece, in any number of pieces.
struct UserOp {
  // inout[i] = in[i] op inout[i], as MPI_User_function has it: `in` holds the lower ranks.
  std::function<void(const void* in, void* inout, std::uint64_t count)> apply;
  std::uint64_t element_bytes = 1;
  // If not, elements are folded in the order of ranks: ((0 op 1) op 2) op ...
  bool commutative = false;
};

// Largest element of a user operator: a rank may have to copy an operand of one element.
inline constexpr std::uint64_t kMostUserElement = std::uint64_t{256} << 20;

// dst[i] = lhs[i] op rhs[i], never with the operands exchanged. dst may be the same memory as lhs
// or rhs, but may not overlap them otherwise.
void combine_by(const UserOp& user, void* dst, const void* lhs, const void* rhs,
                std::uint64_t count);

class Reducer {
 public:
  Reducer() = default;
  Reducer(ReduceKernel kernel) : kernel_(kernel) {}
  // `user`: must outlive the reducer; null: the kernel of (dtype, op).
  Reducer(DType dtype, ReduceOp op, const UserOp* user)
      : kernel_(user == nullptr ? reduce_kernel(dtype, op) : nullptr), user_(user) {}

  explicit operator bool() const { return kernel_ != nullptr || user_ != nullptr; }
  void operator()(void* dst, const void* lhs, const void* rhs, std::uint64_t count) const {
    if (kernel_ != nullptr) return kernel_(dst, lhs, rhs, count);
    combine_by(*user_, dst, lhs, rhs, count);
  }

 private:
  ReduceKernel kernel_ = nullptr;
  const UserOp* user_ = nullptr;
};

}  // namespace holdfast::comm

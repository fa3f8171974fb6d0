// Keyvals: the keys of attributes that the program has created. A key that was freed lives on in
// the attributes that have it, whose functions are still called (MPI-4.1, 7.7.2).
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "mpi/core/call.h"
#include "mpi/core/constants.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct AttributeKey {
  int number = 0;
  Kind of = Kind::kComm;  // or kType: what objects it is for
  Function copy = nullptr;
  Function erase = nullptr;
  void* state = nullptr;
};
// Its owners: Keyvals until the key is freed, and each attribute.
using SharedKey = std::shared_ptr<const AttributeKey>;

class Keyvals {
 public:
  // The first number that a program's key gets; MPI's own are lower.
  static constexpr int kFirstMade = 1024;
  // Numbers are not given twice, so that a key that was freed is seen to be; ABIs whose keys have
  // the kind in their number have 22 bits for the rest.
  static constexpr int kMostKeys = 1 << 22;

  // All methods: any thread. kKeyvalInvalid: the numbers are used up.
  int create(Kind of, Function copy, Function erase, void* state);
  // Null: there is none, or none any more. One that was freed is there while attributes have it,
  // and may be freed again.
  SharedKey find(int number) const;
  void free(int number);

  // Where C programs find the value of one of MPI's own attributes: null if `number` is none.
  int* predefined(int number);
  static bool is_predefined(int number) { return number >= kTagUb && number <= kUniverseSize; }

 private:
  mutable std::mutex mutex_;  // guards keys_, freed_ and next_
  std::map<int, SharedKey> keys_;
  std::map<int, std::weak_ptr<const AttributeKey>> freed_;
  int next_ = kFirstMade;
  std::array<int, kUniverseSize - kTagUb + 1> predefined_{};  // written and read atomically
};

}  // namespace holdfast::mpi

// Attributes: what a program attached to a communicator or a type, in the order of attaching, and
// the calls of its functions when they are copied or deleted.
#pragma once

#include <mutex>
#include <vector>

#include "mpi/core/call.h"
#include "mpi/core/keyvals.h"

namespace holdfast::mpi {

struct Attribute {
  SharedKey key;
  void* value = nullptr;
};

class Attributes {
 public:
  // All methods: any thread. No function of the program is called in them.
  bool find(const AttributeKey& key, void** value) const;
  // Puts it at the end, in place of what the key had.
  void set(const SharedKey& key, void* value);
  void erase(const AttributeKey& key);
  std::vector<Attribute> all() const;

 private:
  mutable std::mutex mutex_;  // guards entries_
  std::vector<Attribute> entries_;
};

// The bodies of Comm_set_attr and its kin. `object` is what has the attributes, and `keyval` the
// argument, which has to be a key of the object's kind. Each returns an error code.
int set_attribute(Call& call, Object& object, Attributes& attributes, int keyval, void* value);
int get_attribute(Call& call, Object& object, const Attributes& attributes, int keyval,
                  void** value, bool* found);
int delete_attribute(Call& call, Object& object, Attributes& attributes, int keyval);

// Before an object is duplicated: its attributes are copied, in order, as their functions say. If
// one of those fails, what was copied is deleted again, and its code is returned.
int copy_attributes(Call& call, Object& from, const Attributes& attributes, Object& to,
                    Attributes& copies);
// Before an object is freed: the last attached is deleted first. At the first function that fails,
// its code is returned, and its attribute and those before it stay.
int delete_attributes(Call& call, Object& object, Attributes& attributes);

}  // namespace holdfast::mpi

#include "mpi/core/attributes.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

bool Attributes::find(const AttributeKey& key, void** value) const {
  const std::lock_guard lock(mutex_);
  for (const Attribute& entry : entries_) {
    if (entry.key.get() != &key) continue;
    *value = entry.value;
    return true;
  }
  return false;
}

void Attributes::set(const SharedKey& key, void* value) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Attribute& entry) { return entry.key == key; });
  entries_.push_back({key, value});
}

void Attributes::erase(const AttributeKey& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Attribute& entry) { return entry.key.get() == &key; });
}

std::vector<Attribute> Attributes::all() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

namespace {

std::string kind_of(Kind kind) { return kind == Kind::kType ? "datatypes" : "communicators"; }

// Null, and the call has failed, where `keyval` is no key for objects of this kind.
SharedKey find_key(Call& call, const Object& object, int keyval, int* code) {
  SharedKey key = process().keyvals.find(keyval);
  if (key != nullptr && key->of == object.kind) return key;
  std::string text = "keyval is " + std::to_string(keyval);
  if (keyval == kKeyvalInvalid) text = "keyval is MPI_KEYVAL_INVALID";
  if (Keyvals::is_predefined(keyval)) text += ", which MPI alone sets";
  if (key != nullptr) text += ", a key of " + kind_of(key->of);
  text += "; accepted are keys of " + kind_of(object.kind) + " that were created and not freed";
  *code = call.fail(kErrKeyval, std::move(text));
  return nullptr;
}

// Deletes one attribute, whose function may forbid it.
int delete_one(Call& call, Object& object, Attributes& attributes, const Attribute& attribute) {
  const AttributeKey& key = *attribute.key;
  if (key.erase != nullptr && !call.abi().is_null_delete(key.erase)) {
    const int code = call.abi().call_delete_attribute(key.erase, &object, key.number,
                                                      attribute.value, key.state);
    if (code != kSuccess) {
      return call.fail(code, "the delete function of keyval " + std::to_string(key.number) +
                                 " returned " + std::to_string(code) + ", accepted is MPI_SUCCESS");
    }
  }
  attributes.erase(key);
  return kSuccess;
}

// The value of one of MPI's own attributes, as the program's ABI spells it.
int predefined_value(const Abi& abi, int keyval) {
  switch (keyval) {
    case kTagUb: return kMostTag;
    case kIo:  // every process can read and write files
      return abi.from_core(Meaning::kRank, kAnySource);
    case kHost:  // no process is a host of the others
      return abi.from_core(Meaning::kRank, kProcNull);
    case kLastUsedCode: return abi.from_core(Meaning::kError, process().errors.last_used());
    case kUniverseSize: return process().world == nullptr ? 1 : process().world->size();
    default:  // kAppnum: the job has one program; kWtimeIsGlobal: each host has its own clock
      return 0;
  }
}

}  // namespace

int set_attribute(Call& call, Object& object, Attributes& attributes, int keyval, void* value) {
  int code = kSuccess;
  const SharedKey key = find_key(call, object, keyval, &code);
  if (key == nullptr) return code;
  void* before = nullptr;
  if (attributes.find(*key, &before)) {
    code = delete_one(call, object, attributes, {key, before});
    if (code != kSuccess) return code;
  }
  attributes.set(key, value);
  return kSuccess;
}

int get_attribute(Call& call, Object& object, const Attributes& attributes, int keyval,
                  void** value, bool* found) {
  *found = false;
  if (int* own = process().keyvals.predefined(keyval);
      own != nullptr && object.kind == Kind::kComm) {
    // Relaxed: each value stands alone.
    std::atomic_ref(*own).store(predefined_value(call.abi(), keyval), std::memory_order_relaxed);
    *value = own;
    *found = true;
    return kSuccess;
  }
  int code = kSuccess;
  const SharedKey key = find_key(call, object, keyval, &code);
  if (key == nullptr) return code;
  *found = attributes.find(*key, value);
  return kSuccess;
}

int delete_attribute(Call& call, Object& object, Attributes& attributes, int keyval) {
  int code = kSuccess;
  const SharedKey key = find_key(call, object, keyval, &code);
  if (key == nullptr) return code;
  void* value = nullptr;
  if (!attributes.find(*key, &value)) {
    return call.fail(kErrKeyval, "keyval is " + std::to_string(keyval) +
                                     ", of which the object has no attribute; accepted are keys "
                                     "whose attributes were set");
  }
  return delete_one(call, object, attributes, {key, value});
}

int copy_attributes(Call& call, Object& from, const Attributes& attributes, Object& to,
                    Attributes& copies) {
  for (const Attribute& attribute : attributes.all()) {
    const AttributeKey& key = *attribute.key;
    if (key.copy == nullptr) continue;
    const Abi::NamedCopy named = call.abi().named_copy(key.copy);
    if (named == Abi::NamedCopy::kNull) continue;
    void* copy = attribute.value;
    int wanted = 1;
    int code = kSuccess;
    if (named == Abi::NamedCopy::kNone) {
      wanted = 0;
      code = call.abi().call_copy_attribute(key.copy, &from, key.number, key.state, attribute.value,
                                            &copy, &wanted);
    }
    if (code != kSuccess) {
      // A second failure would say nothing of the first.
      Call again(call.abi(), call.name(), call.is_wide());
      static_cast<void>(delete_attributes(again, to, copies));
      return call.fail(code, "the copy function of keyval " + std::to_string(key.number) +
                                 " returned " + std::to_string(code) + ", accepted is MPI_SUCCESS");
    }
    if (wanted != 0) copies.set(attribute.key, copy);
  }
  return kSuccess;
}

int delete_attributes(Call& call, Object& object, Attributes& attributes) {
  std::vector<Attribute> all = attributes.all();
  std::reverse(all.begin(), all.end());
  for (const Attribute& attribute : all) {
    const int code = delete_one(call, object, attributes, attribute);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

}  // namespace holdfast::mpi

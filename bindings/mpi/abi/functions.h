// The functions of an Abi's table, the same for all three but for what abi.h and the generated
// values have. Included once in a library, by the ABI's abi.cpp, after both.
#pragma once

#include <cstring>

namespace holdfast::mpi::entry {
namespace {

using Named = Abi::NamedCopy;

Object* read_handle(const void* slot, Kind kind, bool* valid) {
  const Handle handle = *static_cast<const Handle*>(slot);
  Object* object = object_in(handle, kind);
  *valid = object != nullptr || is_null(handle, kind);
  return object;
}

void write_handle(void* slot, Kind kind, Object* object) {
  *static_cast<Handle*>(slot) = handle_out(object, kind);
}

std::size_t handle_bytes(Kind) { return sizeof(Handle); }

Status status_of(const StatusLayout& status) {
  return {.source = to_core(Meaning::kRank, status.source),
          .tag = to_core(Meaning::kTag, status.tag),
          .error = to_core(Meaning::kError, status.error),
          .cancelled = status.is_cancelled(),
          .bytes = static_cast<std::int64_t>(status.bytes())};
}

Status read_status(const void* statuses, std::size_t index) {
  return status_of(static_cast<const StatusLayout*>(statuses)[index]);
}

void write_status(void* statuses, std::size_t index, const Status& status, bool with_error) {
  StatusLayout& out = static_cast<StatusLayout*>(statuses)[index];
  out.source = from_core(Meaning::kRank, status.source);
  out.tag = from_core(Meaning::kTag, status.tag);
  if (with_error) out.error = from_core(Meaning::kError, status.error);
  out.set(static_cast<std::uint64_t>(status.bytes), status.cancelled);
}

void call_op(Function function, bool wide, const void* in, void* inout, std::int64_t count,
             Object* type) {
  Handle handle = handle_out(type, Kind::kType);
  void* from = const_cast<void*>(in);
  if (wide) {
    using Wide = void(void*, void*, std::int64_t*, Handle*);
    reinterpret_cast<Wide*>(function)(from, inout, &count, &handle);
    return;
  }
  using Narrow = void(void*, void*, int*, Handle*);
  int length = static_cast<int>(count);
  reinterpret_cast<Narrow*>(function)(from, inout, &length, &handle);
}

int call_copy_attribute(Function function, Object* object, int keyval, void* state, void* value,
                        void** copy, int* flag) {
  const Named named = named_copy(function);
  if (named != Named::kNone) {
    *flag = named == Named::kDup ? 1 : 0;
    if (named == Named::kDup) *copy = value;
    return kSuccess;
  }
  using Copy = int(Handle, int, void*, void*, void*, int*);
  const int code = reinterpret_cast<Copy*>(function)(handle_out(object, object->kind),
                                                     from_core(Meaning::kKeyval, keyval), state,
                                                     value, static_cast<void*>(copy), flag);
  return to_core(Meaning::kError, code);
}

int call_delete_attribute(Function function, Object* object, int keyval, void* value, void* state) {
  if (is_null_delete(function)) return kSuccess;
  using Delete = int(Handle, int, void*, void*);
  const int code = reinterpret_cast<Delete*>(function)(
      handle_out(object, object->kind), from_core(Meaning::kKeyval, keyval), value, state);
  return to_core(Meaning::kError, code);
}

void call_errhandler(Function function, Object* object, int code) {
  using Handler = void(Handle*, int*, ...);
  Handle handle = handle_out(object, object->kind);
  int given = from_core(Meaning::kError, code);
  reinterpret_cast<Handler*>(function)(&handle, &given);
}

int call_query(Function function, void* state, Status* status) {
  using Query = int(void*, void*);
  StatusLayout layout;
  std::memset(static_cast<void*>(&layout), 0, sizeof layout);
  write_status(&layout, 0, *status, true);
  const int code = reinterpret_cast<Query*>(function)(state, &layout);
  *status = status_of(layout);
  return to_core(Meaning::kError, code);
}

constexpr Abi abi_named(const char* name, int abi_version, int abi_subversion) {
  return {.name = name,
          .version = kVersion,
          .subversion = kSubversion,
          .abi_version = abi_version,
          .abi_subversion = abi_subversion,
          .limits = kLimits,
          .read_handle = read_handle,
          .write_handle = write_handle,
          .handle_bytes = handle_bytes,
          .to_core = to_core,
          .from_core = from_core,
          .ignores_status = [](const void* statuses) { return entry::ignores_status(statuses); },
          .read_status = read_status,
          .write_status = write_status,
          .call_op = call_op,
          .call_copy_attribute = call_copy_attribute,
          .call_delete_attribute = call_delete_attribute,
          .call_errhandler = call_errhandler,
          .call_query = call_query,
          .named_copy = named_copy,
          .is_null_delete = is_null_delete};
}

}  // namespace

int to_core(Meaning meaning, int value) {
  if (meaning == Meaning::kPlain || value == kUndefined || is_the_cores(meaning)) return value;
  if (const auto known = known_to_core(meaning, value)) return *known;
  switch (meaning) {
    case Meaning::kRank:
    case Meaning::kTag:
    case Meaning::kDistributionArgument: return value >= 0 ? value : unknown(value);
    case Meaning::kKeyval: return value >= kFirstMade ? value : unknown(value);
    case Meaning::kError:
      return value > kLastCode ? kFirstUserError - 1 + (value - kLastCode) : unknown(value);
    default: return unknown(value);
  }
}

int from_core(Meaning meaning, int value) {
  if (meaning == Meaning::kPlain || value == kUndefined || is_the_cores(meaning)) return value;
  if (const auto known = known_from_core(meaning, value)) return *known;
  if (meaning == Meaning::kError && value >= kFirstUserError - 1) {
    return kLastCode + (value - (kFirstUserError - 1));
  }
  return value < INT_MIN / 4 ? unknown(value) : value;
}

}  // namespace holdfast::mpi::entry

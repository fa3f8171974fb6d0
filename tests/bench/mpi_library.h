// An MPI library that is opened by its path, for benchmarks: the few calls that make types and pack
// them. Nothing of MPI is needed to build. MPICH and its kin, and Open MPI, are told apart by a
// symbol; handles of both fit into a pointer.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace holdfast::bench {

class MpiLibrary {
 public:
  using Type = std::uintptr_t;

  explicit MpiLibrary(const char* path) : library_(dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
    if (library_ == nullptr) fail(dlerror());
    if (void* const byte = dlsym(library_, "ompi_mpi_byte"); byte != nullptr) {
      byte_ = reinterpret_cast<Type>(byte);
      float_ = reinterpret_cast<Type>(need("ompi_mpi_float"));
      self_ = reinterpret_cast<Type>(need("ompi_mpi_comm_self"));
    }
    call<int(void*, void*)>("MPI_Init")(nullptr, nullptr);
    pack_ = call<Pack>("MPI_Pack");
    unpack_ = call<Unpack>("MPI_Unpack");
  }
  ~MpiLibrary() { call<int()>("MPI_Finalize")(); }
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  Type byte() const { return byte_; }
  Type single() const { return float_; }

  Type contiguous(int count, Type t) {
    return made([&](Type* out) {
      return call<int(int, Type, Type*)>("MPI_Type_contiguous")(count, t, out);
    });
  }
  Type hvector(int count, int blocklength, std::intptr_t stride, Type t) {
    return made([&](Type* out) {
      return call<int(int, int, std::intptr_t, Type, Type*)>("MPI_Type_create_hvector")(
          count, blocklength, stride, t, out);
    });
  }
  Type hindexed(const std::vector<int>& lengths, const std::vector<std::intptr_t>& at, Type t) {
    return made([&](Type* out) {
      return call<int(int, const int*, const std::intptr_t*, Type, Type*)>(
          "MPI_Type_create_hindexed")(static_cast<int>(at.size()), lengths.data(), at.data(), t,
                                      out);
    });
  }
  Type resized(Type t, std::intptr_t lb, std::intptr_t extent) {
    return made([&](Type* out) {
      return call<int(Type, std::intptr_t, std::intptr_t, Type*)>("MPI_Type_create_resized")(
          t, lb, extent, out);
    });
  }
  Type commit(Type t) {
    if (call<int(Type*)>("MPI_Type_commit")(&t) != 0) fail("MPI_Type_commit");
    return t;
  }

  void pack(const void* from, int count, Type t, void* to, std::size_t bytes) const {
    int position = 0;
    if (pack_(from, count, t, to, static_cast<int>(bytes), &position, self_) != 0) fail("MPI_Pack");
  }
  void unpack(const void* from, std::size_t bytes, void* to, int count, Type t) const {
    int position = 0;
    if (unpack_(from, static_cast<int>(bytes), &position, to, count, t, self_) != 0) {
      fail("MPI_Unpack");
    }
  }

 private:
  using Pack = int(const void*, int, Type, void*, int, int*, Type);
  using Unpack = int(const void*, int, int*, void*, int, Type, Type);

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "packing_rates: %s\n", what);
    std::exit(1);
  }
  void* need(const char* name) const {
    void* const found = dlsym(library_, name);
    if (found == nullptr) fail(name);
    return found;
  }
  template <class Signature>
  Signature* call(const char* name) const {
    return reinterpret_cast<Signature*>(need(name));
  }
  template <class Make>
  static Type made(Make make) {
    Type out = 0;
    if (make(&out) != 0) fail("a type could not be made");
    return out;
  }

  void* library_;
  // MPICH's and the like of it.
  Type byte_ = 0x4c00010d;
  Type float_ = 0x4c00040a;
  Type self_ = 0x44000001;
  Pack* pack_ = nullptr;
  Unpack* unpack_ = nullptr;
};

}  // namespace holdfast::bench
